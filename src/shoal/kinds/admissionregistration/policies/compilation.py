"""Policies and bindings as the server uses them: parsed once, with compiled expressions."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
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

_MAX_COMPILED_POLICIES = 1024


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


_compiled_policies: dict[bytes, CompiledPolicy] = {}
"""Shared by all clusters that have the same policy."""


class PolicyExpressions:
    """The expressions of a policy, compiled when a write first needs them."""

    __slots__ = ("_fields", "compiled")
    compiled: CompiledPolicy

    def __init__(self, fields: bytes) -> None:
        self._fields = fields

    def compile(self) -> Generator[None, None, None]:
        """Sets `compiled`. Yields after each expression, so that the caller can let other work run."""
        if hasattr(self, "compiled"):
            return
        known = _compiled_policies.get(self._fields)
        if known is None:
            known = yield from _compile_policy(orjson.loads(self._fields))
            while len(_compiled_policies) >= _MAX_COMPILED_POLICIES:
                del _compiled_policies[next(iter(_compiled_policies))]
            _compiled_policies[self._fields] = known
        self.compiled = known


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
    expressions: PolicyExpressions
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
        expressions=PolicyExpressions(orjson.dumps(_expression_fields(spec))),
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


def _compile_policy(spec: Object) -> Generator[None, None, CompiledPolicy]:
    params: bool = spec["params"]
    types: dict[str, CELType] = {}
    variables: dict[str, CELExpression] = {}
    for variable in spec.get("variables") or ():
        cel_environment = environment(has_params=params, variables=dict(types))
        compiled_variable = variables[variable["name"]] = compile_expression(
            variable["expression"], cel_environment, ANY_RESULT
        )
        types[variable["name"]] = compiled_variable.variable_type
        yield
    cel_environment = environment(has_params=params, variables=types)
    message_environment = environment(has_params=params, has_authorizer=False, variables=types)
    patch_environment = environment(has_params=params, variables=types, has_patch_types=True)
    conditions, validations, annotations, mutations = [], [], [], []
    for each in spec.get("matchConditions") or ():
        conditions.append(compile_expression(each["expression"], cel_environment, BOOL_RESULT))
        yield
    for each in spec.get("validations") or ():
        expression = compile_expression(each["expression"], cel_environment, BOOL_RESULT)
        message = each.get("messageExpression")
        message_expression = compile_expression(message, message_environment, STRING_RESULT) if message else None
        validations.append(
            CompiledValidation(
                expression, each.get("message") or "", message_expression, each.get("reason") or "Invalid"
            )
        )
        yield
    for each in spec.get("auditAnnotations") or ():
        expression = compile_expression(each["valueExpression"], cel_environment, STRING_OR_NULL_RESULT)
        annotations.append((each["key"], expression))
        yield
    for each in spec.get("mutations") or ():
        if each["patchType"] == "JSONPatch":
            text, result = each["jsonPatch"]["expression"], JSON_PATCH_RESULT
        else:
            text, result = each["applyConfiguration"]["expression"], APPLY_CONFIGURATION_RESULT
        mutations.append((str(each["patchType"]), compile_expression(text, patch_environment, result)))
        yield
    return CompiledPolicy(tuple(conditions), variables, tuple(validations), tuple(annotations), tuple(mutations))
