"""Definitions of custom kinds, right and wrong, and objects of theirs."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import DEFINITION, MERGE, NAMESPACE
from tests.serving import widget, widget_definition

WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
Change = Callable[[Object], object]


def stories() -> Iterator[Story]:
    for name, change in _changes().items():
        made = definition()
        change(made)
        yield Story(f"definitions: {name}", (Ask("POST", f"{DEFINITION}?dryRun=All", made),))
    yield Story("definitions: life", tuple(_life()))
    for number, spec in enumerate(_specs()):
        body = {**widget("checked"), "spec": spec}
        for checked in ("Strict", "Warn"):
            path = f"{WIDGETS}?dryRun=All&fieldValidation={checked}"
            yield Story(f"widgets: spec {number}, {checked}", (Ask("POST", path, body),))


def definition(plural: str = "gears", kind: str = "Gear") -> Object:
    made = widget_definition()
    made["metadata"]["name"] = f"{plural}.example.org"
    made["spec"]["group"] = "example.org"
    made["spec"]["names"] = {"plural": plural, "kind": kind}
    return made


def _schema(made: Object) -> Object:
    found: Object = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def _spec(**properties: object) -> Change:
    """The schema of `spec` has these properties besides."""
    return lambda made: _schema(made)["properties"]["spec"]["properties"].update(copy.deepcopy(properties))


def _version(**fields: object) -> Change:
    return lambda made: made["spec"]["versions"][0].update(copy.deepcopy(fields))


def _top(**fields: object) -> Change:
    return lambda made: made["spec"].update(copy.deepcopy(fields))


def _names(**fields: object) -> Change:
    return lambda made: made["spec"]["names"].update(fields)


def _rules(*rules: Object) -> Change:
    return lambda made: _schema(made)["properties"]["spec"].update({"x-kubernetes-validations": list(rules)})


def _changes() -> dict[str, Change]:
    second = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "as it is": lambda made: None,
        "another name": lambda made: made["metadata"].update(name="wheels.example.org"),
        "no group": _top(group=""),
        "bad group": _top(group="Example Org"),
        "plain group": _top(group="example"),
        "no scope": lambda made: made["spec"].pop("scope"),
        "bad scope": _top(scope="Anywhere"),
        "no versions": _top(versions=[]),
        "no names": _top(names={}),
        "no spec": lambda made: made.pop("spec"),
        "kind in capitals": _names(kind="gear_wheel"),
        "short names": _names(shortNames=["G", "g g"], singular="Gear!"),
        "categories": _names(categories=["All", "a b"]),
        "list kind": _names(listKind="gears"),
        "same list kind": _names(listKind="Gear"),
        "two storage versions": lambda made: made["spec"]["versions"].append(second),
        "no storage version": _version(storage=False),
        "not served": _version(served=False),
        "same version twice": lambda made: made["spec"]["versions"].append(copy.deepcopy(made["spec"]["versions"][0])),
        "bad version": _version(name="V_1"),
        "no schema": _version(schema=None),
        "empty schema": _version(schema={}),
        "schema of text": lambda made: _schema(made).update(type="string"),
        "no type": lambda made: _schema(made).pop("type"),
        "protected group": lambda made: (_top(group="gears.k8s.io")(made), made["metadata"].update(name="gears.gears.k8s.io")),
        "approved": lambda made: (_top(group="gears.k8s.io")(made), made["metadata"].update(name="gears.gears.k8s.io", annotations={"api-approved.kubernetes.io": "unapproved, trying"})),
        "unknown preserved": _top(preserveUnknownFields=True),
        "conversion by webhook": _top(conversion={"strategy": "Webhook"}),
        "conversion unknown": _top(conversion={"strategy": "Magic"}),
        "conversion without versions": _top(conversion={"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a/b"}}}),
        "conversion over http": _top(conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "http://a"}}}),
        "conversion of none": _top(conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}),
        "deprecated": _version(deprecated=True, deprecationWarning="x" * 300),
        "warning without": _version(deprecationWarning="gone"),
        "columns": _version(additionalPrinterColumns=[{"name": "", "type": "thing", "jsonPath": "x"}, {"name": "A", "type": "date", "jsonPath": ".a["}]),
        "column format": _version(additionalPrinterColumns=[{"name": "A", "type": "string", "format": "x", "jsonPath": ".a", "priority": -1}]),
        "scale paths": _version(subresources={"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".spec.y", "labelSelectorPath": ".a"}}),
        "scale without": _version(subresources={"scale": {}}),
        "selectable": _version(selectableFields=[{"jsonPath": ".spec.no"}, {"jsonPath": ".spec.parts"}, {"jsonPath": ".metadata.name"}, {"jsonPath": "x"}]),
        "selectable twice": _version(selectableFields=[{"jsonPath": ".spec.color"}] * 2),
        "unknown type": _spec(x={"type": "thing"}),
        "no type of a field": _spec(x={}),
        "no items": _spec(x={"type": "array"}),
        "items as a list": _spec(x={"type": "array", "items": [{"type": "string"}]}),
        "both": _spec(x={"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        "additional false": _spec(x={"type": "object", "additionalProperties": False}),
        "additional true": _spec(x={"type": "object", "additionalProperties": True}),
        "reference": _spec(x={"$ref": "#/definitions/y"}),
        "definitions": lambda made: _schema(made).update(definitions={"a": {"type": "string"}}),
        "unique items": _spec(x={"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        "nullable reference": _spec(x={"type": "string", "nullable": True, "default": None}),
        "bad default": _spec(x={"type": "integer", "default": "x"}),
        "default unpruned": _spec(x={"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}),
        "default below": _spec(x={"type": "integer", "minimum": 5, "default": 1}),
        "bad pattern": _spec(x={"type": "string", "pattern": "("}),
        "lookahead": _spec(x={"type": "string", "pattern": "(?=a)"}),
        "bad enum": _spec(x={"type": "string", "enum": ["a", "a"]}),
        "bad bounds": _spec(x={"type": "integer", "minimum": 5, "maximum": 1}),
        "negative length": _spec(x={"type": "string", "minLength": -1, "maxLength": -2}),
        "multiple of zero": _spec(x={"type": "integer", "multipleOf": 0}),
        "format": _spec(x={"type": "string", "format": "nonsense"}),
        "all of with type": _spec(x={"type": "object", "allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]}),
        "any of": _spec(x={"type": "object", "anyOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 1}}}]}),
        "not": _spec(x={"type": "object", "not": {"default": 1}}),
        "int or string": _spec(x={"x-kubernetes-int-or-string": True, "type": "string"}),
        "int or string well": _spec(x={"x-kubernetes-int-or-string": True}),
        "preserve in array": _spec(x={"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {"type": "string"}}),
        "preserve false": _spec(x={"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
        "embedded": _spec(x={"type": "string", "x-kubernetes-embedded-resource": True}),
        "embedded well": _spec(x={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}),
        "embedded bare": _spec(x={"type": "object", "x-kubernetes-embedded-resource": True}),
        "list type": _spec(x={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "tree"}),
        "list type of text": _spec(x={"type": "string", "x-kubernetes-list-type": "set"}),
        "set of objects": _spec(x={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
        "map without keys": _spec(x={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map"}),
        "map with other keys": _spec(x={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a", "a"]}),
        "map key optional": _spec(x={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
        "map type": _spec(x={"type": "object", "x-kubernetes-map-type": "other"}),
        "metadata restricted": lambda made: _schema(made)["properties"].update(metadata={"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}, "labels": {"type": "object"}}}),
        "apiVersion restricted": lambda made: _schema(made)["properties"].update(apiVersion={"type": "string", "enum": ["x"]}),
        "kind as a number": lambda made: _schema(made)["properties"].update(kind={"type": "integer"}),
        "rule": _rules({"rule": "self.size > 0"}),
        "rule without": _rules({"message": "x"}),
        "rule unknown field": _rules({"rule": "self.nothing == 1"}),
        "rule not boolean": _rules({"rule": "self.size"}),
        "rule syntax": _rules({"rule": "self.size >"}),
        "rule message": _rules({"rule": "true", "message": "a\nb"}),
        "rule message expression": _rules({"rule": "true", "messageExpression": "self.size"}),
        "rule reason": _rules({"rule": "true", "reason": "Other"}),
        "rule field path": _rules({"rule": "true", "fieldPath": ".nothing"}),
        "rule cost": _rules({"rule": "self.parts.all(a, self.parts.all(b, self.parts.all(c, a.name == b.name || b.name == c.name)))"}),
        "rule optional old": _rules({"rule": "self.size == oldSelf.size", "optionalOldSelf": True}),
    }  # fmt: skip


def _life() -> Iterator[Ask]:
    path, objects = f"{DEFINITION}/wheels.example.org", "/apis/example.org/v1/namespaces/default/wheels"
    made = definition("wheels", "Wheel")
    yield Ask("POST", DEFINITION, made)
    yield Ask("GET", path, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    yield Ask("POST", objects, {**widget("w"), "apiVersion": "example.org/v1", "kind": "Wheel"}, until=201)
    yield Ask("PATCH", path, {"spec": {"scope": "Cluster"}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"spec": {"group": "example.net"}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"spec": {"names": {"plural": "other"}}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"spec": {"versions": []}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"storedVersions": []}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"storedVersions": ["v1", "v9"]}}, {"Content-Type": MERGE})
    yield Ask("DELETE", f"{path}?dryRun=All")


def _specs() -> Iterator[object]:
    yield from ({"size": 1}, {}, None, "x", [], {"size": "1"}, {"size": 1.0}, {"size": 1.5}, {"size": 0}, {"size": -1})
    yield from ({"size": None}, {"size": 1, "color": "green"}, {"size": 1, "color": None}, {"size": 1, "color": 7})
    yield from (
        {"size": 1, "surplus": 1},
        {"size": 1, "parts": None},
        {"size": 1, "parts": []},
        {"size": 1, "parts": {}},
    )
    yield from ({"size": 1, "parts": [{}]}, {"size": 1, "parts": ["x"]}, {"size": 1, "parts": [None]})
    yield from ({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}, {"size": 1, "parts": [{"name": 7, "count": "x"}]})
    yield from ({"size": 1, "parts": [{"name": "a", "x": 1, "y": 2}]}, {"size": 10**30}, {"size": 2**63})
    yield from ({"size": 1, "replicas": None}, {"size": 1, "replicas": "x"}, {"size": True})
