"""Properties of every schema and object."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects.schema import compile_schema as compiled
from shoal.objects.schema.jsonschema_pass import JSONSchemaPass
from shoal.objects.schema.validate import SchemaValidator
from tests.objects.schema.samples import pairs, schemas, valid_pairs

some = settings(max_examples=50)
Pair = tuple[dict[str, Any], dict[str, Any]]


@some
@given(pairs())
def test_pruning_twice_is_pruning_once(pair: Pair) -> None:
    schema, obj = compiled(pair[0]), pair[1]
    schema.prune(obj)
    once = copy.deepcopy(obj)
    assert schema.prune_unknown(obj) == []
    assert obj == once


@some
@given(pairs())
def test_both_ways_to_prune_leave_the_same(pair: Pair) -> None:
    schema, obj = compiled(pair[0]), pair[1]
    other = copy.deepcopy(obj)
    schema.prune(obj)
    schema.prune_unknown(other)
    assert obj == other


@some
@given(pairs())
def test_defaulting_twice_is_defaulting_once(pair: Pair) -> None:
    schema, obj = compiled(pair[0]), pair[1]
    schema.prune(obj)
    schema.default(obj)
    once = orjson.dumps(obj)
    schema.default(obj)
    assert orjson.dumps(obj) == once


@some
@given(pairs())
def test_defaults_survive_pruning(pair: Pair) -> None:
    schema, obj = compiled(pair[0]), pair[1]
    schema.prune(obj)
    schema.default(obj)
    once = orjson.dumps(obj)
    schema.prune(obj)
    assert orjson.dumps(obj) == once


@some
@given(pairs())
def test_the_fast_pass_is_never_looser_than_the_walk(pair: Pair) -> None:
    schema, obj = pair
    if JSONSchemaPass(schema, None).passes(obj):
        assert SchemaValidator(None).validate(schema, obj) == []


@some
@given(valid_pairs())
def test_what_fits_is_valid_and_left_alone(pair: Pair) -> None:
    schema, obj = compiled(pair[0]), pair[1]
    given_as = copy.deepcopy(obj)
    assert schema.prune_unknown(obj) == []
    schema.default(obj)
    assert obj == given_as
    assert schema.validate(obj) == []


@some
@given(pairs())
def test_what_did_not_change_is_let_through(pair: Pair) -> None:
    schema, obj = pair
    assert compiled(schema).validate(obj, copy.deepcopy(obj)) == []


@some
@given(schemas(), st.randoms(use_true_random=False))
def test_the_hash_ignores_the_order_of_keys(schema: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    first = compiled(schema)
    assert compiled(shuffled(schema)) is first
    assert compiled(schema | {"description": "another"}).digest != first.digest
