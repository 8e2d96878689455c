"""Validates the CEL rules (x-kubernetes-validations) of a CRD schema: they compile, and their estimated cost is within
the limits.

Messages and limits are upstream's (apiextensions validation).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import orjson

from shoal.objects.cel.ranges import MOST, capped
from shoal.objects.errors import Cause, forbidden_field, invalid_value
from shoal.objects.rules.declared import MAX_REQUEST, Declared, declared
from shoal.objects.rules.paths import normalized
from shoal.objects.rules.places import KEY, Rule, compiled

JsonSchema = dict[str, Any]

RULE_LIMIT: Final = 10_000_000
SCHEMA_LIMIT: Final = 100_000_000
_SHOWN_RULES: Final = 4
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


def rule_causes(schema: JsonSchema, path: str, *, settled: bool = False) -> list[Cause]:
    """Validates the rules of a valid schema. `unchanged`: the stored CRD has the same schema, so single rule costs are
    not checked again.

    Cached: a CRD is validated on each of its writes, and most of them do not touch the schema.
    """
    return list(_remembered(orjson.dumps(schema), path, settled))


@lru_cache(maxsize=128)
def _remembered(text: bytes, path: str, settled: bool) -> tuple[Cause, ...]:
    walk = _Walk(settled)
    walk.causes += walk.visit(orjson.loads(text), _Place(path), root=True)
    return (*walk.causes, *walk.totals(path))


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    times: int | None = 1
    """The maximum number of values of this node in one object. None: limited only by the request size."""
    uncorrelated: str = ""
    """The path of the enclosing list whose items cannot be correlated between the old and the new object."""


@dataclass(slots=True)
class _Walk:
    settled: bool
    causes: list[Cause] = field(default_factory=list)
    total: int = 0
    costs: list[tuple[int, str]] = field(default_factory=list)

    def visit(self, schema: JsonSchema, place: _Place, root: bool = False) -> Iterator[Cause]:
        times = _times(schema, place.times)
        additional, items = schema.get("additionalProperties"), schema.get("items")
        if isinstance(additional, dict):
            inner = _Place(f"{place.path}.additionalProperties", times, place.uncorrelated)
            yield from self.visit(additional, inner)
        for name, sub in (schema.get("properties") or {}).items():
            yield from self.visit(sub, _Place(f"{place.path}.properties[{name}]", times, place.uncorrelated))
        if isinstance(items, dict):
            keyed = schema.get("x-kubernetes-list-type") == "map"
            above = place.uncorrelated or ("" if keyed else place.path)
            yield from self.visit(items, _Place(f"{place.path}.items", times, above))
        given = schema.get(KEY) or []
        lost = list(_lost(schema, given, f"{place.path}.{KEY}"))
        yield from lost
        if given and not lost:
            kind = declared(schema, root=root or bool(schema.get("x-kubernetes-embedded-resource")))
            if kind is None:
                where = f"{place.path}.{KEY}"
                yield Cause("InternalError", f"{where}: Internal error: {_NO_TYPE}", where)
                return
            for index, rule in enumerate(compiled(schema, kind, given)):
                where = f"{place.path}.{KEY}[{index}]"
                yield from self._rule(rule, given[index], kind, where, place)

    def _rule(self, rule: Rule, given: JsonSchema, kind: Declared, where: str, place: _Place) -> Iterator[Cause]:
        times = place.times if place.times is not None else MAX_REQUEST // (kind.min_size + 1)
        yield from self._cost(f"{where}.rule", "estimated rule cost", capped(rule.cost * times))
        if rule.error:
            yield _invalid(f"{where}.rule", given, rule.error)
        if rule.message_error:
            yield _invalid(f"{where}.messageExpression", given, rule.message_error)
        elif rule.message_program is not None:
            told = "estimated messageExpression cost"
            yield from self._cost(f"{where}.messageExpression", told, rule.message_cost)
        if rule.uses_old:
            if place.uncorrelated:
                told = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                yield invalid_value(f"{where}.rule", rule.text, f"{told} {place.uncorrelated}")
        elif given.get("optionalOldSelf") is not None:
            told = "may not be set if oldSelf is not used in rule"
            yield invalid_value(f"{where}.optionalOldSelf", given["optionalOldSelf"], told)

    def _cost(self, where: str, what: str, cost: int) -> Iterator[Cause]:
        self.total = min(self.total + cost, MOST)
        if cost >= SCHEMA_LIMIT // 100:
            self.costs.append((cost, where))
        if cost > RULE_LIMIT and not self.settled:
            yield forbidden_field(where, _exceeded(what, cost, RULE_LIMIT))

    def totals(self, path: str) -> Iterator[Cause]:
        if self.total <= SCHEMA_LIMIT:
            return
        for _, where in sorted(self.costs, key=lambda one: -one[0])[:_SHOWN_RULES]:
            yield forbidden_field(where, _CONTRIBUTED)
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden_field(path, _exceeded(what, self.total, SCHEMA_LIMIT))


def _lost(schema: JsonSchema, rules: list[JsonSchema], path: str) -> Iterator[Cause]:
    """Reports rules whose fieldPath the schema does not have."""
    for index, rule in enumerate(rules):
        where = rule.get("fieldPath") or ""
        if where and normalized(where, schema) is None:
            yield invalid_value(f"{path}[{index}].fieldPath", where, "must be a valid path")


def _times(schema: JsonSchema, outer: int | None) -> int | None:
    """Returns how often a direct child of the schema can occur."""
    if outer is None:
        return None
    most: int | None = 1
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    return None if most is None else capped(outer * max(most, 0))


def _exceeded(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


def _invalid(where: str, rule: JsonSchema, detail: str) -> Cause:
    """Returns an invalid value cause. The value is the rule in upstream's Go field names."""
    shown = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    for char, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escape)
    return Cause("FieldValueInvalid", f"{where}: Invalid value: {text}: {detail}", where)
