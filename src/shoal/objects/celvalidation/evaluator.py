"""Evaluates rules against an object within a cost budget, with upstream's messages.

A failure of an unchanged value is a warning (ratcheting), unless the rule uses oldSelf.
"""

from __future__ import annotations

from typing import Any, Final

from shoal.objects.cel import PER_CALL_LIMIT, CELProgram, CostLimitExceeded, EvalResult
from shoal.objects.cel.values import OPTIONAL_NONE, OptionalValue
from shoal.objects.celvalidation.compiled_rules import CELRule, RuleNode
from shoal.objects.celvalidation.correlation import UNCORRELATED, CorrelatedValue, correlate_update, old_item_finder
from shoal.objects.errors import Cause, TooCostlyForLoopError, duplicate, forbidden_field, invalid_value, required_value

Json = Any

COST_BUDGET: Final = 10_000_000
"""Maximum total cost of all rules of an object."""
LOOP_BUDGET: Final = 50_000
"""Maximum total cost of the rules of an object that is validated in an event loop: some milliseconds."""
MAX_MESSAGE_BYTES: Final = 5 * 1024
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
_NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature for rule"
_BLOCKING_REASONS = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
})  # fmt: skip
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def validate_rules(
    node: RuleNode,
    obj: Json,
    old: Json | None,
    schema_causes: list[Cause],
    warnings: list[str] | None,
    *,
    in_loop: bool = False,
) -> list[Cause]:
    """Returns the causes of an object. `schema_causes` were found by schema validation. Appends to `warnings`. Raises
    TooCostlyForLoopError if `in_loop`.
    """
    if any(cause.reason in _BLOCKING_REASONS for cause in schema_causes):
        return [invalid_value("<nil>", None, _NOT_CHECKED)]
    evaluator = _RuleEvaluator([] if warnings is None else warnings, in_loop)
    evaluator.visit(node, "", obj, old, UNCORRELATED if old is None else correlate_update(obj, old, node.schema))
    return evaluator.causes


