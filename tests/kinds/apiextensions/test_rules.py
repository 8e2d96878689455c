"""CEL rules of a CRD: compilation, correlation with old values, and cost limits."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.apiextensions.rules import validate_rules
from shoal.kinds.apiextensions.schema import validate_schema

KEY = "x-kubernetes-validations"
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def schema_with_rules(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {KEY: list(rules)} if rules else schema


def rule_messages(schema: dict[str, Any], **options: Any) -> list[str]:
    return [cause.message for cause in validate_rules(schema, "p", **options)]


def test_sound_rules() -> None:
    rule = {"rule": "self.a <= self.b", "messageExpression": "'got %d'.format([self.a])", "fieldPath": ".a"}
    assert rule_messages(schema_with_rules(rule, a=NUMBER, b=NUMBER)) == []
    assert rule_messages(schema_with_rules({"rule": "self.metadata.name != '' && self.kind == 'K'"})) == []


def test_a_rule_that_does_not_compile() -> None:
    assert rule_messages(schema_with_rules({"rule": "self.a > 'x'"}, a=NUMBER)) == [
        (
            'p.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a \\u003e \'x\'","Message":"",'
            '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
            "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(int, string)'\n"
            " | self.a > 'x'\n"
            " | .......^"
        )
    ]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"rule": "self.a"}, "[0].rule: Invalid value: {...}: cel expression must evaluate to a bool"),
        (
            {"rule": "self.a > int('x')"},
            (
                "[0].rule: Invalid value: {...}: program instantiation failed: "
                "type conversion error from 'string' to 'int'"
            ),
        ),
        (
            {"rule": "true", "messageExpression": "1"},
            "[0].messageExpression: Invalid value: {...}: messageExpression must evaluate to a string",
        ),
        ({"rule": "true", "fieldPath": ".zz"}, '[0].fieldPath: Invalid value: ".zz": must be a valid path'),
        (
            {"rule": "true", "optionalOldSelf": True},
            "[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ],
)
def test_refused(rule: dict[str, Any], wanted: str) -> None:
    (found,) = rule_messages(schema_with_rules(rule, a=NUMBER))
    start, _, rest = found.partition("{")
    shown = f"{start}{{...}}{rest.partition('}')[2]}" if rest else found
    assert shown == f"p.x-kubernetes-validations{wanted}"


def test_old_values_need_places_that_can_be_told_apart() -> None:
    rule = {"rule": "self == oldSelf"}
    plain = {"type": "array", "maxItems": 3, "items": {**NUMBER, KEY: [rule]}}
    assert rule_messages(schema_with_rules(l=plain)) == [
        (
            'p.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": '
            "oldSelf cannot be used on the uncorrelatable portion of the schema within p.properties[l]"
        )
    ]
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    item = schema_with_rules(k={**TEXT, "maxLength": 3}, v={**NUMBER, KEY: [rule]})
    assert rule_messages(schema_with_rules(l={"type": "array", "maxItems": 3, **keyed, "items": item})) == []


def test_a_rule_that_may_cost_too_much() -> None:
    rule = {"rule": "self.l.all(a, self.l.all(b, a != b))"}
    items = {"type": "array", "items": TEXT}
    where = "p.x-kubernetes-validations[0].rule"
    total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    assert rule_messages(schema_with_rules(rule, l=items)) == [
        f"{where}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}",
        f"{where}: Forbidden: {CONTRIBUTED}",
        f"p: Forbidden: {total} exceeds budget by factor of more than 100x {ADVICE}",
    ]
    assert (
        rule_messages(schema_with_rules(rule, l={"type": "array", "maxItems": 100, "items": {**TEXT, "maxLength": 20}}))
        == []
    )


def test_an_unchanged_schema_keeps_the_costs_it_had() -> None:
    rule = {"rule": "self.all(x, x.startsWith('a') && x.contains('b'))"}
    schema = schema_with_rules(l={"type": "array", "maxItems": 40, "items": TEXT, KEY: [rule]})
    assert rule_messages(schema)[0].startswith(
        "p.properties[l].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost"
    )
    assert rule_messages(schema, unchanged=True) == []


def test_rules_inside_lists_cost_as_often_as_they_run() -> None:
    rule = {"rule": "self.matches('^[a-z]+$')"}
    text = {**TEXT, "maxLength": 1000, KEY: [rule]}
    assert rule_messages(schema_with_rules(l={"type": "array", "maxItems": 10, "items": text})) == []
    (found, *_) = rule_messages(schema_with_rules(l={"type": "array", "items": text}))
    assert "estimated rule cost exceeds budget by factor of" in found


def test_rules_wait_until_the_schema_is_sound() -> None:
    schema = schema_with_rules({"rule": "self.zz"}, a={"type": "nope"})
    found = [cause.message for cause in validate_schema(schema, "p", has_status=False)]
    assert not any("compilation failed" in message for message in found)
    assert any("Unsupported value" in message for message in found)


def test_schema_without_a_type_for_rules() -> None:
    (found,) = rule_messages(
        schema_with_rules(a={"x-kubernetes-preserve-unknown-fields": True, KEY: [{"rule": "true"}]})
    )
    assert found.startswith("p.properties[a].x-kubernetes-validations: Internal error: internal error: failed to")
