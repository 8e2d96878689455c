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

from shoal.objects.cel.size_ranges import MAX_UINT64, saturate
from shoal.objects.celvalidation.compiled_rules import VALIDATIONS_KEY, CELRule, compile_rules
from shoal.objects.celvalidation.decltype import MAX_REQUEST_BYTES, DeclType, decl_type_of
from shoal.objects.celvalidation.fieldpath import normalize_field_path
from shoal.objects.errors import Cause, forbidden_field, invalid_value

JsonSchema = dict[str, Any]

RULE_COST_LIMIT: Final = 10_000_000
SCHEMA_COST_LIMIT: Final = 100_000_000
_MAX_REPORTED_RULES: Final = 4
_COST_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_CONTRIBUTED_TO_TOTAL = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


def validate_rules(schema: JsonSchema, path: str, *, unchanged: bool = False) -> list[Cause]:
    """Validates the rules of a valid schema. `unchanged`: the stored CRD has the same schema, so single rule costs are
    not checked again.

    Cached: a CRD is validated on each of its writes, and most of them do not touch the schema.
    """
    return list(_cached_rule_causes(orjson.dumps(schema), path, unchanged))


@lru_cache(maxsize=128)
def _cached_rule_causes(text: bytes, path: str, unchanged: bool) -> tuple[Cause, ...]:
    validator = _RuleValidator(unchanged)
    validator.causes += validator.validate(orjson.loads(text), _CELSchemaContext(path), root=True)
    return (*validator.causes, *validator.validate_total_cost(path))


@dataclass(frozen=True, slots=True)
class _CELSchemaContext:
    path: str
    max_cardinality: int | None = 1
    """The maximum number of values of this node in one object. None: limited only by the request size."""
    uncorrelatable_path: str = ""
    """The path of the enclosing list whose items cannot be correlated between the old and the new object."""


@dataclass(slots=True)
class _RuleValidator:
    unchanged: bool
    causes: list[Cause] = field(default_factory=list)
    total_cost: int = 0
    expensive_rules: list[tuple[int, str]] = field(default_factory=list)

    def validate(self, schema: JsonSchema, context: _CELSchemaContext, root: bool = False) -> Iterator[Cause]:
        cardinality = _max_cardinality(schema, context.max_cardinality)
        additional, items = schema.get("additionalProperties"), schema.get("items")
        if isinstance(additional, dict):
            inner = _CELSchemaContext(f"{context.path}.additionalProperties", cardinality, context.uncorrelatable_path)
            yield from self.validate(additional, inner)
        for name, sub in (schema.get("properties") or {}).items():
            yield from self.validate(
                sub, _CELSchemaContext(f"{context.path}.properties[{name}]", cardinality, context.uncorrelatable_path)
            )
        if isinstance(items, dict):
            is_map_list = schema.get("x-kubernetes-list-type") == "map"
            uncorrelatable_path = context.uncorrelatable_path or ("" if is_map_list else context.path)
            yield from self.validate(
                items, _CELSchemaContext(f"{context.path}.items", cardinality, uncorrelatable_path)
            )
        rules = schema.get(VALIDATIONS_KEY) or []
        path_causes = list(_validate_field_paths(schema, rules, f"{context.path}.{VALIDATIONS_KEY}"))
        yield from path_causes
        if rules and not path_causes:
            kind = decl_type_of(schema, root=root or bool(schema.get("x-kubernetes-embedded-resource")))
            if kind is None:
                rule_path = f"{context.path}.{VALIDATIONS_KEY}"
                yield Cause("InternalError", f"{rule_path}: Internal error: {_NO_TYPE}", rule_path)
                return
            for index, rule in enumerate(compile_rules(schema, kind, rules)):
                rule_path = f"{context.path}.{VALIDATIONS_KEY}[{index}]"
                yield from self._validate_rule(rule, rules[index], kind, rule_path, context)

    def _validate_rule(
        self, rule: CELRule, schema_rule: JsonSchema, kind: DeclType, path: str, context: _CELSchemaContext
    ) -> Iterator[Cause]:
        cardinality = (
            context.max_cardinality if context.max_cardinality is not None else MAX_REQUEST_BYTES // (kind.min_size + 1)
        )
        yield from self._check_cost(f"{path}.rule", "estimated rule cost", saturate(rule.estimated_cost * cardinality))
        if rule.error:
            yield _invalid_rule(f"{path}.rule", schema_rule, rule.error)
        if rule.message_error:
            yield _invalid_rule(f"{path}.messageExpression", schema_rule, rule.message_error)
        elif rule.message_program is not None:
            detail = "estimated messageExpression cost"
            yield from self._check_cost(f"{path}.messageExpression", detail, rule.message_cost)
        if rule.uses_old_self:
            if context.uncorrelatable_path:
                detail = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                yield invalid_value(f"{path}.rule", rule.text, f"{detail} {context.uncorrelatable_path}")
        elif schema_rule.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid_value(f"{path}.optionalOldSelf", schema_rule["optionalOldSelf"], detail)

    def _check_cost(self, path: str, label: str, cost: int) -> Iterator[Cause]:
        self.total_cost = min(self.total_cost + cost, MAX_UINT64)
        if cost >= SCHEMA_COST_LIMIT // 100:
            self.expensive_rules.append((cost, path))
        if cost > RULE_COST_LIMIT and not self.unchanged:
            yield forbidden_field(path, _cost_exceeded_message(label, cost, RULE_COST_LIMIT))

    def validate_total_cost(self, path: str) -> Iterator[Cause]:
        if self.total_cost <= SCHEMA_COST_LIMIT:
            return
        for _, rule_path in sorted(self.expensive_rules, key=lambda one: -one[0])[:_MAX_REPORTED_RULES]:
            yield forbidden_field(rule_path, _CONTRIBUTED_TO_TOTAL)
        label = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden_field(path, _cost_exceeded_message(label, self.total_cost, SCHEMA_COST_LIMIT))


def _validate_field_paths(schema: JsonSchema, rules: list[JsonSchema], path: str) -> Iterator[Cause]:
    """Reports rules whose fieldPath the schema does not have."""
    for index, rule in enumerate(rules):
        field_path = rule.get("fieldPath") or ""
        if field_path and normalize_field_path(field_path, schema) is None:
            yield invalid_value(f"{path}[{index}].fieldPath", field_path, "must be a valid path")


def _max_cardinality(schema: JsonSchema, outer: int | None) -> int | None:
    """Returns how often a direct child of the schema can occur."""
    if outer is None:
        return None
    max_size: int | None = 1
    if schema.get("type") == "array":
        max_size = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        max_size = schema.get("maxProperties")
    return None if max_size is None else saturate(outer * max(max_size, 0))


def _cost_exceeded_message(label: str, cost: int, limit: int) -> str:
    factor = cost / limit
    factor_text = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{label} exceeds budget by factor of {factor_text} {_COST_ADVICE}"


def _invalid_rule(path: str, rule: JsonSchema, detail: str) -> Cause:
    """Returns an invalid value cause. The value is the rule in upstream's Go field names."""
    fields = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    for char, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escape)
    return Cause("FieldValueInvalid", f"{path}: Invalid value: {text}: {detail}", path)
