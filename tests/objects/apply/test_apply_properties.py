"""Properties of apply: it is idempotent, force wins, and nobody owns an absent field."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects.apply import Object, fields_v1
from shoal.objects.apply.compare import applied_fields as mentioned
from shoal.objects.apply.compare import fields_of_value, strip_untracked
from shoal.objects.apply.fieldset import decode, difference, union_all
from shoal.objects.errors import Conflict
from tests.objects.apply.samples import LATER, THING, apply_config, owners, thing, update

WORD = st.sampled_from(["a", "b", "c"])
NUMBER = st.integers(1, 3)
TEXTS = st.dictionaries(WORD, WORD, max_size=3)


def optional(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=parts)


def items(item: st.SearchStrategy[Any], *keys: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(item, max_size=3, unique_by=lambda it: tuple(it.get(key, "TCP") for key in keys))


PORT = st.fixed_dictionaries({"port": NUMBER}, optional={"protocol": st.sampled_from(["TCP", "UDP"])})
CONTAINER = st.fixed_dictionaries({"name": WORD}, optional={"image": WORD, "ports": items(PORT, "port", "protocol")})
FREE = st.recursive(
    NUMBER | WORD, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2), max_leaves=5
)
SPEC = optional(
    replicas=NUMBER,
    size=WORD,
    containers=items(CONTAINER, "name"),
    tags=st.lists(WORD, max_size=3, unique=True),
    steps=st.lists(WORD, max_size=2),
    selector=TEXTS,
    options=TEXTS,
    free=st.dictionaries(WORD, FREE, max_size=2),
    network=optional(mode=WORD, mtu=NUMBER),
)
THINGS = st.builds(lambda spec, labels: thing(spec, labels=labels), SPEC, TEXTS)
STEPS = st.lists(st.tuples(st.sampled_from(["update", "apply", "force"]), WORD, THINGS), min_size=1, max_size=5)


def history(steps: list[tuple[str, str, Object]]) -> Object:
    live: Object | None = None
    for verb, manager, obj in steps:
        if verb == "update" or live is None:
            live = update(live, obj, manager)
            continue
        try:
            live = apply_config(live, obj, manager, force=verb == "force")
        except Conflict:
            assert verb == "apply"
    assert live is not None
    return live


@given(STEPS, THINGS)
def test_applying_twice_is_applying_once(steps: list[tuple[str, str, Object]], config: Object) -> None:
    once = apply_config(history(steps), config, "me", force=True)
    assert apply_config(once, config, "me", now=LATER) == once


@given(STEPS, THINGS)
def test_force_gives_every_field_its_value(steps: list[tuple[str, str, Object]], config: Object) -> None:
    assert_has(apply_config(history(steps), config, "me", force=True), config)


def assert_has(value: Any, config: Any) -> None:
    if isinstance(config, dict):
        for name, part in config.items():
            if name == "selector":
                assert value[name] == part
            else:
                assert_has(value[name], part)
    elif isinstance(config, list) and config and isinstance(config[0], dict) and "name" in config[0]:
        by_name = {item["name"]: item for item in value}
        for item in config:
            assert_has(by_name[item["name"]], {key: part for key, part in item.items() if key != "ports"})
    elif not isinstance(config, list):
        assert value == config


@given(STEPS)
def test_nobody_owns_what_is_not_there(steps: list[tuple[str, str, Object]]) -> None:
    live = history(steps)
    there = fields_of_value(strip_untracked(live), THING.root)
    everybody = union_all(list(owners(live).values()))
    assert difference(everybody, there) == {}


@given(THINGS)
def test_fields_survive_the_wire(obj: Object) -> None:
    for fields in (fields_v1(obj, THING), mentioned(obj, THING.root) or {}):
        sent = json.loads(json.dumps(fields))
        assert decode(sent) == fields
        assert decode(sent) is sent, "written in the one canonical form"
        assert json.dumps(decode(json.loads(json.dumps(fields, sort_keys=True)))) == json.dumps(fields)


@given(STEPS, STEPS)
@settings(max_examples=50)
def test_nothing_is_mutated(steps: list[tuple[str, str, Object]], more: list[tuple[str, str, Object]]) -> None:
    live = history(steps)
    before = copy.deepcopy((live, more))
    for _, manager, obj in more:
        update(live, obj, manager)
        apply_config(live, obj, manager, force=True)
    assert (live, more) == before
