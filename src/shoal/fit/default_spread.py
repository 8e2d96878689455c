"""Default topology spread, as kube-scheduler has it without a configuration of its own. Pure.

A pod without topologySpreadConstraints prefers nodes and zones with few pods of its Services and of its controller.
The constraints are soft: they rank nodes and reject none. As upstream, a node without one of the two labels is ranked
by the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import BadRequest
from shoal.objects.ownership import controller_of
from shoal.objects.selectors import LabelRequirement, LabelSelector, from_label_selector

Object = dict[str, Any]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HOSTNAME_SKEW, ZONE_SKEW = 3, 5
OWNER_KINDS = {
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
}
"""Resources by apiVersion and kind of the controllers whose selectors count."""


@dataclass(frozen=True, slots=True)
class DomainSizes:
    """Numbers of nodes and of zones over which the pods are spread. Nodes without a zone are one zone, as upstream."""

    nodes: int = 0
    zones: int = 0


def owner_reference(pod: Object) -> tuple[str, Object] | None:
    """Returns the resource of the pod's controller and the reference to it, if the selector of that kind counts."""
    reference = controller_of(pod)
    if reference is None:
        return None
    resource = OWNER_KINDS.get((reference.get("apiVersion", ""), reference.get("kind", "")))
    return (resource, reference) if resource is not None else None


def owner_selector(resource: str, selector: Object) -> LabelSelector:
    """Converts `spec.selector` of an object of OWNER_KINDS; an invalid one has no requirements, as upstream."""
    if resource == "replicationcontrollers":
        return LabelSelector(_equalities(selector))
    try:
        return from_label_selector(selector)
    except BadRequest:
        return LabelSelector()


def merged_selector(service_selectors: Iterable[Mapping[str, str]], owner: LabelSelector | None) -> LabelSelector:
    """Returns the selector of the pods to keep apart. It is empty if there is nothing to select by."""
    merged: dict[str, str] = {}
    for selector in service_selectors:
        merged |= selector
    requirements = _equalities(merged)
    if owner is not None:
        requirements += [each for each in owner.requirements if each not in requirements]
    return LabelSelector(requirements)


def _equalities(labels: Mapping[str, str]) -> list[LabelRequirement]:
    return [LabelRequirement(key, "=", (value,)) for key, value in labels.items()]


def spread_score(pods_on_node: int | None, pods_in_zone: int | None, sizes: DomainSizes) -> int:
    """Returns the number of pods near a node, weighted: fewer is better. None: the node lacks the label."""
    total = 0.0
    if pods_on_node is not None:
        total += pods_on_node * math.log(sizes.nodes + 2) + HOSTNAME_SKEW - 1
    if pods_in_zone is not None:
        total += pods_in_zone * math.log(sizes.zones + 2) + ZONE_SKEW - 1
    return round(total)
