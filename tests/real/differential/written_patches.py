"""Patches of every kind, right and wrong, and who owns which field."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

from collections.abc import Iterator

from tests.apiserver.kind_samples import SELECTED
from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import APPLY, JSON_PATCH, MERGE, NAMESPACE, STRATEGIC
from tests.serving import config_map, widget

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
YAML = "application/apply-patch+yaml"


def stories() -> Iterator[Story]:
    parts = {"size": 1, "parts": [{"name": "a"}, {"name": "b"}]}
    for number, (name, content, patch) in enumerate(_patches()):
        called = f"patched-{number}"
        places = (
            ("configmaps", MAPS, config_map(called, {"a": "1", "b": "2"})),
            ("widgets", WIDGETS, {**widget(called), "spec": parts}),
        )
        for title, collection, body in places:
            path = f"{collection}/{called}"
            asks = (Ask("POST", collection, body), Ask("PATCH", path, patch, {"Content-Type": content}))
            yield Story(f"patches: {title}, {name}", (*asks, Ask("GET", path), Ask("DELETE", path)))
    for number, change in enumerate(_strategic()):
        path, body = f"{DEPLOYMENTS}/strategic-{number}", _deployment(f"strategic-{number}")
        asks = (Ask("POST", DEPLOYMENTS, body), Ask("PATCH", path, change, {"Content-Type": STRATEGIC}))
        yield Story(f"patches: strategic {number}", (*asks, Ask("DELETE", path)))
    for name, collection, bodies in _applied():
        path = f"{collection}/applied"
        told = [Ask("PATCH", f"{path}?{query}", body, {"Content-Type": APPLY}) for query, body in bodies]
        yield Story(f"apply: {name}", (*told, Ask("GET", path), Ask("DELETE", path)))
    for number, port in enumerate(([1], {}, True, 1.5)):
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "applied"}}
        body["spec"] = {"ports": [{"port": 80, "targetPort": port}]}
        path = f"/api/v1/namespaces/{NAMESPACE}/services"
        applied = Ask("PATCH", f"{path}/applied?fieldManager=one", body, {"Content-Type": APPLY})
        yield Story(f"apply: int or string {number}", (applied,))
        yield Story(f"bodies: int or string {number}", (Ask("POST", path, body),))
    yield Story("apply: scale and status", tuple(_subresources()))
    yield Story("apply: managed fields", tuple(_managed_fields()))


def _patches() -> Iterator[tuple[str, str, object]]:
    operations: tuple[tuple[str, object], ...] = (
        ("none", []),
        ("an object", {}),
        ("no json", "["),
        ("unknown op", [{"op": "x", "path": "/data"}]),
        ("no op", [{"path": "/data", "value": 1}]),
        ("no path", [{"op": "add", "value": 1}]),
        ("bad path", [{"op": "add", "path": "data", "value": 1}]),
        ("missing parent", [{"op": "add", "path": "/no/such", "value": 1}]),
        ("missing remove", [{"op": "remove", "path": "/metadata/no"}]),
        ("missing replace", [{"op": "replace", "path": "/metadata/no", "value": 1}]),
        ("failing test", [{"op": "test", "path": "/metadata/name", "value": "no"}]),
        ("test of nothing", [{"op": "test", "path": "/no", "value": 1}]),
        ("test of null", [{"op": "test", "path": "/no", "value": None}]),
        ("no value", [{"op": "add", "path": "/metadata/labels"}]),
        ("copy", [{"op": "copy", "from": "/metadata/name", "path": "/metadata/generateName"}]),
        ("copy from nothing", [{"op": "copy", "from": "/no", "path": "/metadata/labels"}]),
        ("move", [{"op": "move", "from": "/metadata/name", "path": "/metadata/generateName"}]),
        ("name", [{"op": "replace", "path": "/metadata/name", "value": "other"}]),
        ("namespace", [{"op": "replace", "path": "/metadata/namespace", "value": "other"}]),
        ("uid", [{"op": "replace", "path": "/metadata/uid", "value": "other"}]),
        ("kind", [{"op": "replace", "path": "/kind", "value": "Other"}]),
        ("resourceVersion", [{"op": "add", "path": "/metadata/resourceVersion", "value": "1"}]),
        ("label as a number", [{"op": "add", "path": "/metadata/labels", "value": {"a": 1}}]),
        ("bad label", [{"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}]),
        ("unknown field", [{"op": "add", "path": "/surplus", "value": 1}]),
        ("end of list", [{"op": "add", "path": "/spec/parts/-", "value": {"name": "z"}}]),
        ("out of list", [{"op": "add", "path": "/spec/parts/9", "value": {"name": "z"}}]),
        ("same name twice", [{"op": "add", "path": "/spec/parts/-", "value": {"name": "a"}}]),
        ("escaped", [{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}}, {"op": "remove", "path": "/metadata/annotations/a~1b"}]),
        ("too many", [{"op": "test", "path": "/kind", "value": "x"}] * 10001),
    )  # fmt: skip
    for name, patch in operations:
        yield f"json {name}", JSON_PATCH, patch
    merges: tuple[tuple[str, object], ...] = (
        ("nothing", {}),
        ("a list", []),
        ("null", "null"),
        ("no json", "{"),
        ("text", '"x"'),
        ("empty", b""),
        ("name", {"metadata": {"name": "other"}}),
        ("no name", {"metadata": {"name": None}}),
        ("namespace", {"metadata": {"namespace": "other"}}),
        ("uid", {"metadata": {"uid": "other"}}),
        ("no metadata", {"metadata": None}),
        ("metadata as text", {"metadata": "x"}),
        ("kind", {"kind": "Other"}),
        ("version", {"apiVersion": "v9"}),
        ("old resourceVersion", {"metadata": {"resourceVersion": "1"}}),
        ("wrong resourceVersion", {"metadata": {"resourceVersion": "x"}}),
        ("same resourceVersion", {"metadata": {"resourceVersion": "@rv@", "labels": {"a": "b"}}}),
        ("unknown field", {"surplus": 1}),
        ("created", {"metadata": {"creationTimestamp": None, "generation": 9}}),
        ("deleted", {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
        ("finalizers", {"metadata": {"finalizers": ["a", "Bad Finalizer"]}}),
        ("owners", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}] * 2}}),
        ("two controllers", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"]}}),
        ("annotations too long", {"metadata": {"annotations": {"a": "x" * 262144}}}),
        ("data as text", {"data": "x"}),
        ("size as text", {"spec": {"size": "x"}}),
        ("size too small", {"spec": {"size": 0, "color": "green"}}),
        ("no spec", {"spec": None}),
    )  # fmt: skip
    for name, patch in merges:
        for content, word in ((MERGE, "merge"), (STRATEGIC, "strategic")):
            yield f"{word} {name}", content, patch
    yield "unknown content", "application/patch", {}
    yield "json content", "application/json", {}


def _deployment(name: str, **spec: object) -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {**SELECTED, **spec}}


def _strategic() -> Iterator[Object]:
    def containers(*items: Object, **more: object) -> Object:
        return {"spec": {"template": {"spec": {"containers": list(items), **more}}}}

    yield containers({"name": "main", "image": "other"})
    yield containers({"name": "second", "image": "x"})
    yield containers({"image": "x"})
    yield containers({"name": "main", "$patch": "delete"})
    yield containers({"name": "main", "$patch": "replace", "image": "y"})
    yield containers({"$patch": "replace"}, {"name": "only", "image": "z"})
    yield containers({"name": "main", "$patch": "nonsense"})
    yield containers({"name": "b", "image": "x"}, **{"$setElementOrder/containers": [{"name": "b"}, {"name": "main"}]})
    yield containers(**{"$setElementOrder/containers": [{"name": "nobody"}]})
    yield containers(**{"$retainKeys": ["containers"]})
    yield {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    yield {"spec": {"strategy": {"type": "Recreate"}}}
    yield {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    yield {"spec": {"template": {"$patch": "replace", "spec": {"containers": [{"name": "a", "image": "b"}]}}}}
    yield {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    yield {"metadata": {"finalizers": ["example.com/a"]}}
    yield {"spec": {"template": {"spec": {"containers": "x"}}}}
    yield {"spec": {"template": {"spec": {"containers": ["x"]}}}}
    yield {"spec": {"replicas": "3"}}
    yield {"spec": {"replicas": 3.5}}
    yield {"spec": {"replicas": -1}}
    yield {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    yield {"spec": {"unknown": 1, "template": {"spec": {"nothing": True}}}}
    yield {"spec": {"template": {"spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]}}}}  # fmt: skip
    yield {"spec": {"template": {"spec": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}}}}
    yield {"spec": {"template": {"spec": {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}}}}


def _applied() -> Iterator[tuple[str, str, list[tuple[str, object]]]]:
    one, two = "fieldManager=one", "fieldManager=two"
    first = config_map("applied", {"a": "1", "b": "2"})
    other = config_map("applied", {"a": "9", "c": "3"})
    yield "twice", MAPS, [(one, first), (one, first)]
    yield "taken away", MAPS, [(one, first), (one, config_map("applied", {"a": "1"}))]
    yield "conflict", MAPS, [(one, first), (two, other)]
    yield "forced", MAPS, [(one, first), (f"{two}&force=true", other), (one, first)]
    yield "shared", MAPS, [(one, first), (two, first), (one, config_map("applied"))]
    yield "no manager", MAPS, [("", first)]
    yield "manager too long", MAPS, [(f"fieldManager={'m' * 129}", first)]
    yield "bad force", MAPS, [(f"{one}&force=x", first)]
    yield "dry run", MAPS, [(f"{one}&dryRun=All", first)]
    yield "another name", MAPS, [(one, config_map("other", {"a": "1"}))]
    yield "no name", MAPS, [(one, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}})]
    yield "another namespace", MAPS, [(one, config_map("applied", namespace="other"))]
    yield "another kind", MAPS, [(one, {**first, "kind": "Secret"})]
    yield "another version", MAPS, [(one, {**first, "apiVersion": "v9"})]
    yield "no kind", MAPS, [(one, {"metadata": {"name": "applied"}})]
    yield "empty", MAPS, [(one, b"")]
    yield "a list", MAPS, [(one, "- a\n")]
    yield "no yaml", MAPS, [(one, "a: [")]
    yield "managedFields", MAPS, [(one, config_map("applied", managedFields=[{"manager": "x"}]))]
    yield "resourceVersion of nothing", MAPS, [(one, config_map("applied", resourceVersion="7"))]
    yield "uid of nothing", MAPS, [(one, config_map("applied", uid="7"))]
    yield "unknown field", MAPS, [(one, {**first, "x": 1})]
    yield "unknown field, strictly", MAPS, [(f"{one}&fieldValidation=Strict", {**first, "x": 1})]
    yield "wrong type", MAPS, [(one, {**first, "data": {"a": 1}})]
    yield "null", MAPS, [(one, first), (one, {**first, "data": None})]
    yield "binary and data", MAPS, [(one, {**first, "binaryData": {"a": "eA=="}})]
    yield "twice a key in yaml", MAPS, [(one, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\n  name: applied\n")]  # fmt: skip
    toy: Object = {**widget("applied"), "spec": {"size": 1, "parts": [{"name": "a", "count": 1}]}}
    more: Object = {**toy, "spec": {"size": 2, "parts": [{"name": "a", "count": 2}, {"name": "b"}]}}
    twice: Object = {**toy, "spec": {"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}}
    yield "widgets", WIDGETS, [(one, toy), (two, more), (f"{two}&force=true", more), (one, toy)]
    yield "widgets, same key", WIDGETS, [(one, twice)]
    yield "widgets, no key", WIDGETS, [(one, {**toy, "spec": {"size": 1, "parts": [{"count": 1}]}})]
    yield "widgets, wrong type", WIDGETS, [(one, {**toy, "spec": {"size": "x"}})]
    yield "widgets, invalid", WIDGETS, [(one, {**toy, "spec": {"size": 0, "color": "green"}})]
    yield "widgets, unknown", WIDGETS, [(one, {**toy, "x": 1, "spec": {"size": 1, "y": 2}})]
    yield (
        "widgets, strictly",
        WIDGETS,
        [(f"{one}&fieldValidation=Strict", {**toy, "x": 1, "spec": {"size": 1, "y": 2}})],
    )
    web = _deployment("applied", replicas=2)
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    served = {"name": "main", "image": "x", "ports": ports, "env": [{"name": "A", "value": "1"}]}
    template: Object = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [served]}}
    yield "deployments", DEPLOYMENTS, [(one, web), (two, _deployment("applied", replicas=3, template=template))]
    yield "deployments, forced", DEPLOYMENTS, [(one, web), (f"{two}&force=true", _deployment("applied", template=template)), (one, web)]  # fmt: skip
    bad = {"spec": {"containers": [{"name": "a", "image": "b"}, {"name": "a", "image": "b"}]}}
    yield "deployments, same key", DEPLOYMENTS, [(one, _deployment("applied", template=bad))]
    yield "deployments, wrong type", DEPLOYMENTS, [(one, _deployment("applied", replicas="x"))]


def _subresources() -> Iterator[Ask]:
    path = f"{WIDGETS}/parts"
    yield Ask("PATCH", f"{path}?fieldManager=one", widget("parts"), {"Content-Type": APPLY})
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "parts"}}
    yield Ask("PATCH", f"{path}/status?fieldManager=two", {**head, "status": {"replicas": 3}}, {"Content-Type": APPLY})
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "parts"}, "spec": {"replicas": 4}}
    yield Ask("PATCH", f"{path}/scale?fieldManager=three", scale, {"Content-Type": APPLY})
    yield Ask("PATCH", f"{path}/scale?fieldManager=four", {**scale, "spec": {"replicas": 5}}, {"Content-Type": APPLY})
    yield Ask("PUT", f"{path}/scale", scale)
    yield Ask("PUT", f"{path}/scale", {**scale, "spec": {"replicas": -1}})
    yield Ask("PUT", f"{path}/scale", {**scale, "spec": {"replicas": "x"}})
    yield Ask("PUT", f"{path}/scale", {**scale, "metadata": {"name": "other"}})
    yield Ask("PUT", f"{path}/scale", {**scale, "metadata": {"name": "parts", "resourceVersion": "1"}})
    yield Ask("PATCH", f"{path}/scale", {"spec": {"replicas": 2}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/scale", {"spec": {"replicas": 2}}, {"Content-Type": STRATEGIC})
    yield Ask("PUT", f"{path}/status", {**widget("parts", 7), "status": {"phase": "x"}})
    yield Ask("PUT", path, {**widget("parts", 8), "status": {"phase": "y"}})
    yield Ask("GET", path)
    yield Ask("DELETE", path)


def _managed_fields() -> Iterator[Ask]:
    path = f"{MAPS}/owned"
    yield Ask("POST", f"{MAPS}?fieldManager=maker", config_map("owned", {"a": "1"}))
    yield Ask("PATCH", path, {"metadata": {"managedFields": [{}]}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}?fieldManager=x", {"data": {"a": "2"}}, {"Content-Type": MERGE})
    yield Ask(
        "PATCH", path, {"metadata": {"managedFields": [{"manager": "y", "operation": "No"}]}}, {"Content-Type": MERGE}
    )
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    yield Ask("PATCH", path, patch, {"Content-Type": JSON_PATCH})
    yield Ask("PUT", path, {**config_map("owned", {"a": "3"}), "metadata": {"name": "owned", "managedFields": []}})
    wrong = [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2", "fieldsV1": {}}]
    yield Ask("PUT", path, {**config_map("owned"), "metadata": {"name": "owned", "managedFields": wrong}})
    yield Ask("GET", path)
    yield Ask("DELETE", path)
