"""Schemas and objects of these tests: a field's schema wrapped in a resource, and strategies that generate both."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = Any


def resource(field: dict[str, Json], **spec: Json) -> dict[str, Json]:
    """A resource whose `spec.x` has this schema."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": field}, **spec}}}


def object_with(value: Json) -> dict[str, Json]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"x": value}}


_KEYS = st.sampled_from("abcd")
_VALUES = {
    "string": st.sampled_from(["", "a", "b", "ab", "2024-01-31T00:00:00Z", "1.2.3.4"]),
    "integer": st.one_of(st.integers(-3, 9), st.just(1.0), st.just(2**53 + 1)),
    "number": st.sampled_from([0, 1.5, -2, 3.25, 1e17]),
    "boolean": st.booleans(),
}


@st.composite
def limits(draw: st.DrawFn, depth: int = 2) -> dict[str, Json]:
    """Value validation, beside a type and under junctors."""
    schema: dict[str, Json] = {}
    for key, value in (
        ("maxLength", st.integers(0, 2)),
        ("minLength", st.integers(0, 2)),
        ("pattern", st.sampled_from(["^a", "b$"])),
        ("maximum", st.integers(-1, 4)),
        ("multipleOf", st.integers(1, 3)),
        ("enum", st.just(["a", 1, True])),
        ("maxProperties", st.integers(0, 2)),
        ("required", st.lists(_KEYS, max_size=1)),
        ("maxItems", st.integers(0, 2)),
    ):
        if draw(st.integers(0, 7)) == 0:
            schema[key] = draw(value)
    if depth and draw(st.integers(0, 3)) == 0:
        junctor = draw(st.sampled_from(["allOf", "anyOf", "oneOf", "not"]))
        inner = limits(depth - 1)
        schema[junctor] = draw(inner) if junctor == "not" else draw(st.lists(inner, min_size=1, max_size=2))
    return schema


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, root: bool = True) -> dict[str, Json]:
    scalar = not root and (depth == 0 or draw(st.booleans()))
    kinds = list(_VALUES) if scalar else ["object"] if root else ["object", "array"]
    kind = draw(st.sampled_from(kinds))
    schema = {"type": kind} | draw(limits())
    if draw(st.integers(0, 5)) == 0 and not root:
        schema["nullable"] = True
    if kind == "object" and not root and draw(st.integers(0, 3)) == 0:
        schema["additionalProperties"] = draw(schemas(depth - 1, root=False))
    elif kind == "object":
        schema["properties"] = draw(st.dictionaries(_KEYS, schemas(depth - 1, root=False), max_size=3))
        if draw(st.integers(0, 5)) == 0:
            schema["x-kubernetes-preserve-unknown-fields"] = True
    elif kind == "array":
        schema["items"] = draw(schemas(depth - 1, root=False))
    if not root and draw(st.integers(0, 3)) == 0:
        schema["default"] = {"object": {}, "array": []}.get(kind) if kind not in _VALUES else draw(_VALUES[kind])
    return schema


@st.composite
def objects(draw: st.DrawFn, schema: dict[str, Json]) -> Json:
    """Mostly of the right shape, sometimes null, of another type, or with unknown fields."""
    if draw(st.integers(0, 11)) == 0 and "properties" not in schema:
        return draw(st.one_of(st.none(), *_VALUES.values(), st.just([]), st.just({})))
    kind = schema["type"]
    if kind in _VALUES:
        return draw(_VALUES[kind])
    if kind == "array":
        return [draw(objects(schema["items"])) for _ in range(draw(st.integers(0, 3)))]
    found = {key: draw(objects(sub)) for key, sub in schema.get("properties", {}).items() if draw(st.booleans())}
    if isinstance(schema.get("additionalProperties"), dict):
        found |= {key: draw(objects(schema["additionalProperties"])) for key in draw(st.lists(_KEYS, max_size=2))}
    if draw(st.integers(0, 3)) == 0:
        found["unknown"] = {"deep": [None, {"x": 1}]}
    return found


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Json], dict[str, Json]]:
    schema = draw(schemas())
    return schema, draw(objects(schema))


def _bare(schema: dict[str, Json]) -> dict[str, Json]:
    """The schema without anything that restricts values further than their types."""
    kept: dict[str, Json] = {key: schema[key] for key in ("type", "nullable") if key in schema}
    if "properties" in schema:
        kept["properties"] = {key: _bare(sub) for key, sub in schema["properties"].items()}
        kept["required"] = sorted(kept["properties"])[:1]
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = _bare(schema[key])
    return kept


@st.composite
def _valid_value(draw: st.DrawFn, schema: dict[str, Json]) -> Json:
    kind = schema["type"]
    if schema.get("nullable") and draw(st.booleans()):
        return None
    if kind == "integer":
        return draw(st.integers(-(2**63), 2**63 - 1))
    if kind in _VALUES:
        return draw(_VALUES[kind])
    if kind == "array":
        return draw(st.lists(_valid_value(schema["items"]), max_size=3))
    if "additionalProperties" in schema:
        return draw(st.dictionaries(_KEYS, _valid_value(schema["additionalProperties"]), max_size=2))
    needed = schema.get("required", ())
    inner = schema.get("properties", {})
    return {key: draw(_valid_value(sub)) for key, sub in inner.items() if key in needed or draw(st.booleans())}


@st.composite
def valid_pairs(draw: st.DrawFn) -> tuple[dict[str, Json], dict[str, Json]]:
    """A schema and an object that it accepts as it is."""
    schema = _bare(draw(schemas()))
    return schema, draw(_valid_value(schema))
