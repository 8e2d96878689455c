"""Requests as nobody would write them: from real paths, objects and wire samples, each bent a little.

What is drawn is a seed: a choice that is rare stays rare, and a failure prints the whole request anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from shoal.objects.wire import Request
from tests.serving import widget, widget_definition

Object = dict[str, Any]
Resources = list[tuple[str, str, str, bool]]
"""(group version, plural, kind, namespaced), as discovery tells them."""

GOLDEN: list[Object] = json.loads((Path(__file__).parent.parent / "objects" / "protobuf_golden.json").read_text())

JUNK: list[Any] = [
    None, True, False, 0, -1, 5, 1.5, 2**31, 2**63 - 1, 2**64 - 1, -(2**63), 1e308, "", "x", "A_b", "ü\u0000", "a/b",
    "..", "*", "-", "x" * 300, "2020-01-01T00:00:00Z", "1Gi", "99", "kube-system", [], {}, [None], [[]], [{}],
    ["a", "a"],
    {"": None}, {"a": "b"}, {"a": {"a": []}}, [{"name": "a"}, {"name": "a"}], {"$patch": "delete"}, {"$ref": "#"},
]  # fmt: skip
NAMES = [
    "x", "x", "x", "y", "y", "z", "default", "kube-system", "widgets.example.com", "kubernetes", "cluster-admin",
    "nope", "A_b", "..", "%", "ü", "a:b", "",
]  # fmt: skip
SUBRESOURCES = ["", "", "", "", "status", "scale", "finalize", "token", "nope", "status/more"]
METHODS = ["GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"]
ODD_METHODS = ["HEAD", "OPTIONS", "get", "FOO"]
OTHER_PATHS = [
    "/", "", "//", "/api", "/apis", "/api/v1", "/apis/example.com", "/apis/nope/v1", "/version", "/metrics",
    "/healthz", "/readyz/ping", "/livez/nope", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1",
    "/openapi/v3/apis/example.com/v1", "/openapi/v3/nope", "/.well-known/openid-configuration", "/openid/v1/jwks",
    "/api/v1/watch/pods", "/apis/a/b/c/d/e/f/g/h", "/api/v1/namespaces/default/configmaps/x/",
]  # fmt: skip
QUERIES = [
    "watch=1", "watch=maybe", "limit=1", "limit=-1", "limit=abc", "limit=99999999999999999999", "timeoutSeconds=-5",
    "timeoutSeconds=9223372036854775807", "resourceVersion=0", "resourceVersion=1", "resourceVersion=abc",
    "resourceVersion=999999999", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=Foo", "continue=garbage", "continue=e30", "continue=bnVsbA", "labelSelector=a%3Db",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4XHUwMDAwIn0", "labelSelector=a%20in%20(b,c)",
    "labelSelector=!!", "labelSelector=a%3E5", "fieldSelector=metadata.name%3Dx", "fieldSelector=spec.x%3D1",
    "fieldSelector=%ff", "sendInitialEvents=true", "allowWatchBookmarks=1", "dryRun=All", "dryRun=Foo", "pretty=true",
    "fieldManager=m", "fieldManager=%00", "fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=Foo",
    "force=true", "gracePeriodSeconds=x", "gracePeriodSeconds=0", "propagationPolicy=Foreground", "orphanDependents=1",
    "propagationPolicy=Foo", "includeObject=Object", "includeObject=None", "verbose", "exclude=ping", "%zz=%zz",
    "&&=", "timeout=1s",
]  # fmt: skip
CONTENT_TYPES = [
    "", "application/json", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    "text/plain", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/json;charset=utf-8",
]  # fmt: skip
PATCHES = CONTENT_TYPES[6:10]
ACCEPTS = [
    "", "", "", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/vnd.kubernetes.protobuf",
    "garbage", ";;,,",
]  # fmt: skip
OPERATIONS = ["add", "remove", "replace", "move", "copy", "test", "frob", 5]
POINTERS = [
    "", "/", "/metadata", "/metadata/labels", "/metadata/name", "/metadata/finalizers/-",
    "/metadata/managedFields/0", "/metadata/managedFields/99", "/spec", "/spec/size", "/kind", "/~2", "nope", 5,
]  # fmt: skip


def bent(dice: Random, value: Any) -> Any:
    """The value, often with up to three of its places changed."""
    value = json.loads(json.dumps(value))
    for _ in range(dice.choice([0, 0, 0, 1, 1, 2, 3])):
        places = list(_places(value))
        if not places:
            return junk(dice)
        holder, key = dice.choice(places)
        if dice.random() < 0.2:
            del holder[key]
        else:
            holder[key] = junk(dice)
    return value


def junk(dice: Random) -> Any:
    return json.loads(json.dumps(dice.choice(JUNK)))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(member, dict | list):
            yield from _places(member)


def sample(dice: Random, api_version: str, kind: str, name: str) -> Any:
    """An object of that kind as upstream's own samples have it, bent."""
    found: list[Object] = [golden["json"] for golden in GOLDEN if golden["json"]["kind"] == kind]
    if kind == "Widget":
        found = [widget(name), {"spec": {"size": 2, "parts": [{"name": "a", "count": 1}]}}]
    if kind == "CustomResourceDefinition":
        found = [widget_definition()]
    obj = {**dice.choice([*found, {}]), "apiVersion": api_version, "kind": kind}
    if dice.random() < 0.8:
        obj["metadata"] = {"name": name, "labels": {"a": "b"}}
        if dice.random() < 0.1:
            obj["metadata"]["finalizers"] = ["example.com/f"]
    return bent(dice, obj)


