"""Evaluates rules against an object within a cost budget, with upstream's messages.

A failure of an unchanged value is a warning (ratcheting), unless the rule uses oldSelf.
"""

from __future__ import annotations

from typing import Any, Final

from shoal.objects.cel import PER_CALL_LIMIT, CostExceeded
from shoal.objects.cel.values import NONE, Optional
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required
from shoal.objects.rules.correlation import CREATED, Correlation, by_key, of_update
from shoal.objects.rules.places import Place, Rule

Json = Any

BUDGET: Final = 10_000_000
"""Maximum total cost of all rules of an object."""
MAX_MESSAGE: Final = 5 * 1024
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
_NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule"
_BLOCKING = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
})  # fmt: skip
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def check(place: Place, obj: Json, old: Json | None, before: list[Cause], warnings: list[str] | None) -> list[Cause]:
    """Returns the causes of an object. `schema_causes` were found by schema validation. Appends to `warnings`."""
    if any(cause.reason in _BLOCKING for cause in before):
        return [invalid_value("<nil>", None, _NOT_CHECKED)]
    walk = _Walk([] if warnings is None else warnings)
    walk.visit(place, "", obj, old, CREATED if old is None else of_update(obj, old, place.schema))
    return walk.causes


class _Walk:
    def __init__(self, warnings: list[str]) -> None:
        self.causes: list[Cause] = []
        self.budget = BUDGET
        self.warnings = warnings

    def visit(self, place: Place | None, path: str, obj: Json, old: Json, correlation: Correlation) -> None:
        if place is None or obj is None or self.budget < 0:
            return
        if place.rules:
            self._rules(place, path, obj, old, correlation)
        for part in place.all_of:
            self.visit(part, path, obj, old, correlation.uncorrelated())
        if obj.__class__ is list:
            if place.items is not None:
                known = by_key(place.schema, old)
                for index, item in enumerate(obj):
                    self.visit(place.items, f"{path}[{index}]", item, known(item), correlation.index(index))
        elif obj.__class__ is dict:
            self._map(place, path, obj, old, correlation)

    def _map(self, place: Place, path: str, obj: Json, old: Json, correlation: Correlation) -> None:
        before = old if old.__class__ is dict else {}
        if place.additional is not None:
            for key, value in obj.items():
                self.visit(place.additional, f"{path}[{key}]", value, before.get(key), correlation.key(key))
        for key, inner in place.properties.items():
            if key in obj:
                here = f"{path}.{key}" if path else key
                self.visit(inner, here, obj[key], before.get(key), correlation.key(key))

    def _rules(self, place: Place, path: str, obj: Json, old: Json, correlation: Correlation) -> None:
        where, kind = path or "<nil>", place.schema.get("type") or ""
        if self.budget <= 0:
            self._stop(invalid_value(where, kind, _OUT_OF_BUDGET))
            return
        assert place.declared is not None
        value = place.declared.read(obj)
        before = place.declared.read(old) if any(rule.uses_old for rule in place.rules) else None
        for rule in place.rules:
            if rule.error:
                self.causes.append(invalid_value(where, kind, f"rule compile error: {rule.error}"))
            elif rule.program is not None and (not rule.uses_old or old is not None or rule.optional_old):
                given = (NONE if before is None else Optional(before)) if rule.optional_old else before
                self._rule(rule, where, kind, [value, given], obj, correlation)
            if self.budget < 0:
                return

    def _stop(self, cause: Cause) -> None:
        self.causes.append(cause)
        self.budget = -1

    def _rule(self, rule: Rule, where: str, kind: str, values: list[Json], obj: Json, correlation: Correlation) -> None:
        assert rule.program is not None
        outcome = rule.program.evaluate(values, PER_CALL_LIMIT)
        if outcome.cost > self.budget:
            self._stop(invalid_value(where, kind, _OUT_OF_BUDGET))
            return
        self.budget -= outcome.cost
        if outcome.error is not None:
            self._failed(rule, where, kind, outcome.error)
        elif outcome.value is not True:
            self._refused(rule, where, kind, values, obj, correlation)

    def _failed(self, rule: Rule, where: str, kind: str, error: Exception) -> None:
        if isinstance(error, CostExceeded):
            told = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(invalid_value(where, kind, f"{told}: {rule.shown()}"))
        elif str(error).startswith("no such overload"):
            self.causes.append(invalid_value(where, kind, f"'{error}': {_NO_OVERLOAD}: {rule.shown()}"))
        else:
            self.causes.append(invalid_value(where, kind, f"{error} evaluating rule: {rule.shown()}"))

    def _refused(
        self, rule: Rule, where: str, kind: str, values: list[Json], obj: Json, correlation: Correlation
    ) -> None:
        if rule.path:
            where = f"{where}.{rule.path}" if where != "<nil>" else rule.path
        detail = self._message(rule, values) if rule.message_program is not None else ""
        if self.budget < 0:
            cause = invalid_value(where, kind, detail)
        else:
            detail = detail or rule.message.strip() or f"failed rule: {rule.shown()}"
            cause = _cause(rule.reason, where, kind, obj, detail)
        if not rule.uses_old and correlation.unchanged():
            self.warnings.append(cause.message)
        else:
            self.causes.append(cause)

    def _message(self, rule: Rule, values: list[Json]) -> str:
        """Returns the result of messageExpression, or an empty string if it fails. Running out of budget returns its
        own message and ends the evaluation.
        """
        assert rule.message_program is not None
        outcome = rule.message_program.evaluate(values, PER_CALL_LIMIT)
        if outcome.cost > self.budget:
            self.budget = -1
            return _MESSAGE_OUT_OF_BUDGET
        if isinstance(outcome.error, CostExceeded):
            self.budget = -1
            told = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            return f'{told}: "{rule.message_text}"'
        self.budget -= outcome.cost
        text = outcome.value.strip() if outcome.value.__class__ is str else ""
        return text if len(text.encode()) <= MAX_MESSAGE and "\n" not in text else ""


def _cause(reason: str, where: str, kind: str, obj: Json, detail: str) -> Cause:
    if reason == "FieldValueForbidden":
        return forbidden_field(where, detail)
    if reason == "FieldValueRequired":
        return required(where, detail)
    whole = kind in ("object", "array")
    if reason == "FieldValueDuplicate":
        return Cause(reason, f"{where}: Duplicate value", where) if whole else duplicate(where, obj)
    if whole:
        return Cause("FieldValueInvalid", f"{where}: Invalid value: {detail}", where)
    return invalid_value(where, obj, detail)
