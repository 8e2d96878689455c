"""CEL rules on objects: recorded results of upstream (v1.36.4), budgets, ratcheting and its warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from shoal.objects.celvalidation import rules_of
from shoal.objects.celvalidation.fieldpath import normalize_field_path
from shoal.objects.errors import Cause

KEY = "x-kubernetes-validations"
CASES: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "golden.json").read_bytes())
NUMBER = {"type": "integer"}


def with_rules(schema: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return {**schema, KEY: list(rules)}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def check_object(schema: dict[str, Any], obj: Any, old: Any = None) -> tuple[list[str], list[str]]:
    rules = rules_of(schema)
    warnings: list[str] = []
    assert rules is not None
    before = orjson.dumps([obj, old])
    causes = rules.check(obj, old, [], warnings)
    assert orjson.dumps([obj, old]) == before, "a check changes nothing"
    return [cause.message for cause in causes], warnings


def test_golden() -> None:
    assert len(CASES) > 30
    for case in CASES:
        rules = rules_of(case["schema"])
        causes = [] if rules is None else rules.check(case["obj"], case.get("old"), [])
        assert [cause.message for cause in causes] == case["causes"], case


def test_a_schema_without_rules_has_none() -> None:
    assert rules_of(object_schema(a=NUMBER)) is None
    assert rules_of({"type": "object", "properties": {KEY: {"type": "array", "items": NUMBER}}}) is None


def test_what_was_wrong_before_is_a_warning() -> None:
    schema = object_schema(spec=object_schema(a=with_rules(NUMBER, {"rule": "self > 5"}), b=NUMBER))
    new, old = {"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1, "b": 1}}
    assert check_object(schema, new, old) == ([], ["spec.a: Invalid value: 1: failed rule: self > 5"])
    assert check_object(schema, new) == (["spec.a: Invalid value: 1: failed rule: self > 5"], [])
    assert check_object(schema, {"spec": {"a": 2, "b": 1}}, old)[0] == [
        "spec.a: Invalid value: 2: failed rule: self > 5"
    ]


def test_a_rule_about_the_old_value_is_never_let_through() -> None:
    schema = object_schema(a=with_rules(NUMBER, {"rule": "self > oldSelf", "message": "must grow"}))
    assert check_object(schema, {"a": 1}, {"a": 1}) == (["a: Invalid value: 1: must grow"], [])
    assert check_object(schema, {"a": 1}, {}) == ([], [])


def test_items_without_a_key_are_judged_by_the_list() -> None:
    schema = object_schema(l={"type": "array", "items": with_rules(NUMBER, {"rule": "self > 5"})}, b=NUMBER)
    assert check_object(schema, {"l": [1], "b": 1}, {"l": [1], "b": 2})[0] == []
    assert check_object(schema, {"l": [1, 9]}, {"l": [1]})[0] == ["l[0]: Invalid value: 1: failed rule: self > 5"]


def test_a_field_nobody_knows_counts_as_changed() -> None:
    schema = object_schema(s=with_rules(object_schema(a=NUMBER), {"rule": "self.a > 5"}))
    same = {"s": {"a": 1, "unknown": 1}}
    assert check_object(schema, same, same)[0] == ["s: Invalid value: failed rule: self.a > 5"]


def test_the_rule_that_costs_too_much_is_the_last() -> None:
    loops = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"
    schema = with_rules(object_schema(l={"type": "array", "items": NUMBER}), {"rule": loops}, {"rule": "false"})
    told = f"no further validation rules will be run due to call cost exceeds limit for rule: {loops}"
    message = f"<nil>: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': {told}"
    assert check_object(schema, {"l": list(range(200))})[0] == [message]


def test_all_rules_of_an_object_have_one_budget() -> None:
    cheap = {"rule": "self.b.all(x, self.b.all(y, x + y >= 0))"}
    item = with_rules(object_schema(b={"type": "array", "items": NUMBER}), cheap)
    schema = object_schema(l={"type": "array", "items": item})
    found = check_object(schema, {"l": [{"b": list(range(250))}] * 60})[0]
    assert len(found) == 1
    assert found[0].endswith(
        'Invalid value: "object": validation failed due to running out of cost budget, '
        "no further validation rules will be run"
    )


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("'a is ' + string(self.a)", "a is 1"),
        ("'  spaced '", "spaced"),
        ("''", "plain"),
        ("'a\\nb'", "plain"),
        ("string(self.a / 0)", "plain"),
        ("[1,2,3,4,5,6,7,8,9].map(x, 'aaaaaaaaaaaaaaaaaaaa' + string(self.a)).join() + 'z'", None),
    ],
)
def test_messages(expression: str, told: str | None) -> None:
    rule = {"rule": "self.a > 5", "message": "plain", "messageExpression": expression}
    found = check_object(with_rules(object_schema(a=NUMBER), rule), {"a": 1})[0]
    assert found == [f"<nil>: Invalid value: {told or 'aaaaaaaaaaaaaaaaaaaa1' * 9 + 'z'}"]


def test_a_message_that_is_too_long_is_not_used() -> None:
    rule = {"rule": "false", "message": "plain", "messageExpression": "self.l.map(x, 'aaaaaaaaaa').join()"}
    schema = with_rules(object_schema(l={"type": "array", "items": NUMBER}), rule)
    assert check_object(schema, {"l": [1] * 600})[0] == ["<nil>: Invalid value: plain"]


def test_rules_are_not_checked_when_the_types_are_wrong() -> None:
    rules = rules_of(with_rules(object_schema(a=NUMBER), {"rule": "self.a > 5"}))
    assert rules is not None
    found = rules.check({"a": "x"}, None, [Cause("FieldValueTypeInvalid", "a: wrong", "a")])
    assert [cause.message for cause in found] == [
        (
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
    ]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".a", "a"),
        (".m.x", "m[x]"),
        (".m['x.y']", "m[x.y]"),
        ("['a']", "a"),
        (".o['b-c']", "o.b-c"),
        ("a", None),
        (".zz", None),
        (".a.b", None),
        (".m[x]", None),
        (".m['x'", None),
        ("..a", None),
        (".m['\\q']", None),
    ],
)
def test_field_paths(path: str, wanted: str | None) -> None:
    schema = object_schema(
        a=NUMBER, m={"type": "object", "additionalProperties": NUMBER}, o=object_schema(**{"b-c": NUMBER})
    )
    assert normalize_field_path(path, schema) == wanted


@pytest.mark.parametrize(
    "rule",
    [
        "self.s + ['b', 'c', 'c'] == ['c', 'b', 'a']",
        "(self.s + ['c', 'c']).size() == 3",
        "self.s == ['b', 'a'] && self.s != ['a', 'c']",
        "self.n + [2, 3] == [3, 2, 1]",
        "self.k + [self.k[1]] == [self.k[1], self.k[0]]",
        "self.k == [self.k[1], self.k[0]]",
    ],
)
def test_list_types_have_their_own_equality_and_sum(rule: str) -> None:
    item = object_schema(id={"type": "string"}, v=NUMBER)
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    schema = object_schema(
        s={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        n={"type": "array", "x-kubernetes-list-type": "set", "items": NUMBER},
        k={"type": "array", **keyed, "items": item},
    )
    obj = {"s": ["a", "b"], "n": [1, 2], "k": [{"id": "x", "v": 1}, {"id": "y", "v": 2}]}
    assert check_object(with_rules(schema, {"rule": rule}), obj) == ([], [])
