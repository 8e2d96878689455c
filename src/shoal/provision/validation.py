"""Validation of NodePools and of NodeOverlay requirements, with upstream's messages. Pure.

The CRDs have CEL rules for most of this, which reject such objects where a server evaluates them. The checks are
repeated here so that nothing is launched from an object that no rule has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.fit.requirements import DOES_NOT_EXIST, EXISTS, GT, GTE, IN, LT, LTE, NOT_IN
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    HOSTNAME,
    NODE_POOL_LABEL,
    ON_DEMAND,
    RESERVED,
    SPOT,
    nodepool_template_labels,
    nodepool_template_spec,
)
from shoal.objects.names import is_qualified_name, is_valid_label_value

Object = dict[str, Any]

_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT, GTE, LTE)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_DOMAIN = "karpenter.sh"
_CAPACITY_TYPES = (ON_DEMAND, RESERVED, SPOT)


def node_pool_errors(pool: Object) -> list[str]:
    """Returns the validation errors of a NodePool."""
    spec = nodepool_template_spec(pool)
    return [
        *_label_errors(nodepool_template_labels(pool)),
        *_taint_errors(spec),
        *(problem for each in spec.get("requirements") or () for problem in _pool_requirement_errors(each)),
        *_budget_errors((pool.get("spec") or {}).get("disruption") or {}),
    ]


def requirement_errors(requirement: Object) -> list[str]:
    """Returns the errors of one requirement of a NodePool, NodeClaim or NodeOverlay."""
    key, operator, values = requirement.get("key", ""), requirement.get("operator", IN), requirement.get("values") or []
    errors = _restricted_label_errors(key)
    if operator not in _OPERATORS:
        errors.append(f"key {key} has an unsupported operator {operator} not in [{' '.join(sorted(_OPERATORS))}]")
    errors += _capacity_type_errors(key, operator, values, requirement.get("minValues"))
    errors += [f"key {key} is not a qualified name, {error}" for error in is_qualified_name(key)]
    errors += [
        f"invalid value {value} for key {key}, {error}" for value in values for error in is_valid_label_value(value)
    ]
    if operator == IN and not values:
        errors.append(f"key {key} with operator {operator} must have a value defined")
    if operator == IN and len(values) < (requirement.get("minValues") or 0):
        complaint = "must have at least minimum number of values defined in 'values' field"
        errors.append(f"key {key} with operator {operator} {complaint}")
    if operator in (GT, LT, GTE, LTE) and not (len(values) == 1 and values[0].isascii() and values[0].isdecimal()):
        errors.append(f"key {key} with operator {operator} must have a single positive integer value")
    return errors


def _pool_requirement_errors(requirement: Object) -> list[str]:
    own = [f'label "{NODE_POOL_LABEL}" is restricted'] if requirement.get("key") == NODE_POOL_LABEL else []
    return [*own, *requirement_errors(requirement)]


def _restricted_label_errors(key: str) -> list[str]:
    if key == HOSTNAME:
        return [f'label "{HOSTNAME}" is restricted']
    is_allowed = key in (CAPACITY_TYPE, NODE_POOL_LABEL) or not key.partition("/")[0].endswith(_DOMAIN)
    return [] if is_allowed else [f'label domain "{_DOMAIN}" is restricted']


def _capacity_type_errors(key: str, operator: str, values: list[str], min_values: int | None) -> list[str]:
    if key != CAPACITY_TYPE or operator != IN:
        return []
    valid = [value for value in values if value in _CAPACITY_TYPES]
    got, expected = f"[{' '.join(values)}]", f"[{' '.join(_CAPACITY_TYPES)}]"
    if not valid:
        return [f"no valid values found in {got} for {key}, expected one of: {expected}, got: {got}"]
    if min_values is not None and len(valid) < min_values:
        complaint = f"expected at least {min_values} valid values from: {expected}, got: {len(valid)}"
        return [f"not enough valid values found in {got} for {key}, {complaint}"]
    return []


def _label_errors(labels: dict[str, str]) -> Iterable[str]:
    for key, value in labels.items():
        if key == NODE_POOL_LABEL:
            yield f'label "{NODE_POOL_LABEL}" is restricted'
        yield from (f'invalid key name "{key}" in labels, "{error}"' for error in is_qualified_name(key))
        yield from (f"invalid value: {value} for label[{key}], {error}" for error in is_valid_label_value(value))
        yield from _restricted_label_errors(key)


def _taint_errors(spec: Object) -> Iterable[str]:
    seen = set()
    for field in ("taints", "startupTaints"):
        for taint in spec.get(field) or ():
            key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
            yield from (f"invalid value: {error} in {field}" for error in is_qualified_name(key))
            if value:
                yield from (f"invalid value: {error} in {field}" for error in is_qualified_name(value))
            if effect not in _EFFECTS:
                yield f'invalid value: "{effect}" in {field}'
            if (key, effect) in seen:
                yield f"duplicate taint Key/Effect pair {key}={effect}"
            seen.add((key, effect))


def _budget_errors(disruption: Object) -> Iterable[str]:
    if any(("schedule" in each) != ("duration" in each) for each in disruption.get("budgets") or ()):
        yield "'schedule' must be set with 'duration'"
