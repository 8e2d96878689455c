"""Counts pods by topology domain for a spread constraint or an affinity or anti-affinity term. Pure.

One group serves all pods with the same constraint. A domain is a value of the label `key`. For the hostname every node
is a domain; full and nonempty nodes are kept as bit sets beside the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, first_untolerated
from shoal.kinds.karpenter.karpenter import HOSTNAME
from shoal.objects.selectors import LabelSelector
from shoal.provision.simulation.requirement_state import RequirementState

Object = dict[str, Any]

SPREAD, AFFINITY, ANTI_AFFINITY = "topology spread", "pod affinity", "pod anti-affinity"
ALL_EFFECTS = (NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE)
"""Taint effects. PreferNoSchedule counts here too, until it is relaxed."""
_NO_DOMAINS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TopologyNodeFilter:
    """Nodes that count for a spread constraint."""

    alternatives: tuple[Requirements, ...] = ()
    """Empty: all nodes count."""
    tolerations: tuple[Object, ...] | None = None
    """None: taints are ignored."""

    def matches(self, requirements: Requirements, taints: Sequence[Object]) -> bool:
        if self.alternatives and not any(requirements.is_compatible(each) for each in self.alternatives):
            return False
        return self.tolerations is None or first_untolerated(taints, self.tolerations, ALL_EFFECTS) is None


ALL_NODES = TopologyNodeFilter()


@dataclass(frozen=True, slots=True)
class SpreadLimits:
    """What a spread constraint allows; without one, zero."""

    max_skew: int = 0
    min_domains: int = 0
    node_filter: TopologyNodeFilter = ALL_NODES


NO_SPREAD = SpreadLimits()


class TopologyGroup:
    """`version` grows with every change and invalidates values computed from the group."""

    __slots__ = (
        "_filter_cache",
        "by_host",
        "counts",
        "filter",
        "full_hosts",
        "index",
        "key",
        "kind",
        "max_skew",
        "min_domains",
        "namespaces",
        "nonempty_hosts",
        "selector",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        kind: str,
        key: str,
        namespaces: frozenset[str],
        selector: LabelSelector,
        limits: SpreadLimits = NO_SPREAD,
    ) -> None:
        self.index, self.kind, self.key, self.namespaces, self.selector = index, kind, key, namespaces, selector
        self.max_skew, self.min_domains, self.filter = limits.max_skew, limits.min_domains, limits.node_filter
        self.by_host = key == HOSTNAME
        self.counts: dict[str, int] = {}
        self.version = 0
        self.nonempty_hosts = [0, 0]
        """Bit sets of existing nodes and of claims that have a counted pod; only for hostname groups."""
        self.full_hosts = [[0, 0], [0, 0]]
        """Bit sets of full nodes, for pods that the group does not select and for pods that it selects."""
        self._filter_cache: dict[tuple[int, int], bool] = {}

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces and self.selector.matches(labels)

    def register(self, domains: Iterable[str]) -> None:
        for domain in domains:
            self.counts.setdefault(domain, 0)

    def record(self, domain: str, pods: int = 1) -> None:
        self.counts[domain] = self.counts.get(domain, 0) + pods
        self.version += 1

    def record_host(self, host: str, origin: int, bit: int, pods: int = 1) -> None:
        """`origin`: 0 is an existing node, 1 a new claim."""
        self.record(host, pods)
        count = self.counts[host]
        self.nonempty_hosts[origin] |= bit
        limit = self.max_skew if self.kind == SPREAD else 0
        if count > limit:
            self.full_hosts[0][origin] |= bit
        if count + 1 > limit:
            self.full_hosts[1][origin] |= bit

    def counts_node(self, state: RequirementState, taints: Sequence[Object]) -> bool:
        """True if pods on such a node count at all."""
        if self.filter is ALL_NODES:
            return True
        key = (id(state), id(taints))
        matches = self._filter_cache.get(key)
        if matches is None:
            matches = self._filter_cache[key] = self.filter.matches(state.requirements, taints)
        return matches

    def allowed_domains(
        self, selects_self: bool, pod_requirement: Requirement | None, node_requirement: Requirement | None
    ) -> frozenset[str]:
        """Domains a pod may go to. `pod_requirement`: the pod's requirement on the label; `node_requirement`: the
        node's. Not for hostname groups.
        """
        if self.kind == SPREAD:
            return self._spread_domains(selects_self, pod_requirement, node_requirement)
        if self.kind == AFFINITY:
            return self._affinity_domains(selects_self, pod_requirement, node_requirement)
        unpopulated = (domain for domain, count in self.counts.items() if not count)
        return frozenset(
            domain for domain in unpopulated if _has(node_requirement, domain) and _has(pod_requirement, domain)
        )

    def _spread_domains(
        self, selects_self: bool, pod_requirement: Requirement | None, node_requirement: Requirement | None
    ) -> frozenset[str]:
        reachable = [count for domain, count in self.counts.items() if _has(pod_requirement, domain)]
        lowest = min(reachable, default=1 << 31)
        if self.min_domains and len(reachable) < self.min_domains:
            lowest = 0
        highest = lowest + self.max_skew - selects_self
        eligible = (
            (count, domain)
            for domain, count in self.counts.items()
            if count <= highest and _has(node_requirement, domain)
        )
        best = min(eligible, default=None)
        return frozenset((best[1],)) if best is not None else _NO_DOMAINS

    def _affinity_domains(
        self, selects_self: bool, pod_requirement: Requirement | None, node_requirement: Requirement | None
    ) -> frozenset[str]:
        populated = [domain for domain, count in self.counts.items() if count and _has(pod_requirement, domain)]
        populated_here = frozenset(domain for domain in populated if _has(node_requirement, domain))
        if populated_here or populated or not selects_self:
            return populated_here
        # The first pod of a group with self-affinity may go to any domain.
        free = [domain for domain in self.counts if _has(pod_requirement, domain) and _has(node_requirement, domain)]
        return frozenset((min(free),)) if free else _NO_DOMAINS

    def is_first(self, selects_self: bool, pod_requirement: Requirement | None) -> bool:
        """For hostname affinity: the pod may go to a host without a matching pod."""
        if not selects_self or not self.version:
            return selects_self
        return pod_requirement is not None and not any(
            count and pod_requirement.has(domain) for domain, count in self.counts.items()
        )


def _has(requirement: Requirement | None, domain: str) -> bool:
    return requirement is None or requirement.has(domain)
