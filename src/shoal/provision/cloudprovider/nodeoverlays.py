"""Applies NodeOverlays to the instance types of a NodePool: prices and extended resources. Pure.

`validate_overlays` decides which overlays are valid; their conditions report it. `apply_overlays` applies those whose
condition is true to the provider's types before anything is planned or launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.requirements import NOT_IN, Requirements, from_expressions, from_labels
from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, Resources, parse_amounts
from shoal.kinds.karpenter.karpenter import NODE_POOL_LABEL, VALIDATION_SUCCEEDED, nodepool_template_labels
from shoal.objects.conditions import get_condition
from shoal.provision.cloudprovider.types import Instance, InstanceType, Offering
from shoal.provision.validation import requirement_errors

Object = dict[str, Any]

_RESTRICTED_RESOURCES = (CPU, MEMORY, EPHEMERAL, PODS)
INVALID, CONFLICT = "RuntimeValidation", "Conflict"
"""Reasons why an overlay is not valid."""


@dataclass(frozen=True, slots=True)
class _ParsedOverlay:
    weight: int
    requirements: Requirements
    price_change: str
    """A price, or with a sign an amount added to it; empty: none."""
    capacity: Resources

    def selected_offerings(self, kind: InstanceType, pool: Requirements) -> tuple[Offering, ...]:
        """Returns the matching offerings of the type. Labels of the pool count as labels of its nodes."""
        if not pool.union(kind.requirements).is_compatible(self.requirements):
            return ()
        return tuple(each for each in kind.offerings if self._matches_offering(kind, each))

    def _matches_offering(self, kind: InstanceType, offering: Offering) -> bool:
        for key, each in self.requirements.items():
            if key in offering.labels:
                if not each.has(offering.labels[key]):
                    return False
            elif (
                kind.requirements.requirement_for(key).allows_absent
                and key in kind.requirements
                and not each.allows_absent
            ):
                return False  # other offerings of the type have the label
        return True


def apply_overlays(types: Sequence[InstanceType], overlays: Iterable[Object], pool: Object) -> list[InstanceType]:
    """Returns the types as the pool may buy them. Overlays without a current, true validation condition are ignored."""
    active = _parse_in_order(each for each in overlays if _is_valid(each))
    labels = _pool_labels(pool)
    return [_apply(kind, active, labels) for kind in types] if active else list(types)


def apply_overlays_to_instance(instance: Instance, overlays: Iterable[Object], pool: Object) -> Instance:
    """Returns an instance of the pool with the extended resources that its node will have."""
    kind = InstanceType("", instance.capacity, instance.allocatable, (Offering("", instance.labels, 0.0),))
    (adjusted_type,) = apply_overlays([kind], overlays, pool)
    if adjusted_type is kind:
        return instance
    return replace(instance, capacity=adjusted_type.capacity, allocatable=adjusted_type.allocatable)


def validate_overlays(
    overlays: Iterable[Object], types_by_pool: Sequence[tuple[Object, Sequence[InstanceType]]]
) -> dict[str, tuple[str, str] | None]:
    """Returns, by name, None for a valid overlay, else reason and message. `types_by_pool`: NodePools, each with the
    types it may buy.

    Overlays are ordered by weight, then by descending name. An overlay that sets the same offering's price, or the same
    type's resource, as another overlay of equal weight is invalid everywhere.
    """
    verdicts: dict[str, tuple[str, str] | None] = {}
    last_weight: dict[tuple[str, str, str], int] = {}
    """Weight of the last overlay, by pool, type, and offering or resource."""
    pools = [(pool["metadata"]["name"], _pool_labels(pool), types) for pool, types in types_by_pool]
    for obj in sorted(overlays, key=_sort_key):
        name = obj["metadata"]["name"]
        if errors := overlay_errors(obj):
            verdicts[name] = (INVALID, "; ".join(errors))
            continue
        overlay = _parse(obj)
        keys = [
            key
            for pool, labels, types in pools
            for kind in types
            for key in _overlaid_keys(pool, kind, overlay, overlay.selected_offerings(kind, labels))
        ]
        if any(last_weight.get(key) == overlay.weight for key in keys):
            verdicts[name] = (CONFLICT, "conflict with another overlay")
            continue
        verdicts[name] = None
        last_weight |= dict.fromkeys(keys, overlay.weight)
    return verdicts


def overlay_errors(overlay: Object) -> list[str]:
    """Returns the errors of the overlay itself, without regard to others."""
    spec = overlay.get("spec") or {}
    errors = ["cannot set both 'price' and 'priceAdjustment'"] if "price" in spec and "priceAdjustment" in spec else []
    for each in spec.get("requirements") or ():
        errors += [f"invalid value: {error} in requirements, restricted" for error in requirement_errors(each)]
        if each.get("operator") == NOT_IN and not each.get("values"):
            errors.append(f"key {each['key']} with operator {NOT_IN} must have a value defined")
    restricted = sorted(name for name in spec.get("capacity") or {} if name in _RESTRICTED_RESOURCES)
    return errors + [f"invalid capacity: {name} in resource, restricted" for name in restricted]


def adjust_price(price: float, change: str) -> float:
    """`1.5` sets the price; `+0.5` and `-10%` change it. The result is never negative."""
    if not change:
        return price
    if change[0] not in "+-":
        return float(change)
    delta = price * float(change[:-1]) / 100 if change.endswith("%") else float(change)
    return max(0.0, price + delta)


def _overlaid_keys(
    pool: str, kind: InstanceType, overlay: _ParsedOverlay, offerings: Sequence[Offering]
) -> list[tuple[str, str, str]]:
    if not offerings:
        return []
    prices = (
        [f"offering {each.name} {sorted(each.labels.items())}" for each in offerings] if overlay.price_change else []
    )
    return [(pool, kind.name, each) for each in (*prices, *(f"resource {name}" for name in overlay.capacity))]


def _apply(kind: InstanceType, overlays: Sequence[_ParsedOverlay], pool: Requirements) -> InstanceType:
    prices: dict[int, float] = {}
    added_capacity: Resources = {}
    for overlay in overlays:
        selected = overlay.selected_offerings(kind, pool)
        if not selected:
            continue
        for each in selected if overlay.price_change else ():
            prices.setdefault(id(each), adjust_price(each.price, overlay.price_change))
        added_capacity = {**overlay.capacity, **added_capacity}
    if not prices and not added_capacity:
        return kind
    return replace(
        kind,
        capacity={**kind.capacity, **added_capacity},
        allocatable={**kind.allocatable, **added_capacity},
        offerings=tuple(replace(each, price=prices.get(id(each), each.price)) for each in kind.offerings),
    )


def _is_valid(overlay: Object) -> bool:
    condition: Mapping[str, Any] = get_condition(overlay, VALIDATION_SUCCEEDED) or {}
    is_current = condition.get("observedGeneration") == overlay["metadata"].get("generation")
    return condition.get("status") == "True" and is_current and "deletionTimestamp" not in overlay["metadata"]


def _parse_in_order(overlays: Iterable[Object]) -> list[_ParsedOverlay]:
    return [_parse(each) for each in sorted(overlays, key=_sort_key)]


def _sort_key(overlay: Object) -> tuple[int, tuple[int, ...]]:
    """Heavier overlays first, then by descending name, compared character by character."""
    name = overlay["metadata"]["name"]
    return -_weight(overlay), (*(-ord(letter) for letter in name), 1)


def _weight(overlay: Object) -> int:
    return int((overlay.get("spec") or {}).get("weight") or 0)


def _parse(overlay: Object) -> _ParsedOverlay:
    spec = overlay["spec"]
    change = str(spec.get("price") or spec.get("priceAdjustment") or "")
    requirements = from_expressions(spec.get("requirements"))
    return _ParsedOverlay(_weight(overlay), requirements, change, parse_amounts(spec.get("capacity") or {}))


def _pool_labels(pool: Object) -> Requirements:
    return from_labels({**nodepool_template_labels(pool), NODE_POOL_LABEL: pool["metadata"]["name"]})
