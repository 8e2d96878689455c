"""Applies NodeOverlays to the instance types of a NodePool: prices and extended resources. Pure.

`validate_overlays` decides which overlays are valid; their conditions report it. `apply_overlays` applies those whose
condition is true to the provider's types before anything is planned or launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.requirements import NOT_IN, Requirements, from_expressions, from_labels
from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, Resources, amounts
from shoal.kinds.karpenter import POOL_LABEL, VALIDATION_SUCCEEDED, template_labels
from shoal.objects.conditions import get_condition
from shoal.provision.cloudprovider import Instance, InstanceType, Offering
from shoal.provision.validation import requirement_problems

Object = dict[str, Any]

_ORDINARY = (CPU, MEMORY, EPHEMERAL, PODS)
INVALID, CONFLICT = "RuntimeValidation", "Conflict"
"""Reasons why an overlay is not valid."""


@dataclass(frozen=True, slots=True)
class _Overlay:
    weight: int
    wanted: Requirements
    change: str
    """A price, or with a sign an amount added to it; empty: none."""
    capacity: Resources

    def selects(self, kind: InstanceType, pool: Requirements) -> tuple[Offering, ...]:
        """Returns the matching offerings of the type. Labels of the pool count as labels of its nodes."""
        if not pool.union(kind.requirements).compatible(self.wanted):
            return ()
        return tuple(each for each in kind.offerings if self._suits(kind, each))

    def _suits(self, kind: InstanceType, offering: Offering) -> bool:
        for key, each in self.wanted.items():
            if key in offering.labels:
                if not each.has(offering.labels[key]):
                    return False
            elif kind.requirements.of(key).absent and key in kind.requirements and not each.absent:
                return False  # other offerings of the type have the label
        return True


def overlaid(types: Sequence[InstanceType], overlays: Iterable[Object], pool: Object) -> list[InstanceType]:
    """Returns the types as the pool may buy them. Overlays without a current, true validation condition are ignored."""
    found = _ordered(each for each in overlays if _holds(each))
    labels = _pool_labels(pool)
    return [_changed(kind, found, labels) for kind in types] if found else list(types)


def overlaid_instance(instance: Instance, overlays: Iterable[Object], pool: Object) -> Instance:
    """Returns an instance of the pool with the extended resources that its node will have."""
    kind = InstanceType("", instance.capacity, instance.allocatable, (Offering("", instance.labels, 0.0),))
    (found,) = overlaid([kind], overlays, pool)
    if found is kind:
        return instance
    return replace(instance, capacity=found.capacity, allocatable=found.allocatable)


def judged(
    overlays: Iterable[Object], offers: Sequence[tuple[Object, Sequence[InstanceType]]]
) -> dict[str, tuple[str, str] | None]:
    """Returns, by name, None for a valid overlay, else reason and message. `types_by_pool`: NodePools, each with the
    types it may buy.

    Overlays are ordered by weight, then by descending name. An overlay that sets the same offering's price, or the same
    type's resource, as another overlay of equal weight is invalid everywhere.
    """
    said: dict[str, tuple[str, str] | None] = {}
    taken: dict[tuple[str, str, str], int] = {}
    """Weight of the last overlay, by pool, type, and offering or resource."""
    pools = [(pool["metadata"]["name"], _pool_labels(pool), types) for pool, types in offers]
    for obj in sorted(overlays, key=_order):
        name = obj["metadata"]["name"]
        if wrong := problems(obj):
            said[name] = (INVALID, "; ".join(wrong))
            continue
        overlay = _read(obj)
        touched = [
            key
            for pool, labels, types in pools
            for kind in types
            for key in _touched(pool, kind, overlay, overlay.selects(kind, labels))
        ]
        if any(taken.get(key) == overlay.weight for key in touched):
            said[name] = (CONFLICT, "conflict with another overlay")
            continue
        said[name] = None
        taken |= dict.fromkeys(touched, overlay.weight)
    return said


def problems(overlay: Object) -> list[str]:
    """Returns the errors of the overlay itself, without regard to others."""
    spec = overlay.get("spec") or {}
    found = ["cannot set both 'price' and 'priceAdjustment'"] if "price" in spec and "priceAdjustment" in spec else []
    for each in spec.get("requirements") or ():
        found += [f"invalid value: {said} in requirements, restricted" for said in requirement_problems(each)]
        if each.get("operator") == NOT_IN and not each.get("values"):
            found.append(f"key {each['key']} with operator {NOT_IN} must have a value defined")
    restricted = sorted(name for name in spec.get("capacity") or {} if name in _ORDINARY)
    return found + [f"invalid capacity: {name} in resource, restricted" for name in restricted]


def adjusted(price: float, change: str) -> float:
    """`1.5` sets the price; `+0.5` and `-10%` change it. The result is never negative."""
    if not change:
        return price
    if change[0] not in "+-":
        return float(change)
    by = price * float(change[:-1]) / 100 if change.endswith("%") else float(change)
    return max(0.0, price + by)


def _touched(
    pool: str, kind: InstanceType, overlay: _Overlay, offerings: Sequence[Offering]
) -> list[tuple[str, str, str]]:
    if not offerings:
        return []
    prices = [f"offering {each.name} {sorted(each.labels.items())}" for each in offerings] if overlay.change else []
    return [(pool, kind.name, each) for each in (*prices, *(f"resource {name}" for name in overlay.capacity))]


def _changed(kind: InstanceType, overlays: Sequence[_Overlay], pool: Requirements) -> InstanceType:
    prices: dict[int, float] = {}
    more: Resources = {}
    for overlay in overlays:
        chosen = overlay.selects(kind, pool)
        if not chosen:
            continue
        for each in chosen if overlay.change else ():
            prices.setdefault(id(each), adjusted(each.price, overlay.change))
        more = {**overlay.capacity, **more}
    if not prices and not more:
        return kind
    return replace(
        kind,
        capacity={**kind.capacity, **more},
        allocatable={**kind.allocatable, **more},
        offerings=tuple(replace(each, price=prices.get(id(each), each.price)) for each in kind.offerings),
    )


def _holds(overlay: Object) -> bool:
    said: Mapping[str, Any] = get_condition(overlay, VALIDATION_SUCCEEDED) or {}
    seen = said.get("observedGeneration") == overlay["metadata"].get("generation")
    return said.get("status") == "True" and seen and "deletionTimestamp" not in overlay["metadata"]


def _ordered(overlays: Iterable[Object]) -> list[_Overlay]:
    return [_read(each) for each in sorted(overlays, key=_order)]


def _order(overlay: Object) -> tuple[int, tuple[int, ...]]:
    """Heavier overlays first, then by descending name, compared character by character."""
    name = overlay["metadata"]["name"]
    return -_weight(overlay), (*(-ord(letter) for letter in name), 1)


def _weight(overlay: Object) -> int:
    return int((overlay.get("spec") or {}).get("weight") or 0)


def _read(overlay: Object) -> _Overlay:
    spec = overlay["spec"]
    change = str(spec.get("price") or spec.get("priceAdjustment") or "")
    wanted = from_expressions(spec.get("requirements"))
    return _Overlay(_weight(overlay), wanted, change, amounts(spec.get("capacity") or {}))


def _pool_labels(pool: Object) -> Requirements:
    return from_labels({**template_labels(pool), POOL_LABEL: pool["metadata"]["name"]})
