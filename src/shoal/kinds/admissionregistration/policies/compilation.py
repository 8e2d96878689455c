"""Policies and bindings as the server uses them: parsed once, with compiled expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from shoal.kinds.admissionregistration.policies.environment import environment
from shoal.kinds.admissionregistration.policies.expressions import (
    ANY_RESULT,
    APPLY_CONFIGURATION_RESULT,
    BOOL_RESULT,
    JSON_PATCH_RESULT,
    STRING_OR_NULL_RESULT,
    STRING_RESULT,
    CELExpression,
    compile_expression,
)
from shoal.kinds.admissionregistration.webhook_client import RuleWithOperations, rule_of
from shoal.objects.cel.types import CELType
from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamedRuleWithOperations:
    rule: RuleWithOperations
    resource_names: frozenset[str]
    """Empty: any name."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchResources:
    rules: tuple[NamedRuleWithOperations, ...]
    excluded_rules: tuple[NamedRuleWithOperations, ...]
    exact_match: bool
    namespace_selector: LabelSelector
    object_selector: LabelSelector


@dataclass(frozen=True, slots=True, eq=False)
class CompiledValidation:
    expression: CELExpression
    message: str
    message_expression: CELExpression | None
    """The expression of the message, if there is one."""
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPolicy:
    """All expressions of a policy. Compile errors are reported on evaluation."""

    match_conditions: tuple[CELExpression, ...] = ()
    variables: Mapping[str, CELExpression] = field(default_factory=dict)
    validations: tuple[CompiledValidation, ...] = ()
    audit_annotations: tuple[tuple[str, CELExpression], ...] = ()
    mutations: tuple[tuple[str, CELExpression], ...] = ()
    """Each with its patchType."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyBinding:
    name: str
    match: MatchResources | None
    param_ref: Object | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AdmissionPolicy:
    name: str
    match: MatchResources
    fails_open: bool
    param_kind: tuple[str, str, str] | None
    """Group, version and kind."""
    reinvoke_if_needed: bool
    expressions: CompiledPolicy
    bindings: tuple[PolicyBinding, ...]


def policy_of(policy: Object, bindings: tuple[PolicyBinding, ...]) -> AdmissionPolicy:
    """Parses a validated policy."""
    spec = policy["spec"]
    kind = spec.get("paramKind")
    group, _, version = kind["apiVersion"].rpartition("/") if kind else ("", "", "")
    return AdmissionPolicy(
        name=policy["metadata"]["name"],
        match=match_resources_of(spec.get("matchConstraints") or {}),
        fails_open=spec.get("failurePolicy") == "Ignore",
        param_kind=(group, version, kind["kind"]) if kind else None,
        reinvoke_if_needed=spec.get("reinvocationPolicy") == "IfNeeded",
        expressions=_compile_policy(orjson.dumps(_expression_fields(spec))),
        bindings=bindings,
    )


def binding_of(binding: Object) -> PolicyBinding:
    spec = binding["spec"]
    match = spec.get("matchResources")
    return PolicyBinding(
        name=binding["metadata"]["name"],
        match=match_resources_of(match) if match is not None else None,
        param_ref=spec.get("paramRef"),
        actions=tuple(spec.get("validationActions") or ()),
    )


def match_resources_of(match: Object) -> MatchResources:
    return MatchResources(
        rules=_named_rules(match.get("resourceRules")),
        excluded_rules=_named_rules(match.get("excludeResourceRules")),
        exact_match=match.get("matchPolicy") == "Exact",
        namespace_selector=from_label_selector(match.get("namespaceSelector") or {}),
        object_selector=from_label_selector(match.get("objectSelector") or {}),
    )


def _named_rules(rules: list[Object] | None) -> tuple[NamedRuleWithOperations, ...]:
    return tuple(
        NamedRuleWithOperations(rule_of(rule), frozenset(rule.get("resourceNames") or ())) for rule in rules or ()
    )


def _expression_fields(spec: Object) -> Object:
    fields = ("matchConditions", "variables", "validations", "auditAnnotations", "mutations")
    return {key: spec[key] for key in fields if spec.get(key)} | {"params": spec.get("paramKind") is not None}


@lru_cache(maxsize=1024)
def _compile_policy(text: bytes) -> CompiledPolicy:
    """Cached: shared by all clusters that have the same policy."""
    spec: Object = orjson.loads(text)
    params: bool = spec["params"]
    types: dict[str, CELType] = {}
    variables: dict[str, CELExpression] = {}
    for variable in spec.get("variables") or ():
        cel_environment = environment(has_params=params, variables=dict(types))
        compiled_variable = variables[variable["name"]] = compile_expression(
            variable["expression"], cel_environment, ANY_RESULT
        )
        types[variable["name"]] = compiled_variable.variable_type
    cel_environment = environment(has_params=params, variables=types)
    message_environment = environment(has_params=params, has_authorizer=False, variables=types)
    patch_environment = environment(has_params=params, variables=types, has_patch_types=True)
    return CompiledPolicy(
        match_conditions=tuple(
            compile_expression(each["expression"], cel_environment, BOOL_RESULT)
            for each in spec.get("matchConditions") or ()
        ),
        variables=variables,
        validations=tuple(
            CompiledValidation(
                compile_expression(each["expression"], cel_environment, BOOL_RESULT),
                each.get("message") or "",
                compile_expression(each["messageExpression"], message_environment, STRING_RESULT)
                if each.get("messageExpression")
                else None,
                each.get("reason") or "Invalid",
            )
            for each in spec.get("validations") or ()
        ),
        audit_annotations=tuple(
            (each["key"], compile_expression(each["valueExpression"], cel_environment, STRING_OR_NULL_RESULT))
            for each in spec.get("auditAnnotations") or ()
        ),
        mutations=tuple(
            ("JSONPatch", compile_expression(each["jsonPatch"]["expression"], patch_environment, JSON_PATCH_RESULT))
            if each["patchType"] == "JSONPatch"
            else (
                "ApplyConfiguration",
                compile_expression(
                    each["applyConfiguration"]["expression"], patch_environment, APPLY_CONFIGURATION_RESULT
                ),
            )
            for each in spec.get("mutations") or ()
        ),
    )
