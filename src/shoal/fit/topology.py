"""Topology spread constraints: skew of pods over the domains of a node label. Pure.

`TopologySpread` counts, for one pod to schedule, the pods selected by its constraints, by domain. As with
`AffinityCounts`, the share of a node is added and subtracted as nodes change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fit.podaffinity import PeerPod
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelRequirement, LabelSelector, from_label_selector

Object = dict[str, Any]

DO_NOT_SCHEDULE, SCHEDULE_ANYWAY = "DoNotSchedule", "ScheduleAnyway"
SKEW_EXCEEDED = "node(s) didn't match pod topology spread constraints"
MISSING_TOPOLOGY_LABEL = f"{SKEW_EXCEEDED} (missing required label)"
MAX_NODE_SCORE = 100
SPREAD_WEIGHT = 2


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    topology_key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    """Nodes that the pod's node affinity does not select are not counted."""
    honor_taints: bool = False
    """Nodes whose taints the pod does not tolerate are not counted."""


def spread_constraints(
    spec: Object, labels: Mapping[str, str], action: str = DO_NOT_SCHEDULE
) -> tuple[SpreadConstraint, ...]:
    """Returns the constraints of a pod with these labels whose whenUnsatisfiable is `action`."""
    return tuple(
        SpreadConstraint(
            each.get("topologyKey", ""),
            int(each.get("maxSkew", 1)),
            _selector(each, labels),
            each.get("minDomains") or 1,
            each.get("nodeAffinityPolicy", "Honor") == "Honor",
            each.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )
        for each in spec.get("topologySpreadConstraints") or ()
        if each.get("whenUnsatisfiable", DO_NOT_SCHEDULE) == action
    )


def _selector(constraint: Object, labels: Mapping[str, str]) -> LabelSelector:
    try:
        selector = from_label_selector(constraint.get("labelSelector"))
    except BadRequest:
        return SELECT_NOTHING
    extra = [
        LabelRequirement(key, "in", (labels[key],)) for key in constraint.get("matchLabelKeys") or () if key in labels
    ]
    return LabelSelector([*selector.requirements, *extra]) if extra and not selector.selects_nothing else selector


def normalized_skew(skew: int | None, fewest: int, most: int) -> int:
    """Converts a skew score among those of all nodes to 0..MAX_NODE_SCORE: more is better. `skew` is None for a node
    in no domain.
    """
    if skew is None:
        return 0
    return MAX_NODE_SCORE * (most + fewest - skew) // most if most else MAX_NODE_SCORE


SpreadShare = list[tuple[int, str, int]]
"""Contribution of one node: constraint index, domain and number of pods."""


class TopologySpread:
    def __init__(self, constraints: Iterable[SpreadConstraint], pod: PeerPod) -> None:
        self.constraints = tuple(constraints)
        self._pod = pod
        self._self_match = [int(each.selector.matches(pod.labels)) for each in self.constraints]
        self._pods_by_domain: list[dict[str, list[int]]] = [{} for _ in self.constraints]
        """By domain: number of pods and of counted nodes."""
        self._domains_by_count: list[dict[int, int]] = [{} for _ in self.constraints]
        """Number of domains by number of pods: finds the minimum quickly."""
        self._matching_by_peer: dict[PeerPod, tuple[int, ...]] = {}
        self.changed_domains: set[tuple[str, str]] = set()
        """Labels and values whose counts changed. The reader clears it."""

    @property
    def minimums(self) -> list[tuple[int, int]]:
        """Per constraint: the minimum number of pods of a domain, and the number of domains."""
        return [
            (min(each, default=0), len(domains))
            for each, domains in zip(self._domains_by_count, self._pods_by_domain, strict=True)
        ]

    @property
    def topology_keys(self) -> set[str]:
        return {each.topology_key for each in self.constraints}

    def add(
        self, labels: Mapping[str, str], peers: Mapping[PeerPod, int], is_selected: bool, is_tolerating: bool
    ) -> SpreadShare:
        """Counts the pods of a node. `is_selected` and `is_tolerating`: whether the pod's node affinity selects the
        node and the pod tolerates its taints. The result is passed to `subtract` later.
        """
        if any(each.topology_key not in labels for each in self.constraints):
            return []
        pods = [0] * len(self.constraints)
        for peer, number in peers.items():
            for index in self._matching_constraints(peer):
                pods[index] += number
        share = [
            (index, labels[each.topology_key], pods[index])
            for index, each in enumerate(self.constraints)
            if (is_selected or not each.honor_affinity) and (is_tolerating or not each.honor_taints)
        ]
        self._change(share, 1)
        return share

    def subtract(self, share: SpreadShare) -> None:
        self._change(share, -1)

    def reject_reason(self, labels: Mapping[str, str]) -> str:
        """Returns why the pod cannot run on a node with these labels; empty if it can. Preemption cannot resolve
        MISSING_TOPOLOGY_LABEL.
        """
        for index, each in enumerate(self.constraints):
            value = labels.get(each.topology_key)
            if value is None:
                return MISSING_TOPOLOGY_LABEL
            domains = self._pods_by_domain[index]
            lowest = min(self._domains_by_count[index], default=0) if len(domains) >= each.min_domains else 0
            count = domains[value][0] if value in domains else 0
            if count + self._self_match[index] - lowest > each.max_skew:
                return SKEW_EXCEEDED
        return ""

    def skew_score(self, labels: Mapping[str, str]) -> int | None:
        """Returns the number of matching pods near such a node, weighted by the number of domains: fewer is better.
        None if the node is in no domain.
        """
        total = 0.0
        for index, each in enumerate(self.constraints):
            value = labels.get(each.topology_key)
            if value is None:
                return None
            domains = self._pods_by_domain[index]
            count = domains[value][0] if value in domains else 0
            total += count * math.log(len(domains) + 2) + each.max_skew - 1
        return round(total)

    def is_affected_by(self, peer: PeerPod) -> bool:
        return bool(self._matching_constraints(peer))

    def _matching_constraints(self, peer: PeerPod) -> tuple[int, ...]:
        """Returns the constraints that count such a pod."""
        cached = self._matching_by_peer.get(peer)
        if cached is None:
            cached = self._matching_by_peer[peer] = tuple(
                index
                for index, each in enumerate(self.constraints)
                # An empty selector counts nothing, as upstream.
                if not peer.is_terminating
                and peer.namespace == self._pod.namespace
                and not each.selector.is_empty
                and each.selector.matches(peer.labels)
            )
        return cached

    def _change(self, share: SpreadShare, sign: int) -> None:
        for index, value, number in share:
            domains, levels = self._pods_by_domain[index], self._domains_by_count[index]
            pods, nodes = domains.get(value, (0, 0))
            if nodes:
                _adjust_count(levels, pods, -1)
            self.changed_domains.add((self.constraints[index].topology_key, value))
            pods, nodes = pods + sign * number, nodes + sign
            if nodes:
                domains[value] = [pods, nodes]
                _adjust_count(levels, pods, 1)
            else:
                domains.pop(value, None)


def _adjust_count(levels: dict[int, int], pods: int, sign: int) -> None:
    number = levels.get(pods, 0) + sign
    if number:
        levels[pods] = number
    else:
        del levels[pods]
