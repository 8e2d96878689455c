"""Schemas: how they are read, compared, and what is decided of them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.apiresource import Api, import_name, is_settled, negotiated_name, parse_resource
from shoal.sync.importer.decide import Offer, decide
from shoal.sync.importer.openapi import SchemaError, digest_of, plain, schema_of
from shoal.sync.negotiation.compat import problems
from shoal.sync.negotiation.decide import Served, first, is_withdrawable
from shoal.sync.negotiation.decide import decide as negotiate

Object = dict[str, Any]

API = Api("example.com", "v1", "widgets")
CLUSTER = {"metadata": {"name": "east", "uid": "u-1"}}
SCHEMA: Object = {"type": "object", "properties": {"spec": {"type": "object"}}}
_REF = "#/components/schemas/"


def test_names() -> None:
    assert import_name(API, "east") == "widgets.east.v1.example.com"
    assert negotiated_name(API) == "widgets.v1.example.com"
    assert negotiated_name(Api("", "v1", "pods")) == "pods.v1.core"
    assert parse_resource("deployments.apps") == ("deployments", "apps")
    assert parse_resource("pods") == parse_resource("pods.core") == ("pods", "")


def document(**schemas: Object) -> Object:
    kind = {"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]}
    schemas["Widget"] = {**schemas["Widget"], **kind}
    return {"components": {"schemas": schemas}}


def test_references_are_followed_and_descriptions_dropped() -> None:
    widget = {
        "type": "object",
        "description": "gone",
        "properties": {
            "metadata": {"allOf": [{"$ref": _REF + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}], "default": {}},
            "description": {"type": "string", "description": "a property of that name stays"},
            "spec": {"allOf": [{"$ref": _REF + "Spec"}], "description": "gone", "default": {}},
            "template": {"$ref": _REF + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
        },
    }
    spec = {
        "type": "object",
        "properties": {
            "size": {"$ref": _REF + "io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "parts": {
                "type": "array",
                "items": {"$ref": _REF + "Part"},
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
            },
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        },
    }
    part = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert schema_of(document(Widget=widget, Spec=spec, Part=part), "example.com", "v1", "Widget") == {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "description": {"type": "string"},
            "spec": {
                "type": "object",
                "default": {},
                "properties": {
                    "size": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
                    "parts": {
                        "type": "array",
                        "items": part,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
            },
            "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }


def test_schemas_that_cannot_be_told() -> None:
    widget = {"type": "object", "properties": {"next": {"$ref": _REF + "Widget"}}}
    with pytest.raises(SchemaError, match="Widget refers to itself"):
        schema_of(document(Widget=widget), "example.com", "v1", "Widget")
    with pytest.raises(SchemaError, match="has no Gadget"):
        schema_of(document(Widget=widget), "example.com", "v1", "Gadget")
    lost = {"type": "object", "properties": {"next": {"$ref": _REF + "Lost"}}}
    with pytest.raises(SchemaError, match="refers to Lost and has it not"):
        schema_of(document(Widget=lost), "example.com", "v1", "Widget")


def of(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
STRINGS = {"type": "array", "items": STRING}
ANY = {"type": "object", "additionalProperties": STRING}


@pytest.mark.parametrize(
    ("existing", "new", "wanted"),
    [
        (of(a=STRING), of(a=STRING), []),
        (of(a=STRING), of(a=STRING, b=STRING), []),
        (of(a=STRING, b=STRING), of(a=STRING), ["b: is not there"]),
        (of(a=of(b=STRING)), of(a=of()), ["a.b: is not there"]),
        (of(a=STRING), {"type": "object", "additionalProperties": STRING}, []),
        (of(a=INTEGER), {"type": "object", "additionalProperties": STRING}, ["a: the type is string, not integer"]),
        (of(a=STRING), {"type": "object", "additionalProperties": True}, []),
        (ANY, of(), ["the object: additionalProperties are not accepted"]),
        (of(a=INTEGER), of(a=NUMBER), []),
        (of(a=NUMBER), of(a=INTEGER), ["a: the type is integer, not number"]),
        (of(a=STRING), of(a={"type": "boolean"}), ["a: the type is boolean, not string"]),
        (of(a={**STRING, "enum": ["x"]}), of(a={**STRING, "enum": ["x", "y"]}), []),
        (of(a={**STRING, "enum": ["x", "y"]}), of(a={**STRING, "enum": ["x"]}), ["a: the value 'y' is not accepted"]),
        (of(a=STRING), of(a={**STRING, "enum": ["x"]}), ["a: only some values are accepted"]),
        (of(a=STRING), of(a={**STRING, "maxLength": 3}), ["a: maxLength differs"]),
        (of(a=STRING), {**of(a=STRING), "required": ["a"]}, ["a: is required"]),
        (of(l=STRINGS), of(l={"type": "array", "items": INTEGER}), ["l[]: the type is integer, not string"]),
        (of(a=of()), of(a={**of(), "x-kubernetes-map-type": "atomic"}), ["a: x-kubernetes-map-type differs"]),
        (
            of(a={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            of(a=of()),
            ["a: x-kubernetes-preserve-unknown-fields differs"],
        ),
    ],
)
def test_compatibility(existing: Object, new: Object, wanted: list[str]) -> None:
    assert problems(existing, new) == wanted


def offer(schema: Object | None = None) -> Offer:
    schema = plain(schema or SCHEMA)
    return Offer(API, "Widget", True, schema, digest_of(schema), subresources=("status",))


def imported(schema: Object | None = None, name: str = "east", created: str = "2026-01-01T00:00:00Z") -> Object:
    cluster = {"metadata": {"name": name, "uid": f"u-{name}"}}
    made = decide(cluster, [offer(schema)], [], {}).create[0]
    return {**made, "metadata": {**made["metadata"], "uid": f"i-{name}", "creationTimestamp": created}}


def test_imports_follow_what_is_offered() -> None:
    made = decide(CLUSTER, [offer()], [], {}).create[0]
    assert made["spec"]["openAPIV3Schema"] == SCHEMA
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    found = imported()
    assert decide(CLUSTER, [offer()], [found], {}) == decide(CLUSTER, [], [], {})
    assert decide(CLUSTER, [], [found], {}).delete == (found,)
    other = offer(of(spec=STRING))
    changed = decide(CLUSTER, [other], [found], {}).update[0]
    assert changed["spec"]["schemaDigest"] == other.digest
    assert changed["spec"]["schemaUpdateStrategy"] == "UpdateUnpublished"


def test_a_schema_that_is_the_negotiated_one_is_left_out() -> None:
    digests = {API: offer().digest}
    short = decide(CLUSTER, [offer()], [], digests).create[0]
    assert "openAPIV3Schema" not in short["spec"]
    assert decide(CLUSTER, [offer()], [short], digests) == decide(CLUSTER, [], [], {})
    whole = decide(CLUSTER, [offer()], [short], {}).update[0]
    assert whole["spec"]["openAPIV3Schema"] == SCHEMA
    assert decide(CLUSTER, [offer()], [whole], digests) == decide(CLUSTER, [], [], {})


def test_the_oldest_import_is_negotiated() -> None:
    later = imported(of(spec=STRING), "a", "2026-01-02T00:00:00Z")
    made = first(API, [later, imported()], publish=True)
    assert made is not None
    assert made["metadata"]["name"] == "widgets.v1.example.com"
    assert made["spec"]["openAPIV3Schema"] == SCHEMA
    assert made["spec"]["publish"] is True
    assert "location" not in made["spec"]
    short = decide(CLUSTER, [offer()], [], {API: offer().digest}).create[0]
    assert first(API, [short], publish=True) is None


def told(conditions: Any) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status, c.reason) for c in conditions}


def test_negotiation_of_a_kind_the_hub_serves_by_itself() -> None:
    agreed, found = first(API, [imported()], publish=True), imported()
    assert agreed is not None
    waiting = negotiate(agreed, [found], Served(by_itself=True))
    assert told(waiting.negotiated)["Published"] == ("False", "NotServedYet")
    done = negotiate(agreed, [found], Served(by_itself=True, listed=True))
    assert told(done.negotiated) == {
        "Submitted": ("True", "Submitted"),
        "Published": ("True", "Served"),
        "Enforced": ("False", "Negotiated"),
    }
    assert told(done.imports[found["metadata"]["name"]]) == {
        "Compatible": ("True", "Compatible"),
        "Available": ("True", "Served"),
    }
    assert done.definition is None
    private = {**agreed, "spec": {**agreed["spec"], "publish": False}}
    assert told(negotiate(private, [found], Served(by_itself=True)).negotiated)["Published"] == ("False", "NotAsked")


def test_negotiation_of_a_kind_that_needs_a_definition() -> None:
    agreed = first(API, [imported()], publish=True)
    assert agreed is not None
    made = negotiate(agreed, [], Served()).definition
    assert made is not None
    assert made["metadata"]["name"] == "widgets.example.com"
    assert made["spec"]["versions"][0]["subresources"] == {"status": {}}
    assert negotiate(agreed, [], Served(definition=made, listed=True)).definition is None
    manual = {"metadata": {"name": "widgets.example.com"}}
    enforced = negotiate(agreed, [], Served(definition=manual, listed=True))
    assert enforced.definition is None
    assert told(enforced.negotiated)["Enforced"] == ("True", "ManualDefinition")


def test_an_import_that_differs_is_told_why() -> None:
    agreed = first(API, [imported()], publish=True)
    assert agreed is not None
    wrong = imported(of(spec=STRING), "west")
    wrong["spec"] |= {"scope": "Cluster", "subResources": []}
    [compatible, _] = negotiate(agreed, [wrong], Served(listed=True)).imports[wrong["metadata"]["name"]]
    assert compatible.reason == "IncompatibleSchema"
    assert compatible.message == (
        "spec: the type is string, not object; scope is Cluster, not Namespaced; the subresource status is not there"
    )
    unknown = imported(name="west")
    del unknown["spec"]["openAPIV3Schema"]
    unknown["spec"]["schemaDigest"] = "other"
    [compatible, _] = negotiate(agreed, [unknown], Served(listed=True)).imports[unknown["metadata"]["name"]]
    assert (compatible.status, compatible.reason) == ("Unknown", "SchemaUnknown")


def test_only_what_negotiation_made_is_withdrawn() -> None:
    agreed = first(API, [imported()], publish=True)
    assert agreed is not None
    assert is_withdrawable(agreed, [])
    assert not is_withdrawable(agreed, [imported()])
    assert not is_withdrawable({"metadata": {"name": "by-hand"}}, [])


@pytest.mark.parametrize(
    ("compatible", "available", "settled"),
    [
        ({}, {}, False),
        ({"status": "Unknown"}, {"status": "False", "reason": "NotServedYet"}, False),
        ({"status": "True"}, {"status": "False", "reason": "NotServedYet"}, False),
        ({"status": "True"}, {"status": "False", "reason": "NotAsked"}, True),
        ({"status": "True"}, {"status": "True", "reason": "Served"}, True),
        ({"status": "False"}, {"status": "False", "reason": "NotServedYet"}, True),
        ({"status": "True", "observedGeneration": 1}, {"status": "True", "reason": "Served"}, False),
    ],
)
def test_when_an_import_is_settled(compatible: Object, available: Object, settled: bool) -> None:
    conditions = [{"type": "Compatible", "observedGeneration": 2, **compatible}, {"type": "Available", **available}]
    told = [condition for condition in conditions if "status" in condition]
    assert is_settled({"metadata": {"generation": 2}, "status": {"conditions": told}}) is settled
