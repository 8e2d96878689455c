"""Counts pods by topology domain for a spread constraint or an affinity or anti-affinity term. Pure.

One group serves all pods with the same constraint. A domain is a value of the label `key`. For the hostname every node
is a domain; full and nonempty nodes are kept as bit sets beside the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, untolerated
from shoal.kinds.karpenter import HOSTNAME
from shoal.objects.selectors import LabelSelector
from shoal.provision.simulation.states import State

Object = dict[str, Any]

SPREAD, TOGETHER, APART = "topology spread", "pod affinity", "pod anti-affinity"
EVERY = (NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE)
"""Taint effects. PreferNoSchedule counts here too, until it is relaxed."""
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Filter:
    """Nodes that count for a spread constraint."""

    alternatives: tuple[Requirements, ...] = ()
    """Empty: all nodes count."""
    tolerations: tuple[Object, ...] | None = None
    """None: taints are ignored."""

    def matches(self, requirements: Requirements, taints: Sequence[Object]) -> bool:
        if self.alternatives and not any(requirements.compatible(each) for each in self.alternatives):
            return False
        return self.tolerations is None or untolerated(taints, self.tolerations, EVERY) is None


ALL = Filter()


class Group:
    """`version` grows with every change and invalidates values computed from the group."""

    __slots__ = (
        "_matches", "any", "by_host", "counts", "filter", "key", "kind", "max_skew", "min_domains",
        "namespaces", "number", "over", "selector", "version",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        kind: str,
        key: str,
        namespaces: frozenset[str],
        selector: LabelSelector,
        max_skew: int = 0,
        min_domains: int = 0,
        filter: Filter = ALL,  # noqa: A002 (the word for it)
    ) -> None:
        self.number, self.kind, self.key, self.namespaces, self.selector = number, kind, key, namespaces, selector
        self.max_skew, self.min_domains, self.filter = max_skew, min_domains, filter
        self.by_host = key == HOSTNAME
        self.counts: dict[str, int] = {}
        self.version = 0
        self.any = [0, 0]
        """Bit sets of existing nodes and of claims that have a counted pod; only for hostname groups."""
        self.over = [[0, 0], [0, 0]]
        """Bit sets of full nodes, for pods that the group does not select and for pods that it selects."""
        self._matches: dict[tuple[int, int], bool] = {}

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces and self.selector.matches(labels)

    def know(self, domains: Iterable[str]) -> None:
        for domain in domains:
            self.counts.setdefault(domain, 0)

    def record(self, domain: str, pods: int = 1) -> None:
        self.counts[domain] = self.counts.get(domain, 0) + pods
        self.version += 1

    def record_host(self, host: str, side: int, bit: int, pods: int = 1) -> None:
        """`origin`: 0 is an existing node, 1 a new claim."""
        self.record(host, pods)
        count = self.counts[host]
        self.any[side] |= bit
        most = self.max_skew if self.kind == SPREAD else 0
        if count > most:
            self.over[0][side] |= bit
        if count + 1 > most:
            self.over[1][side] |= bit

    def counted(self, state: State, taints: Sequence[Object]) -> bool:
        """True if pods on such a node count at all."""
        if self.filter is ALL:
            return True
        name = (id(state), id(taints))
        known = self._matches.get(name)
        if known is None:
            known = self._matches[name] = self.filter.matches(state.requirements, taints)
        return known

    def domains(self, counts_itself: bool, mine: Requirement | None, its: Requirement | None) -> frozenset[str]:
        """Domains a pod may go to. `pod_requirement`: the pod's requirement on the label; `node_requirement`: the
        node's. Not for hostname groups.
        """
        if self.kind == SPREAD:
            return self._spread(counts_itself, mine, its)
        if self.kind == TOGETHER:
            return self._together(counts_itself, mine, its)
        empty = (domain for domain, count in self.counts.items() if not count)
        return frozenset(domain for domain in empty if _has(its, domain) and _has(mine, domain))

    def _spread(self, counts_itself: bool, mine: Requirement | None, its: Requirement | None) -> frozenset[str]:
        reachable = [count for domain, count in self.counts.items() if _has(mine, domain)]
        lowest = min(reachable, default=1 << 31)
        if self.min_domains and len(reachable) < self.min_domains:
            lowest = 0
        highest = lowest + self.max_skew - counts_itself
        found = ((count, domain) for domain, count in self.counts.items() if count <= highest and _has(its, domain))
        best = min(found, default=None)
        return frozenset((best[1],)) if best is not None else _NONE

    def _together(self, counts_itself: bool, mine: Requirement | None, its: Requirement | None) -> frozenset[str]:
        populated = [domain for domain, count in self.counts.items() if count and _has(mine, domain)]
        found = frozenset(domain for domain in populated if _has(its, domain))
        if found or populated or not counts_itself:
            return found
        # The first pod of a group with self-affinity may go to any domain.
        free = [domain for domain in self.counts if _has(mine, domain) and _has(its, domain)]
        return frozenset((min(free),)) if free else _NONE

    def is_first(self, counts_itself: bool, mine: Requirement | None) -> bool:
        """For hostname affinity: the pod may go to a host without a matching pod."""
        if not counts_itself or not self.version:
            return counts_itself
        return mine is not None and not any(count and mine.has(domain) for domain, count in self.counts.items())


def _has(requirement: Requirement | None, domain: str) -> bool:
    return requirement is None or requirement.has(domain)