def json_patch(dice: Random) -> Any:
    steps = []
    for _ in range(dice.randint(0, 4)):
        step = {"op": dice.choice(OPERATIONS), "path": dice.choice(POINTERS)}
        if dice.random() < 0.8:
            step |= {"from": dice.choice(POINTERS), "value": junk(dice)}
        steps.append(step)
    return steps


def body_of(dice: Random, content_type: str, api_version: str, kind: str, name: str) -> bytes:
    choice = dice.random()
    if choice < 0.04:
        return dice.randbytes(dice.randint(0, 60))
    if choice < 0.08:
        return json.dumps(junk(dice)).encode()
    if content_type.endswith("protobuf"):
        fitting = [golden for golden in GOLDEN if golden["json"]["kind"] == kind]
        data = bytearray.fromhex(dice.choice(fitting or GOLDEN)["protobuf"])
        for _ in range(dice.randint(0, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        return bytes(data[: dice.randint(0, len(data))] if dice.random() < 0.2 else data)
    if content_type.endswith("json-patch+json") and choice < 0.9:
        return json.dumps(json_patch(dice)).encode()
    return json.dumps(sample(dice, api_version, kind, name)).encode()


def path_of(dice: Random, method: str, api_version: str, plural: str, namespaced: bool, name: str) -> str:
    path = ("/api/" if api_version == "v1" else "/apis/") + api_version
    if namespaced and dice.random() < 0.95:
        path += f"/namespaces/{dice.choice(['default'] * 12 + ['kube-system', 'nope', 'A b'])}"
    path += f"/{plural}" if dice.random() < 0.98 else "/nope"
    named = {"POST": 0.1, "GET": 0.5, "DELETE": 0.9}.get(method, 0.97)
    if dice.random() < named:
        path += f"/{name}/{dice.choice(SUBRESOURCES)}".rstrip("/")
    return dice.choice(OTHER_PATHS) if dice.random() < 0.04 else path


def request_of(dice: Random, prefix: str, token: str, resources: Resources) -> Request:
    api_version, plural, kind, namespaced = dice.choice(resources)
    name = dice.choice(NAMES) if dice.random() < 0.3 else dice.choice("xyz")
    method = dice.choice(METHODS) if dice.random() < 0.95 else dice.choice(ODD_METHODS)
    path = path_of(dice, method, api_version, plural, namespaced, name)
    if dice.random() < 0.04:
        prefix = dice.choice(["/clusters/nope", "/clusters/", "/clusters/*" if method == "GET" else "/clusters"])
    usual = PATCHES if method == "PATCH" else ["application/json"]
    content_type = dice.choice(usual if dice.random() < 0.8 else CONTENT_TYPES)
    headers = {"accept": dice.choice(ACCEPTS) if dice.random() < 0.3 else "", "content-type": content_type}
    if dice.random() < 0.97:
        headers["authorization"] = f"Bearer {token if dice.random() < 0.98 else 'garbage'}"
    if dice.random() < 0.02:
        headers["impersonate-user"] = dice.choice(["u", "", "system:anonymous", "\u00fc"])
    body = b""
    if method in ("POST", "PUT", "PATCH") or dice.random() < 0.2:
        body = body_of(dice, content_type, api_version, kind, name)
    query = "&".join(dice.choices(QUERIES, k=dice.choice([0, 0, 0, 1, 2, 3])))
    if content_type.endswith("yaml") and dice.random() < 0.9:
        query += "&fieldManager=m"
    return Request(method, prefix + path, query, headers, body, remote_addr="127.0.0.1")


def requests(prefix: str, token: str, resources: Resources) -> st.SearchStrategy[Request]:
    return st.integers(0, 2**62).map(lambda seed: request_of(Random(seed), prefix, token, resources))
