"""What MachineDeployments offer: instance types, read from labels and annotations. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.requirements import Requirements, from_labels
from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, Resources, amounts, fits
from shoal.kinds import capi
from shoal.kinds.capi import CURRENT_PRICE, KARPENTER_MEMBER
from shoal.kinds.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, is_ephemeral, is_going
from shoal.objects.selectors import from_label_selector
from shoal.provision.cloudprovider import InstanceType, Offering

Object = dict[str, Any]

MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
INTERRUPTIBLE = "cluster.x-k8s.io/interruptible"
ON_DEMAND, SPOT = "on-demand", "spot"

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
"""What a node of a MachineDeployment will have, as the cluster autoscaler reads it."""
_RESOURCES = {"cpu": CPU, "memory": MEMORY, "maxPods": PODS, "ephemeral-disk": EPHEMERAL}
_MOST_PODS = 110
"""Where nothing is said: what a kubelet takes by default."""
_PER_CPU, _PER_GIGABYTE = 0.025, 0.001
"""A guess at the price of what has none, so that a larger machine is a dearer one: that of the KWOK catalogue."""


def takes_part(deployment: Object) -> bool:
    return KARPENTER_MEMBER in (deployment["metadata"].get("labels") or {})


def can_be_bought_from(deployment: Object) -> bool:
    paused = capi.PAUSED in (deployment["metadata"].get("annotations") or {})
    return takes_part(deployment) and not is_going(deployment) and not paused and bool(capacity(deployment))


def selected(deployment: Object, node_class: Object) -> bool:
    """By the member label AND the class's selector; no selector selects all that have the label."""
    selector = (node_class.get("spec") or {}).get("scalableResourceSelector")
    matches = not selector or from_label_selector(selector).matches(deployment["metadata"].get("labels") or {})
    return matches and takes_part(deployment)


def instance_types(deployments: Iterable[Object], claimed: Mapping[str, int]) -> list[InstanceType]:
    """By name. MachineDeployments that differ only in where and how they sell are offerings of one type.

    `claimed`: how many NodeClaims each MachineDeployment (namespace/name) has already.
    """
    groups: dict[tuple[Any, ...], list[tuple[Offering, Resources]]] = {}
    for deployment in sorted(deployments, key=full_name):
        found = offering(deployment, claimed.get(full_name(deployment), 0))
        has = capacity(deployment)
        same = (found.labels[INSTANCE_TYPE], tuple(sorted(has.items())), _taint_key(found.taints))
        groups.setdefault(same, []).append((found, has))
    types = [_merged(members) for members in groups.values()]
    return sorted(types, key=lambda each: (each.name, each.offerings[0].name))


def offering(deployment: Object, claimed: int) -> Offering:
    return Offering(
        name=full_name(deployment),
        labels=node_labels(deployment),
        price=price(deployment),
        room=None if (most := max_size(deployment)) is None else max(0, most - claimed),
        taints=taints(deployment),
    )


def capacity(deployment: Object) -> Resources:
    """Empty unless cpu and memory are announced: without them nothing can be planned."""
    annotations = deployment["metadata"].get("annotations") or {}
    said = {resource: annotations.get(CAPACITY + name) for name, resource in _RESOURCES.items()}
    if annotations.get(f"{CAPACITY}gpu-type"):
        said[annotations[f"{CAPACITY}gpu-type"]] = annotations.get(f"{CAPACITY}gpu-count")
    found = amounts({name: value for name, value in said.items() if value})
    if CPU not in found or MEMORY not in found:
        return {}
    return {PODS: _MOST_PODS, **found}


def node_labels(deployment: Object) -> dict[str, str]:
    """What Cluster API puts on nodes from the template, then what is announced; the type's name always."""
    metadata = deployment["metadata"]
    template = (((deployment.get("spec") or {}).get("template") or {}).get("metadata") or {}).get("labels") or {}
    labels = capi.node_labels({key: value for key, value in template.items() if key != KARPENTER_MEMBER})
    announced = (metadata.get("annotations") or {}).get(f"{CAPACITY}labels") or ""
    labels |= dict(pair.strip().split("=", 1) for pair in announced.split(",") if "=" in pair)
    labels.setdefault(INSTANCE_TYPE, metadata["name"])
    labels.setdefault(CAPACITY_TYPE, SPOT if INTERRUPTIBLE in template else ON_DEMAND)
    return labels


def taints(deployment: Object) -> tuple[Object, ...]:
    """Announced as `key=value:Effect,…`; those of a starting node are nobody's obstacle."""
    annotations = deployment["metadata"].get("annotations") or {}
    found = []
    for text in (annotations.get(f"{CAPACITY}taints") or "").split(","):
        pair, colon, effect = text.strip().rpartition(":")
        key, _, value = pair.partition("=")
        if colon and key:
            found.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return tuple(taint for taint in found if not is_ephemeral(taint))


def price(deployment: Object) -> float:
    template = ((deployment.get("spec") or {}).get("template") or {}).get("metadata") or {}
    for holder in (deployment["metadata"], template):
        try:
            found = float((holder.get("annotations") or {})[CURRENT_PRICE])
        except (KeyError, ValueError):
            continue
        if math.isfinite(found) and found >= 0:
            return found
    has = capacity(deployment)
    return _PER_CPU * has.get(CPU, 0) / 1000 + _PER_GIGABYTE * has.get(MEMORY, 0) / 1e9


def max_size(deployment: Object) -> int | None:
    return _whole(deployment, MAX_SIZE)


def min_size(deployment: Object) -> int:
    return _whole(deployment, MIN_SIZE) or 0


def full_name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def cheapest(
    types: Iterable[InstanceType], wanted: Requirements, needs: Resources
) -> tuple[InstanceType, Offering] | None:
    """Of all that have room and satisfy; ties by name."""
    fitting = [
        (offering.price, offering.name, kind, offering)
        for kind in types
        for offering in kind.offerings
        if offering.available and suits(kind, offering, wanted, needs)
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda each: each[:2])
    return best[2], best[3]


def suits(kind: InstanceType, offering: Offering, wanted: Requirements, needs: Resources) -> bool:
    return fits(needs, kind.allocatable) and from_labels(offering.labels).intersects(wanted)


def _merged(members: list[tuple[Offering, Resources]]) -> InstanceType:
    first, has = members[0]
    offerings = tuple(sorted((offering for offering, _ in members), key=lambda each: (each.price, each.name)))
    return InstanceType(first.labels[INSTANCE_TYPE], has, has, offerings)


def _taint_key(found: tuple[Object, ...]) -> tuple[Any, ...]:
    return tuple(sorted((taint["key"], taint["effect"], taint.get("value", "")) for taint in found))


def _whole(deployment: Object, name: str) -> int | None:
    text = (deployment["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None