class _RuleEvaluator:
    def __init__(self, warnings: list[str], in_loop: bool) -> None:
        self.causes: list[Cause] = []
        self.budget = COST_BUDGET
        self._in_loop = in_loop
        self.warnings = warnings

    def visit(self, node: RuleNode | None, path: str, obj: Json, old: Json, correlation: CorrelatedValue) -> None:
        if node is None or obj is None or self.budget < 0:
            return
        if node.rules:
            self._evaluate_rules(node, path, obj, old, correlation)
        for part in node.all_of:
            self.visit(part, path, obj, old, correlation.without_pair())
        if obj.__class__ is list:
            if node.items is not None:
                find_old = old_item_finder(node.schema, old)
                for index, item in enumerate(obj):
                    self.visit(node.items, f"{path}[{index}]", item, find_old(item), correlation.index(index))
        elif obj.__class__ is dict:
            self._visit_map(node, path, obj, old, correlation)

    def _visit_map(self, node: RuleNode, path: str, obj: Json, old: Json, correlation: CorrelatedValue) -> None:
        old_map = old if old.__class__ is dict else {}
        if node.additional_properties is not None:
            for key, value in obj.items():
                self.visit(node.additional_properties, f"{path}[{key}]", value, old_map.get(key), correlation.key(key))
        for key, inner in node.properties.items():
            if key in obj:
                here = f"{path}.{key}" if path else key
                self.visit(inner, here, obj[key], old_map.get(key), correlation.key(key))

    def _evaluate_rules(self, node: RuleNode, path: str, obj: Json, old: Json, correlation: CorrelatedValue) -> None:
        where, kind = path or "<nil>", node.schema.get("type") or ""
        if self.budget <= 0:
            self._stop(invalid_value(where, kind, _OUT_OF_BUDGET))
            return
        assert node.decl_type is not None
        value = node.decl_type.convert_value(obj)
        old_value = node.decl_type.convert_value(old) if any(rule.uses_old_self for rule in node.rules) else None
        for rule in node.rules:
            if rule.error:
                self.causes.append(invalid_value(where, kind, f"rule compile error: {rule.error}"))
            elif rule.program is not None and (not rule.uses_old_self or old is not None or rule.optional_old_self):
                old_self = (
                    (OPTIONAL_NONE if old_value is None else OptionalValue(old_value))
                    if rule.optional_old_self
                    else old_value
                )
                self._evaluate_rule(rule, where, kind, [value, old_self], obj, correlation)
            if self.budget < 0:
                return

    def _stop(self, cause: Cause) -> None:
        self.causes.append(cause)
        self.budget = -1

    def _evaluate_rule(
        self, rule: CELRule, where: str, kind: str, values: list[Json], obj: Json, correlation: CorrelatedValue
    ) -> None:
        assert rule.program is not None
        result = self._evaluate(rule.program, values)
        if result.cost > self.budget:
            self._stop(invalid_value(where, kind, _OUT_OF_BUDGET))
            return
        self.budget -= result.cost
        if result.error is not None:
            self._on_eval_error(rule, where, kind, result.error)
        elif result.value is not True:
            self._on_rule_failed(rule, where, kind, values, obj, correlation)

    def _evaluate(self, program: CELProgram, values: list[Json]) -> EvalResult:
        if not self._in_loop:
            return program.evaluate(values, PER_CALL_LIMIT)
        remaining = self.budget - (COST_BUDGET - LOOP_BUDGET)
        result = program.evaluate(values, remaining)
        if result.cost > remaining:
            raise TooCostlyForLoopError
        return result

    def _on_eval_error(self, rule: CELRule, where: str, kind: str, error: Exception) -> None:
        if isinstance(error, CostLimitExceeded):
            message = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(invalid_value(where, kind, f"{message}: {rule.display_text()}"))
        elif str(error).startswith("no such overload"):
            self.causes.append(invalid_value(where, kind, f"'{error}': {_NO_OVERLOAD}: {rule.display_text()}"))
        else:
            self.causes.append(invalid_value(where, kind, f"{error} evaluating rule: {rule.display_text()}"))

    def _on_rule_failed(
        self, rule: CELRule, where: str, kind: str, values: list[Json], obj: Json, correlation: CorrelatedValue
    ) -> None:
        if rule.path:
            where = f"{where}.{rule.path}" if where != "<nil>" else rule.path
        detail = self._evaluate_message(rule, values) if rule.message_program is not None else ""
        if self.budget < 0:
            cause = invalid_value(where, kind, detail)
        else:
            detail = detail or rule.message.strip() or f"failed rule: {rule.display_text()}"
            cause = _failure_cause(rule.reason, where, kind, obj, detail)
        if not rule.uses_old_self and correlation.is_unchanged():
            self.warnings.append(cause.message)
        else:
            self.causes.append(cause)

    def _evaluate_message(self, rule: CELRule, values: list[Json]) -> str:
        """Returns the result of messageExpression, or an empty string if it fails. Running out of budget returns its
        own message and ends the evaluation.
        """
        assert rule.message_program is not None
        result = self._evaluate(rule.message_program, values)
        if result.cost > self.budget:
            self.budget = -1
            return _MESSAGE_OUT_OF_BUDGET
        if isinstance(result.error, CostLimitExceeded):
            self.budget = -1
            message = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            return f'{message}: "{rule.message_expression}"'
        self.budget -= result.cost
        text = result.value.strip() if result.value.__class__ is str else ""
        return text if len(text.encode()) <= MAX_MESSAGE_BYTES and "\n" not in text else ""


def _failure_cause(reason: str, where: str, kind: str, obj: Json, detail: str) -> Cause:
    if reason == "FieldValueForbidden":
        return forbidden_field(where, detail)
    if reason == "FieldValueRequired":
        return required_value(where, detail)
    is_container = kind in ("object", "array")
    if reason == "FieldValueDuplicate":
        return Cause(reason, f"{where}: Duplicate value", where) if is_container else duplicate(where, obj)
    if is_container:
        return Cause("FieldValueInvalid", f"{where}: Invalid value: {detail}", where)
    return invalid_value(where, obj, detail)
