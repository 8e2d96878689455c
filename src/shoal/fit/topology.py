"""Topology spread constraints: skew of pods over the domains of a node label. Pure.

`TopologySpread` counts, for one pod to schedule, the pods selected by its constraints, by domain. As with
`AffinityCounts`, the share of a node is added and subtracted as nodes change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fit.podaffinity import Peer
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, Requirement, from_label_selector

Object = dict[str, Any]

DO_NOT_SCHEDULE, SCHEDULE_ANYWAY = "DoNotSchedule", "ScheduleAnyway"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{UNEVEN} (missing required label)"


@dataclass(frozen=True, slots=True)
class Constraint:
    key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int = 1
    by_affinity: bool = True
    """Nodes that the pod's node affinity does not select are not counted."""
    by_taints: bool = False
    """Nodes whose taints the pod does not tolerate are not counted."""


def constraints(spec: Object, labels: Mapping[str, str], action: str = DO_NOT_SCHEDULE) -> tuple[Constraint, ...]:
    """Returns the constraints of a pod with these labels whose whenUnsatisfiable is `action`."""
    return tuple(
        Constraint(
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
        return NOTHING
    more = [Requirement(key, "in", (labels[key],)) for key in constraint.get("matchLabelKeys") or () if key in labels]
    return LabelSelector([*selector.requirements, *more]) if more and not selector.nothing else selector


Share = list[tuple[int, str, int]]
"""Contribution of one node: constraint index, domain and number of pods."""


class Spread:
    def __init__(self, constraints: Iterable[Constraint], me: Peer) -> None:
        self.constraints = tuple(constraints)
        self._me = me
        self._self = [int(each.selector.matches(me.labels)) for each in self.constraints]
        self._domains: list[dict[str, list[int]]] = [{} for _ in self.constraints]
        """By domain: number of pods and of counted nodes."""
        self._levels: list[dict[int, int]] = [{} for _ in self.constraints]
        """Number of domains by number of pods: finds the minimum quickly."""
        self._selected: dict[Peer, tuple[int, ...]] = {}
        self.touched: set[tuple[str, str]] = set()
        """Labels and values whose counts changed. The reader clears it."""

    @property
    def level(self) -> list[tuple[int, int]]:
        """Per constraint: the minimum number of pods of a domain, and the number of domains."""
        return [(min(each, default=0), len(domains)) for each, domains in zip(self._levels, self._domains, strict=True)]

    @property
    def keys(self) -> set[str]:
        return {each.key for each in self.constraints}

    def add(self, labels: Mapping[str, str], peers: Mapping[Peer, int], selected: bool, tolerated: bool) -> Share:
        """Counts the pods of a node. `is_selected` and `is_tolerating`: whether the pod's node affinity selects the
        node and the pod tolerates its taints. The result is passed to `subtract` later.
        """
        if any(each.key not in labels for each in self.constraints):
            return []
        pods = [0] * len(self.constraints)
        for peer, number in peers.items():
            for index in self._of(peer):
                pods[index] += number
        share = [
            (index, labels[each.key], pods[index])
            for index, each in enumerate(self.constraints)
            if (selected or not each.by_affinity) and (tolerated or not each.by_taints)
        ]
        self._change(share, 1)
        return share

    def take(self, share: Share) -> None:
        self._change(share, -1)

    def obstacle(self, labels: Mapping[str, str]) -> str:
        """Returns why the pod cannot run on a node with these labels; empty if it can. Preemption cannot resolve
        MISSING_TOPOLOGY_LABEL.
        """
        for index, each in enumerate(self.constraints):
            value = labels.get(each.key)
            if value is None:
                return NO_DOMAIN
            domains = self._domains[index]
            lowest = min(self._levels[index], default=0) if len(domains) >= each.min_domains else 0
            there = domains[value][0] if value in domains else 0
            if there + self._self[index] - lowest > each.max_skew:
                return UNEVEN
        return ""

    def weight(self, labels: Mapping[str, str]) -> int | None:
        """Returns the number of matching pods near such a node, weighted by the number of domains: fewer is better.
        None if the node is in no domain.
        """
        total = 0.0
        for index, each in enumerate(self.constraints):
            value = labels.get(each.key)
            if value is None:
                return None
            domains = self._domains[index]
            there = domains[value][0] if value in domains else 0
            total += there * math.log(len(domains) + 2) + each.max_skew - 1
        return round(total)

    def concerns(self, peer: Peer) -> bool:
        return bool(self._of(peer))

    def _of(self, peer: Peer) -> tuple[int, ...]:
        """Returns the constraints that count such a pod."""
        known = self._selected.get(peer)
        if known is None:
            known = self._selected[peer] = tuple(
                index
                for index, each in enumerate(self.constraints)
                # An empty selector counts nothing, as upstream.
                if not peer.leaving
                and peer.namespace == self._me.namespace
                and not each.selector.empty
                and each.selector.matches(peer.labels)
            )
        return known

    def _change(self, share: Share, sign: int) -> None:
        for index, value, number in share:
            domains, levels = self._domains[index], self._levels[index]
            pods, nodes = domains.get(value, (0, 0))
            if nodes:
                _count(levels, pods, -1)
            self.touched.add((self.constraints[index].key, value))
            pods, nodes = pods + sign * number, nodes + sign
            if nodes:
                domains[value] = [pods, nodes]
                _count(levels, pods, 1)
            else:
                domains.pop(value, None)


def _count(levels: dict[int, int], pods: int, sign: int) -> None:
    number = levels.get(pods, 0) + sign
    if number:
        levels[pods] = number
    else:
        del levels[pods]
