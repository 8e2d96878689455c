"""What a request is made of: its method, path, query, content type and the bytes of its body."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.real.differential.asking import Ask, Story
from tests.real.differential.kinds import NAMESPACE
from tests.serving import config_map

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
YAML = {"Content-Type": "application/yaml"}
HEAD = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}'
DEEP = HEAD + ',"data":' + '{"a":' * 12000 + "1" + "}" * 12000 + "}"


def stories() -> Iterator[Story]:
    for collection, title in ((MAPS, "configmaps"), (WIDGETS, "widgets")):
        for name, body in _bodies(title == "widgets"):
            for checked in ("Strict", "Warn", "Ignore"):
                ask = Ask("POST", f"{collection}?dryRun=All&fieldValidation={checked}", body)
                yield Story(f"bodies: {title}, {name}, {checked}", (ask,))
        for name, headers, body in _content(title == "widgets"):
            yield Story(f"content: {title}, {name}", (Ask("POST", f"{collection}?dryRun=All", body, headers),))
    for method, path in _methods():
        yield Story(f"methods: {method} {path}", (Ask(method, path),))
    for number, query in enumerate(_options()):
        yield Story(f"options: POST {query}", (Ask("POST", f"{MAPS}?{query}", config_map(f"options-{number}")),))
    for number, (query, sent) in enumerate(_delete_options()):
        path = f"{MAPS}/gone-{number}"
        asks = (Ask("POST", MAPS, config_map(f"gone-{number}")), Ask("DELETE", f"{path}?{query}", sent))
        yield Story(f"options: DELETE {query} {sent}", (*asks, Ask("GET", path)))
    for path in _paths():
        yield Story(f"paths: {path}", (Ask("GET", path),))


def _bodies(custom: bool) -> Iterator[tuple[str, str | bytes]]:
    head = HEAD.replace('"v1"', '"example.com/v1"').replace("ConfigMap", "Widget") if custom else HEAD
    field = ',"spec":{"size":1' if custom else ',"data":{"k":"v"'
    yield "empty", b""
    yield "not json", "{"
    yield "plain text", "hello"
    yield "null", "null"
    yield "a list", "[]"
    yield "a number", "7"
    yield "a string", '"text"'
    yield "an empty object", "{}"
    yield "two objects", f"{head}}}{head}}}"
    yield "trailing comma", f"{head},}}"
    yield "a comment", f"{head}}} // x"
    yield "duplicate key", f"{head}{field},{field[field.index('{') + 1 :]}}}}}"
    yield "duplicate key above", f"{head},{head[1:]}}}"
    yield "unknown field", f'{head},"x":1}}'
    yield "two unknown fields", f'{head},"x":1,"y":{{"z":2}}}}'
    yield "unknown in metadata", head.replace('"name":"b"', '"name":"b","x":1') + "}"
    yield "upper case field", f'{head},"Data":{{}}}}'
    yield "metadata as a list", head.replace('{"name":"b"}', "[]") + "}"
    yield "metadata as text", head.replace('{"name":"b"}', '"b"') + "}"
    yield "metadata null", head.replace('{"name":"b"}', "null") + "}"
    yield "name as a number", head.replace('"b"', "7") + "}"
    yield "labels as a list", head.replace('"name":"b"', '"name":"b","labels":["a"]') + "}"
    yield "label as a number", head.replace('"name":"b"', '"name":"b","labels":{"a":1}') + "}"
    yield "label null", head.replace('"name":"b"', '"name":"b","labels":{"a":null}') + "}"
    yield "a time that is none", head.replace('"name":"b"', '"name":"b","creationTimestamp":"now"') + "}"
    yield "generation as text", head.replace('"name":"b"', '"name":"b","generation":"x"') + "}"
    yield "not utf-8", head.encode() + b',"\xff":"\xfe"}'
    yield "a lone surrogate", head + ',"data":{"k":"\\ud800"}}'
    yield "a control character", head + ',"data":{"k":"\x01"}}'
    yield "infinite", head + ',"data":{"k":Infinity}}'
    yield "apiVersion alone", '{"apiVersion":"v1"}'
    yield "kind alone", '{"kind":"ConfigMap"}'
    yield "no such kind", '{"apiVersion":"v1","kind":"Nothing","metadata":{"name":"b"}}'
    yield "no such version", '{"apiVersion":"v7","kind":"ConfigMap","metadata":{"name":"b"}}'
    yield "slashes", '{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"b"}}'
    yield "apiVersion as a number", '{"apiVersion":1,"kind":"ConfigMap","metadata":{"name":"b"}}'
    yield "a list of the kind", '{"apiVersion":"v1","kind":"List","items":[]}'
    yield "deep", DEEP


def _content(custom: bool) -> Iterator[tuple[str, dict[str, str], str | bytes]]:
    api, kind = ("example.com/v1", "Widget") if custom else ("v1", "ConfigMap")
    text = json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": "c"}, "spec": {"size": 1}})
    yaml = f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: c\nspec:\n  size: 1\n"
    yield "none", {"Content-Type": ""}, text
    yield "json in utf-8", {"Content-Type": "application/json; charset=utf-8"}, text
    yield "upper case", {"Content-Type": "Application/JSON"}, text
    yield "text", {"Content-Type": "text/plain"}, text
    yield "a form", {"Content-Type": "application/x-www-form-urlencoded"}, text
    yield "nonsense", {"Content-Type": ";;"}, text
    yield "cbor", {"Content-Type": "application/cbor"}, text
    yield "yaml", YAML, yaml
    yield "json as yaml", YAML, text
    yield "yaml as json", {"Content-Type": "application/json"}, yaml
    yield "two yaml documents", YAML, f"{yaml}---\n{yaml}"
    yield "broken yaml", YAML, "a: [\n"
    yield "yaml with a tab", YAML, "a:\n\t- b\n"
    yield "yaml anchors", YAML, f"{yaml}x: &a 1\ny: *a\n"
    yield "yaml twice the same key", YAML, f"{yaml}kind: {kind}\n"
    yield "yaml scalar", YAML, "hello"
    yield "empty yaml", YAML, b""
    yield "protobuf that is none", {"Content-Type": "application/vnd.kubernetes.protobuf"}, text
    yield "empty protobuf", {"Content-Type": "application/vnd.kubernetes.protobuf"}, b"k8s\x00"
    for accept in (
        "*/*", "application/*", "application/json;q=0.1,application/yaml", "text/plain", "application/xml,*/*;q=0.5",
        "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=Other;v=v1;g=x",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;stream=watch", "x",
        "application/vnd.kubernetes.protobuf,application/json", "application/cbor", "application/json;pretty=1",
    ):  # fmt: skip
        yield f"accept {accept}", {"Accept": accept}, text


def _methods() -> Iterator[tuple[str, str]]:
    places = (
        "",
        "/api",
        "/api/v1",
        MAPS,
        f"{MAPS}/x",
        f"{WIDGETS}/x",
        WIDGETS,
        f"{DEPLOYMENTS}/x/scale",
        "/api/v1/pods",
    )
    for path in places:
        for method in ("PUT", "PATCH", "POST", "OPTIONS", "TRACE", "FOO"):
            yield method, path or "/"
    yield "DELETE", "/api/v1/configmaps"
    yield "POST", "/api/v1/configmaps"
    yield "POST", f"{DEPLOYMENTS}/x/status"
    yield "DELETE", f"{DEPLOYMENTS}/x/status"
    yield "DELETE", f"{DEPLOYMENTS}/x/scale"
    yield "GET", f"/api/v1/namespaces/{NAMESPACE}/bindings"
    yield "PUT", f"/api/v1/namespaces/{NAMESPACE}/pods/x/binding"
    yield "GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    yield "DELETE", "/api/v1/componentstatuses/etcd-0"


def _options() -> Iterator[str]:
    yield from ("dryRun=Some", "dryRun=", "dryRun=All&dryRun=All", "dryRun=All&dryRun=Other", "dryRun=true")
    yield from (f"dryRun=All&fieldManager={'m' * 129}", "dryRun=All&fieldManager=a%00b", "dryRun=All&fieldManager=")
    yield from ("dryRun=All&fieldValidation=Maybe", "dryRun=All&fieldValidation=", "dryRun=All&pretty=true")
    yield from ("dryRun=All&unknown=1", "dryRun=All&timeout=1s", "dryRun=All&timeout=x", "dryRun=All&timeout=-1s")
    yield from ("dryRun=All&force=true", "dryRun=All&%zz=1", "dryRun=All&a;b=1")


def _delete_options() -> Iterator[tuple[str, object]]:
    for policy in ("Orphan", "Foreground", "Background", "Never", ""):
        yield f"propagationPolicy={policy}", None
        yield "", {"propagationPolicy": policy}
    yield from (("orphanDependents=true", None), ("orphanDependents=x", None), ("orphanDependents=false", None))
    yield "", {"orphanDependents": True, "propagationPolicy": "Background"}
    yield from (("gracePeriodSeconds=-1", None), ("gracePeriodSeconds=x", None), ("gracePeriodSeconds=0", None))
    yield from (("dryRun=x", None), ("", {"dryRun": ["x"]}), ("", {"dryRun": ["All"]}))
    yield "", {"kind": "DeleteOptions", "apiVersion": "v1"}
    yield "", {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    yield "", {"kind": "DeleteOptions", "apiVersion": "example.com/v1"}
    yield "", {"kind": "ConfigMap", "apiVersion": "v1"}
    yield "", {"preconditions": {"resourceVersion": "1"}}
    yield "", {"preconditions": {"uid": "x"}}
    yield "", {"preconditions": {"uid": "@uid@", "resourceVersion": "@rv@"}}
    yield "", {"unknown": 1}
    yield "", "no json"
    yield "propagationPolicy=Orphan", {"propagationPolicy": "Foreground"}
    yield "ignoreStoreReadErrorWithClusterBreakingPotential=true", None


def _paths() -> Iterator[str]:
    yield from (
        "/api/",
        "/apis/",
        "/api/v1/",
        "/api/v2",
        "/apis/nothing",
        "/apis/nothing/v1",
        "/apis/apps",
        "/apis/apps/",
    )
    yield from ("/apis/apps/v2", "/apis/apps/v1/nothing", "/apis/apps/v1/namespaces/x/nothing", "/apis/example.com")
    yield from ("/nothing", "/api/v1/namespaces/x", "/api/v1/namespaces/x/pods", "/api/v1/namespaces/x/nothing/y")
    yield from ("/api/v1/namespaces//pods", "/api/v1//pods", "//api/v1/pods", "/api/v1/pods/", "/API/v1/pods")
    yield from ("/api/v1/namespaces/default/pods/x/nothing", "/api/v1/namespaces/default/pods/x/log")
    yield from ("/api/v1/namespaces/default/pods/x/status", "/api/v1/nodes/x", "/api/v1/nodes/x/status")
    yield from ("/api/v1/namespaces/default/nodes/x", "/api/v1/configmaps/x", "/apis/apps/v1/deployments/x/scale")
    yield from ("/api/v1/namespaces/default/configmaps/%2e%2e", "/api/v1/namespaces/default/configmaps/a%20b")
    yield from ("/api/v1/namespaces/default/configmaps/A_B", "/api/v1/proxy/nodes/x")
    yield from (f"{WIDGETS}/x", f"{WIDGETS}/x/scale", f"{WIDGETS}/x/nothing", "/apis/example.com/v2/widgets")
    yield from ("/apis/apps/v1beta1/deployments", "/apis/extensions/v1beta1/ingresses", "/apis/batch/v1beta1/cronjobs")
    yield from ("/healthz", "/livez", "/readyz", "/healthz/ping", "/healthz/nothing", "/healthz/etcd", "/livez/ping")
    yield from ("/readyz?exclude=nothing", "/ui", "/swagger.json", "/.well-known/openid-configuration", "/openapi")
