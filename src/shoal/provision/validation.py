"""Validation of NodePools and of NodeOverlay requirements, with upstream's messages. Pure.

The CRDs have CEL rules for most of this, which reject such objects where a server evaluates them. The checks are
repeated here so that nothing is launched from an object that no rule has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.fit.requirements import DOES_NOT_EXIST, EXISTS, GT, GTE, IN, LT, LTE, NOT_IN
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    HOSTNAME,
    ON_DEMAND,
    POOL_LABEL,
    RESERVED,
    SPOT,
    template_labels,
    template_spec,
)
from shoal.objects.names import is_qualified_name, is_valid_label_value

Object = dict[str, Any]

_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT, GTE, LTE)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_DOMAIN = "karpenter.sh"
_CAPACITY_TYPES = (ON_DEMAND, RESERVED, SPOT)


def pool_problems(pool: Object) -> list[str]:
    """Returns the validation errors of a NodePool."""
    spec = template_spec(pool)
    static = (pool.get("spec") or {}).get("replicas") is not None
    return [
        *(["static NodePools are not supported: spec.replicas must not be set"] if static else ()),
        *_labels(template_labels(pool)),
        *_taints(spec),
        *(problem for each in spec.get("requirements") or () for problem in _of_pool(each)),
        *_budgets((pool.get("spec") or {}).get("disruption") or {}),
    ]


def requirement_problems(each: Object) -> list[str]:
    """Returns the errors of one requirement of a NodePool, NodeClaim or NodeOverlay."""
    key, operator, values = each.get("key", ""), each.get("operator", IN), each.get("values") or []
    found = _restricted(key)
    if operator not in _OPERATORS:
        found.append(f"key {key} has an unsupported operator {operator} not in [{' '.join(sorted(_OPERATORS))}]")
    found += _unknown_values(key, operator, values, each.get("minValues"))
    found += [f"key {key} is not a qualified name, {said}" for said in is_qualified_name(key)]
    found += [
        f"invalid value {value} for key {key}, {said}" for value in values for said in is_valid_label_value(value)
    ]
    if operator == IN and not values:
        found.append(f"key {key} with operator {operator} must have a value defined")
    if operator == IN and len(values) < (each.get("minValues") or 0):
        least = "must have at least minimum number of values defined in 'values' field"
        found.append(f"key {key} with operator {operator} {least}")
    if operator in (GT, LT, GTE, LTE) and not (len(values) == 1 and values[0].isascii() and values[0].isdecimal()):
        found.append(f"key {key} with operator {operator} must have a single positive integer value")
    return found


def _of_pool(each: Object) -> list[str]:
    own = [f'label "{POOL_LABEL}" is restricted'] if each.get("key") == POOL_LABEL else []
    return [*own, *requirement_problems(each)]


def _restricted(key: str) -> list[str]:
    if key == HOSTNAME:
        return [f'label "{HOSTNAME}" is restricted']
    free = key in (CAPACITY_TYPE, POOL_LABEL) or not key.partition("/")[0].endswith(_DOMAIN)
    return [] if free else [f'label domain "{_DOMAIN}" is restricted']


def _unknown_values(key: str, operator: str, values: list[str], least: int | None) -> list[str]:
    if key != CAPACITY_TYPE or operator != IN:
        return []
    known = [value for value in values if value in _CAPACITY_TYPES]
    listed, expected = f"[{' '.join(values)}]", f"[{' '.join(_CAPACITY_TYPES)}]"
    if not known:
        return [f"no valid values found in {listed} for {key}, expected one of: {expected}, got: {listed}"]
    if least is not None and len(known) < least:
        wanted = f"expected at least {least} valid values from: {expected}, got: {len(known)}"
        return [f"not enough valid values found in {listed} for {key}, {wanted}"]
    return []


def _labels(labels: dict[str, str]) -> Iterable[str]:
    for key, value in labels.items():
        if key == POOL_LABEL:
            yield f'label "{POOL_LABEL}" is restricted'
        yield from (f'invalid key name "{key}" in labels, "{said}"' for said in is_qualified_name(key))
        yield from (f"invalid value: {value} for label[{key}], {said}" for said in is_valid_label_value(value))
        yield from _restricted(key)


def _taints(spec: Object) -> Iterable[str]:
    seen = set()
    for field in ("taints", "startupTaints"):
        for taint in spec.get(field) or ():
            key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
            yield from (f"invalid value: {said} in {field}" for said in is_qualified_name(key))
            if value:
                yield from (f"invalid value: {said} in {field}" for said in is_qualified_name(value))
            if effect not in _EFFECTS:
                yield f'invalid value: "{effect}" in {field}'
            if (key, effect) in seen:
                yield f"duplicate taint Key/Effect pair {key}={effect}"
            seen.add((key, effect))


def _budgets(disruption: Object) -> Iterable[str]:
    if any(("schedule" in each) != ("duration" in each) for each in disruption.get("budgets") or ()):
        yield "'schedule' must be set with 'duration'"
