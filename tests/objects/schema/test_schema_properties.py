"""What holds for every schema and object."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from samples import pairs, schemas
from shoal.objects.schema import compile
from shoal.objects.schema.fast import FastPass
from shoal.objects.schema.validate import Walk

Pair = tuple[dict[str, Any], dict[str, Any]]


@given(pairs())
def test_pruning_twice_is_pruning_once(pair: Pair) -> None:
    schema, obj = compile(pair[0]), pair[1]
    schema.prune(obj)
    once = copy.deepcopy(obj)
    assert schema.prune_unknown(obj) == []
    assert obj == once


@given(pairs())
def test_both_ways_to_prune_leave_the_same(pair: Pair) -> None:
    schema, obj = compile(pair[0]), pair[1]
    other = copy.deepcopy(obj)
    schema.prune(obj)
    schema.prune_unknown(other)
    assert obj == other


@given(pairs())
def test_defaulting_twice_is_defaulting_once(pair: Pair) -> None:
    schema, obj = compile(pair[0]), pair[1]
    schema.prune(obj)
    schema.default(obj)
    once = orjson.dumps(obj)
    schema.default(obj)
    assert orjson.dumps(obj) == once


@given(pairs())
def test_defaults_survive_pruning(pair: Pair) -> None:
    schema, obj = compile(pair[0]), pair[1]
    schema.prune(obj)
    schema.default(obj)
    once = orjson.dumps(obj)
    schema.prune(obj)
    assert orjson.dumps(obj) == once


@given(pairs())
def test_the_fast_pass_is_never_looser_than_the_walk(pair: Pair) -> None:
    schema, obj = pair
    if FastPass(schema, None).passes(obj):
        assert Walk(None).causes(schema, obj) == []


@given(pairs())
def test_what_did_not_change_is_let_through(pair: Pair) -> None:
    schema, obj = pair
    assert compile(schema).validate(obj, copy.deepcopy(obj)) == []


@given(schemas(), st.randoms(use_true_random=False))
def test_the_hash_ignores_the_order_of_keys(schema: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    assert compile(shuffled(schema)).hash == compile(schema).hash
    assert compile(shuffled(schema)) is compile(schema) or compile(schema).hash
