"""What NodeOverlays change of the instance types a NodePool may buy: prices, and extended resources. Pure.

`judged` says which overlays hold; they tell it in their conditions. `overlaid` applies those that have been told so, to
what the provider offers and before anything is planned or bought with it.
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
"""Reasons why an overlay does not hold."""


@dataclass(frozen=True, slots=True)
class _Overlay:
    weight: int
    wanted: Requirements
    change: str
    """A price, or with a sign what is added to it; empty: none."""
    capacity: Resources

    def selects(self, kind: InstanceType, pool: Requirements) -> tuple[Offering, ...]:
        """Of the type's offerings; the labels of the pool are those of its nodes too."""
        if not pool.union(kind.requirements).compatible(self.wanted):
            return ()
        return tuple(each for each in kind.offerings if self._suits(kind, each))

    def _suits(self, kind: InstanceType, offering: Offering) -> bool:
        for key, each in self.wanted.items():
            if key in offering.labels:
                if not each.has(offering.labels[key]):
                    return False
            elif kind.requirements.of(key).absent and key in kind.requirements and not each.absent:
                return False  # others of its offerings have the label
        return True


def overlaid(types: Sequence[InstanceType], overlays: Iterable[Object], pool: Object) -> list[InstanceType]:
    """The types as the pool may buy them. Overlays that nobody has judged yet, or not as they are now, do nothing."""
    found = _ordered(each for each in overlays if _holds(each))
    labels = _pool_labels(pool)
    return [_changed(kind, found, labels) for kind in types] if found else list(types)


def overlaid_instance(instance: Instance, overlays: Iterable[Object], pool: Object) -> Instance:
    """A machine of the pool with the extended resources its node will have."""
    kind = InstanceType("", instance.capacity, instance.allocatable, (Offering("", instance.labels, 0.0),))
    (found,) = overlaid([kind], overlays, pool)
    if found is kind:
        return instance
    return replace(instance, capacity=found.capacity, allocatable=found.allocatable)


def judged(
    overlays: Iterable[Object], offers: Sequence[tuple[Object, Sequence[InstanceType]]]
) -> dict[str, tuple[str, str] | None]:
    """By name: None if it holds, else reason and message. `offers`: NodePools, each with what it may buy.

    By weight, of equal weight the later name first; one that says what another of its weight has said already of the
    same offering, or of the same type's resource, holds nowhere.
    """
    said: dict[str, tuple[str, str] | None] = {}
    taken: dict[tuple[str, str, str], int] = {}
    """Weight of the last word, by pool, type, and offering or resource."""
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
    """Empty: nothing is wrong with it by itself."""
    spec = overlay.get("spec") or {}
    found = ["cannot set both 'price' and 'priceAdjustment'"] if "price" in spec and "priceAdjustment" in spec else []
    for each in spec.get("requirements") or ():
        found += [f"invalid value: {said} in requirements, restricted" for said in requirement_problems(each)]
        if each.get("operator") == NOT_IN and not each.get("values"):
            found.append(f"key {each['key']} with operator {NOT_IN} must have a value defined")
    restricted = sorted(name for name in spec.get("capacity") or {} if name in _ORDINARY)
    return found + [f"invalid capacity: {name} in resource, restricted" for name in restricted]


def adjusted(price: float, change: str) -> float:
    """`1.5` is the price; `+0.5`, `-10%` change it, never below nothing."""
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
    """The heavier first, then the later name: the order of an alphabet turned round, letter by letter."""
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
