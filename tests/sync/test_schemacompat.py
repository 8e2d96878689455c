"""Schema comparison: kcp's own table, tables for cases it lacks, and properties of all of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects.schema import compile_subschema, deep_copy, validate_default
from shoal.sync.negotiation.schemacompat import lowest_common

Object = dict[str, Any]

STRING, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
EITHER: Object = {"x-kubernetes-int-or-string": True}
SAID_EITHER: Object = {**EITHER, "anyOf": [{"type": "integer"}, {"type": "string"}]}
ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}
KEEPING: Object = {"type": "object", **ANYTHING}


def of(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def array(items: Object, **more: object) -> Object:
    return {"type": "array", "items": items, **more}


def map_of(values: object) -> Object:
    return {"type": "object", "additionalProperties": values}


TWO = of(prop1=of(subProp1=STRING), prop2=of(subProp1=STRING, subProp2=STRING))

ORIGINAL: dict[str, tuple[Object, Object, Object | None, list[str]]] = {
    # name: existing, new, the common schema where there is one, what is narrowed or in conflict
    "more properties": (of(existing=STRING), of(existing=STRING, new=INTEGER), of(existing=STRING), []),
    "fewer properties": (
        of(existing=STRING, new=INTEGER),
        of(existing=STRING),
        of(existing=STRING),
        ["new: is missing"],
    ),
    "any property that fits": (TWO, map_of(of(subProp1=STRING, subProp2=STRING)), TWO, []),
    "any property that does not fit": (
        TWO,
        map_of(of(subProp1=STRING)),
        of(prop1=of(subProp1=STRING), prop2=of(subProp1=STRING)),
        ["prop2.subProp2: is missing"],
    ),
    "any property at all": (of(existing=STRING), map_of(True), of(existing=STRING), []),
    "number": (of(existing=NUMBER), of(existing=NUMBER, new=INTEGER), of(existing=NUMBER), []),
    "integer": (of(existing=INTEGER), of(existing=INTEGER, new=NUMBER), of(existing=INTEGER), []),
    "integer or string": (
        {**EITHER, "properties": {"existing": INTEGER}},
        {**EITHER, "properties": {"existing": INTEGER, "new": NUMBER}},
        {**EITHER, "properties": {"existing": INTEGER}},
        [],
    ),
    "boolean": (of(existing=BOOLEAN), of(existing=BOOLEAN, new=NUMBER), of(existing=BOOLEAN), []),
    "array": (
        array(of(existing=INTEGER)),
        array(of(existing=INTEGER, new=NUMBER)),
        array(of(existing=INTEGER)),
        [],
    ),
    "maps": (map_of(of(a=STRING)), map_of(of(a=STRING, b=STRING)), map_of(of(a=STRING)), []),
    "map of booleans, then of anything": (map_of(BOOLEAN), map_of(True), map_of(BOOLEAN), []),
    "another type": (
        of(existing=BOOLEAN),
        array(of(existing=INTEGER)),
        None,
        ["the object: the type is array, not object"],
    ),
    # The original calls these two compatible. They are not: the existing schema accepts {"new": "text"}.
    "unknown fields are kept": (
        {**ANYTHING, "properties": {"existing": INTEGER}},
        {**ANYTHING, "properties": {"existing": INTEGER, "new": NUMBER}},
        {**ANYTHING, "properties": {"existing": INTEGER, "new": NUMBER}},
        ["new: only number is accepted"],
    ),
    "map of anything, then of booleans": (
        map_of(True),
        map_of(BOOLEAN),
        map_of(BOOLEAN),
        ["*: only boolean is accepted"],
    ),
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_the_originals_cases(name: str) -> None:
    existing, new, wanted, said = ORIGINAL[name]
    found = lowest_common(existing, new)
    assert [*found.narrowed, *found.conflicts] == said
    assert bool(found.conflicts) == (wanted is None)
    if wanted is not None:
        assert found.schema == wanted


def scalar(kind: str, **limits: object) -> Object:
    return {"type": kind, **limits}


LIMITS: list[tuple[Object, Object, Object | None, list[str]]] = [
    # enums
    (scalar("string", enum=["x"]), scalar("string", enum=["x", "y"]), scalar("string", enum=["x"]), []),
    (
        scalar("string", enum=["x", "y"]),
        scalar("string", enum=["y", "z"]),
        scalar("string", enum=["y"]),
        ['a: the values ["x"] are not accepted'],
    ),
    (STRING, scalar("string", enum=["x"]), scalar("string", enum=["x"]), ['a: only ["x"] are accepted']),
    (
        scalar("integer", enum=[1, 2]),
        scalar("integer", enum=[2]),
        scalar("integer", enum=[2]),
        ["a: the values [1] are not accepted"],
    ),
    # numbers
    (NUMBER, INTEGER, INTEGER, ["a: the type is integer, not number"]),
    (INTEGER, NUMBER, INTEGER, []),
    (
        scalar("integer", minimum=1, maximum=9),
        scalar("integer", minimum=3),
        scalar("integer", minimum=3, maximum=9),
        ["a: minimum is 3, not 1"],
    ),
    (
        scalar("integer", maximum=9),
        scalar("integer", maximum=9, exclusiveMaximum=True),
        scalar("integer", maximum=9, exclusiveMaximum=True),
        ["a: exclusiveMaximum is true, not none"],
    ),
    (
        scalar("integer", multipleOf=2),
        scalar("integer", multipleOf=3),
        scalar("integer", multipleOf=6),
        ["a: multipleOf is 3, not 2"],
    ),
    (
        scalar("integer", format="int64"),
        scalar("integer", format="int32"),
        scalar("integer", format="int32"),
        ['a: format is "int32", not "int64"'],
    ),
    # lengths
    (
        scalar("string", maxLength=9),
        scalar("string", minLength=1, maxLength=5),
        scalar("string", minLength=1, maxLength=5),
        ["a: minLength is 1, not none", "a: maxLength is 5, not 9"],
    ),
    (array(STRING), array(STRING, maxItems=2), array(STRING, maxItems=2), ["a: maxItems is 2, not none"]),
    (array(STRING), array(STRING, uniqueItems=True), array(STRING, uniqueItems=True), ["a: the items must be unique"]),
    # patterns and formats
    (
        scalar("string", pattern="^x"),
        scalar("string", pattern="y$"),
        scalar("string", pattern="^x", allOf=[{"pattern": "y$"}]),
        ['a: pattern is "y$", not "^x"'],
    ),
    (scalar("string", format="date"), scalar("string", format="date"), scalar("string", format="date"), []),
    (STRING, scalar("string", format="date"), scalar("string", format="date"), ['a: format is "date", not none']),
    # integer or string, unknown fields, null
    (EITHER, INTEGER, INTEGER, ["a: the type is integer, not integer or string"]),
    (INTEGER, SAID_EITHER, INTEGER, []),
    (SAID_EITHER, STRING, STRING, ["a: the type is string, not integer or string"]),
    (of(b=STRING), KEEPING, of(b=STRING), []),
    (
        KEEPING,
        of(b=STRING),
        of(b=STRING),
        ["a.b: only string is accepted", "a: other fields are not accepted"],
    ),
    (scalar("string", nullable=True), STRING, STRING, ["a: null is not accepted"]),
    # rules
    (
        of(b=INTEGER),
        {**of(b=INTEGER), "x-kubernetes-validations": [{"rule": "self.b > 0"}]},
        {**of(b=INTEGER), "x-kubernetes-validations": [{"rule": "self.b > 0"}]},
        ["a: the rule 'self.b > 0' is added"],
    ),
]


@pytest.mark.parametrize(("existing", "new", "wanted", "said"), LIMITS)
def test_what_the_original_left_out_is_narrowed(existing: Object, new: Object, wanted: Object, said: list[str]) -> None:
    found = lowest_common(of(a=existing), of(a=new))
    assert (list(found.narrowed), found.conflicts) == (said, ())
    assert found.schema == of(a=wanted)


def test_a_builtin_whose_server_publishes_no_enums_may_have_the_same() -> None:
    told = scalar("string", enum=["x", "y"])
    for one, other in ((of(a=STRING), of(a=told)), (of(a=told), of(a=STRING))):
        assert lowest_common(one, other, builtin=True).narrowed == ()
        assert lowest_common(one, other, builtin=True).schema == of(a=told)
    fewer = scalar("string", enum=["x"])
    assert lowest_common(of(a=told), of(a=fewer), builtin=True).narrowed == ('a: the values ["y"] are not accepted',)


KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


@pytest.mark.parametrize(
    ("existing", "new", "said"),
    [
        (STRING, BOOLEAN, "a: the type is boolean, not string"),
        (
            scalar("string", enum=["x"]),
            scalar("string", enum=["y"]),
            'a: no value is accepted by both: ["y"], not ["x"]',
        ),
        (scalar("integer", minimum=5), scalar("integer", maximum=3), "a: minimum is 5, maximum is 3"),
        (scalar("string", minLength=5), scalar("string", maxLength=3), "a: minLength is 5, maxLength is 3"),
        (scalar("string", format="date"), scalar("string", format="uri"), 'a: format is "uri", not "date"'),
        (
            array(STRING),
            array(STRING, **{"x-kubernetes-list-type": "set"}),
            'a: x-kubernetes-list-type is "set", not "atomic"',
        ),
        (
            array(of(name=STRING), **KEYED),
            array(of(name=STRING), **{**KEYED, "x-kubernetes-list-map-keys": ["id"]}),
            'a: x-kubernetes-list-map-keys is ["id"], not ["name"]',
        ),
        (
            of(b=STRING),
            {**of(b=STRING), "x-kubernetes-map-type": "atomic"},
            'a: x-kubernetes-map-type is "atomic", not "granular"',
        ),
        (
            {**KEEPING, "x-kubernetes-embedded-resource": True},
            KEEPING,
            "a: x-kubernetes-embedded-resource is false, not true",
        ),
        (
            {**of(b=INTEGER, c=INTEGER), "x-kubernetes-validations": [{"rule": "self.b > self.c"}]},
            of(b=INTEGER),
            "a: the rule 'self.b > self.c' needs a.c, which is missing",
        ),
        ({**of(b=STRING), "required": ["b"]}, of(c=STRING), "a.b: is required by one schema and missing in the other"),
        (
            of(b=STRING),
            {**of(b=STRING, c=STRING), "required": ["c"]},
            "a.c: is required by one schema and missing in the other",
        ),
    ],
)
def test_where_there_is_nothing_in_common(existing: Object, new: Object, said: str) -> None:
    assert said in lowest_common(of(a=existing), of(a=new)).conflicts


DEFAULTED = {**STRING, "default": "x"}


@pytest.mark.parametrize(
    ("existing", "new", "required", "said"),
    [
        (of(a=STRING), {**of(a=STRING), "required": ["a"]}, ["a"], ["a: is required"]),
        ({**of(a=STRING), "required": ["a"]}, of(a=STRING), ["a"], []),
        # A server that fills it in does not need to be given it.
        (of(a=STRING), {**of(a=DEFAULTED), "required": ["a"]}, None, []),
        (of(b=STRING), {**of(b=STRING, a=DEFAULTED), "required": ["a"]}, None, []),
        ({**of(a=DEFAULTED), "required": ["a"]}, {**of(a=DEFAULTED, b=STRING), "required": ["a"]}, ["a"], []),
    ],
)
def test_required(existing: Object, new: Object, required: list[str] | None, said: list[str]) -> None:
    found = lowest_common(existing, new)
    assert (found.schema.get("required"), list(found.narrowed), found.conflicts) == (required, said, ())


def test_defaults_are_common_where_they_are_equal_and_still_accepted() -> None:
    assert lowest_common(of(a=DEFAULTED), of(a=DEFAULTED, b=STRING)).schema == of(a=DEFAULTED)
    assert lowest_common(of(a=DEFAULTED), of(a={**STRING, "default": "y"})).schema == of(a=STRING)
    narrow = {**DEFAULTED, "enum": ["x", "y"]}, {**DEFAULTED, "enum": ["y"]}
    assert lowest_common(of(a=narrow[0]), of(a=narrow[1])).schema == of(a={**STRING, "enum": ["y"]})


def test_a_key_of_a_list_that_has_no_default_any_more_is_required() -> None:
    ports = array(of(name=DEFAULTED), **KEYED)
    plain = {**array({**of(name=STRING), "required": ["name"]}, **KEYED)}
    assert lowest_common(ports, plain).schema["items"]["required"] == ["name"]
    assert lowest_common(plain, ports).schema["items"]["required"] == ["name"]


# --- what holds for all ---

NAMES = ("a", "b", "c")


def _valid(schema: Object) -> Object:
    wrong = "default" in schema and validate_default(schema, "")
    return {key: value for key, value in schema.items() if key != "default"} if wrong else schema


def _some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional=optional)


def _exclusive(schema: Object, which: list[str]) -> Object:
    return {**schema, **{key: True for key in which if key.replace("exclusiveM", "m") in schema}}


_TEXTS = st.sampled_from(["x", "xy", "yyy", "z"])
_LENGTH = st.integers(0, 4)
_strings = st.builds(
    lambda more: _valid({"type": "string", **more}),
    _some(
        enum=st.lists(_TEXTS, min_size=1, unique=True),
        minLength=_LENGTH,
        maxLength=_LENGTH,
        pattern=st.sampled_from(["^x", "y$"]),
        nullable=st.just(True),
        default=_TEXTS,
    ),
)
_numbers = st.builds(
    lambda kind, more, which: _valid(_exclusive({"type": kind, **more}, which)),
    st.sampled_from(["integer", "number"]),
    _some(
        minimum=st.integers(-3, 3),
        maximum=st.integers(-3, 3),
        multipleOf=st.sampled_from([1, 2, 3]),
        default=st.sampled_from([0, 2]),
    ),
    st.lists(st.sampled_from(["exclusiveMinimum", "exclusiveMaximum"]), unique=True),
)


def _objects(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    def made(properties: Object, required: list[str], others: Object | None, keeping: bool) -> Object:
        if others is not None and not properties:
            return map_of(others)
        asked = [name for name in required if name in properties]
        schema = {**of(**properties), **({"required": asked} if asked else {})}
        return {**schema, **ANYTHING} if keeping else schema

    names = st.sampled_from(NAMES)
    properties = st.dictionaries(names, inner, max_size=3)
    return st.builds(made, properties, st.lists(names, unique=True), st.none() | inner, st.booleans())


def _arrays(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    limits = _some(minItems=st.integers(0, 2), maxItems=st.integers(0, 2), uniqueItems=st.just(True))
    return st.builds(lambda items, more: array(items, **more), inner, limits)


_leaves = _strings | _numbers | st.sampled_from([BOOLEAN, EITHER, SAID_EITHER, ANYTHING])
schemas = st.recursive(_leaves, lambda inner: _objects(inner) | _arrays(inner), max_leaves=6)
values = st.recursive(
    _TEXTS | st.integers(-4, 4) | st.sampled_from([0.5, 2.5, "", True]),
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=5,
)


def accepted(schema: Object, value: object) -> Object | None:
    """As a server takes it: with its defaults, if nothing is unknown and nothing wrong."""
    compiled = compile_subschema({"type": "object", "properties": {"v": schema}})
    obj: Object = {"v": deep_copy(value)}
    if compiled.prune_unknown(obj) or obj != {"v": value}:
        return None
    compiled.default(obj)
    return None if compiled.validate(obj) else obj


def sorted_lists(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: sorted_lists(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return sorted(
            (sorted_lists(each) for each in schema), key=lambda each: orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
        )
    return schema


@settings(derandomize=True, deadline=None, max_examples=120)
@given(schemas, schemas, st.lists(values, min_size=3, max_size=12))
def test_what_the_common_schema_accepts_both_accept(one: Object, other: Object, tried: list[object]) -> None:
    found, turned = lowest_common(one, other), lowest_common(other, one)
    assert lowest_common(one, one).schema == one
    assert bool(found.conflicts) == bool(turned.conflicts)
    if found.conflicts:
        return
    assert sorted_lists(found.schema) == sorted_lists(turned.schema)
    for each in (one, other):
        assert lowest_common(found.schema, each).narrowed == lowest_common(found.schema, each).conflicts == ()
    for value in tried:
        taken = accepted(found.schema, value)
        if taken is not None:
            assert accepted(one, taken["v"]) is not None
            assert accepted(other, taken["v"]) is not None
        taken = accepted(one, value)
        if not found.narrowed and taken is not None:
            assert accepted(other, taken["v"]) is not None
