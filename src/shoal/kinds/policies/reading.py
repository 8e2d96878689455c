"""Policies and bindings as the server uses them: parsed once, with compiled expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from shoal.kinds.policies.environment import environment
from shoal.kinds.policies.expressions import (
    ANYTHING,
    CONDITION,
    CONFIGURATION,
    PATCHES,
    TEXT,
    TEXT_OR_NULL,
    Expression,
    compiled,
)
from shoal.kinds.webhooks import Rule, read_rule
from shoal.objects.cel.types import Type
from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamedRule:
    rule: Rule
    names: frozenset[str]
    """Empty: any name."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    rules: tuple[NamedRule, ...]
    excluded: tuple[NamedRule, ...]
    exact: bool
    namespaces: LabelSelector
    objects: LabelSelector


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    expression: Expression
    message: str
    told: Expression | None
    """The expression of the message, if there is one."""
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """All expressions of a policy. Compile errors are reported on evaluation."""

    conditions: tuple[Expression, ...] = ()
    variables: Mapping[str, Expression] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    annotations: tuple[tuple[str, Expression], ...] = ()
    mutations: tuple[tuple[str, Expression], ...] = ()
    """Each with its patchType."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    name: str
    match: Match | None
    params: Object | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    name: str
    match: Match
    fails_open: bool
    param_kind: tuple[str, str, str] | None
    """Group, version and kind."""
    reinvoked: bool
    compiled: Compiled
    bindings: tuple[Binding, ...]


def read_policy(policy: Object, bindings: tuple[Binding, ...]) -> Policy:
    """Parses a validated policy."""
    spec = policy["spec"]
    kind = spec.get("paramKind")
    group, _, version = kind["apiVersion"].rpartition("/") if kind else ("", "", "")
    return Policy(
        name=policy["metadata"]["name"],
        match=read_match(spec.get("matchConstraints") or {}),
        fails_open=spec.get("failurePolicy") == "Ignore",
        param_kind=(group, version, kind["kind"]) if kind else None,
        reinvoked=spec.get("reinvocationPolicy") == "IfNeeded",
        compiled=_compiled(orjson.dumps(_expressions(spec))),
        bindings=bindings,
    )


def read_binding(binding: Object) -> Binding:
    spec = binding["spec"]
    match = spec.get("matchResources")
    return Binding(
        name=binding["metadata"]["name"],
        match=read_match(match) if match is not None else None,
        params=spec.get("paramRef"),
        actions=tuple(spec.get("validationActions") or ()),
    )


def read_match(match: Object) -> Match:
    return Match(
        rules=_rules(match.get("resourceRules")),
        excluded=_rules(match.get("excludeResourceRules")),
        exact=match.get("matchPolicy") == "Exact",
        namespaces=from_label_selector(match.get("namespaceSelector") or {}),
        objects=from_label_selector(match.get("objectSelector") or {}),
    )


def _rules(rules: list[Object] | None) -> tuple[NamedRule, ...]:
    return tuple(NamedRule(read_rule(rule), frozenset(rule.get("resourceNames") or ())) for rule in rules or ())


def _expressions(spec: Object) -> Object:
    kept = ("matchConditions", "variables", "validations", "auditAnnotations", "mutations")
    return {key: spec[key] for key in kept if spec.get(key)} | {"params": spec.get("paramKind") is not None}


@lru_cache(maxsize=1024)
def _compiled(text: bytes) -> Compiled:
    """Cached: shared by all clusters that have the same policy."""
    spec: Object = orjson.loads(text)
    params: bool = spec["params"]
    types: dict[str, Type] = {}
    variables: dict[str, Expression] = {}
    for variable in spec.get("variables") or ():
        known = environment(params=params, variables=dict(types))
        made = variables[variable["name"]] = compiled(variable["expression"], known, ANYTHING)
        types[variable["name"]] = made.type
    known = environment(params=params, variables=types)
    telling = environment(params=params, authorizer=False, variables=types)
    making = environment(params=params, variables=types, makes=True)
    return Compiled(
        conditions=tuple(compiled(each["expression"], known, CONDITION) for each in spec.get("matchConditions") or ()),
        variables=variables,
        checks=tuple(
            Check(
                compiled(each["expression"], known, CONDITION),
                each.get("message") or "",
                compiled(each["messageExpression"], telling, TEXT) if each.get("messageExpression") else None,
                each.get("reason") or "Invalid",
            )
            for each in spec.get("validations") or ()
        ),
        annotations=tuple(
            (each["key"], compiled(each["valueExpression"], known, TEXT_OR_NULL))
            for each in spec.get("auditAnnotations") or ()
        ),
        mutations=tuple(
            ("JSONPatch", compiled(each["jsonPatch"]["expression"], making, PATCHES))
            if each["patchType"] == "JSONPatch"
            else ("ApplyConfiguration", compiled(each["applyConfiguration"]["expression"], making, CONFIGURATION))
            for each in spec.get("mutations") or ()
        ),
    )
