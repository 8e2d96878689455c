"""Groups nodes by what inter-pod constraints see of them: the label values that matter, and for default spread the
number of pods to keep apart from on the node. Both are equal for all nodes of a group. Pure.

A group is closed, or has an inter-pod score. Large groups rank their own nodes. The nodes of small groups are ranked in
one heap per score, so that one group per node costs no more than one group for all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shoal.controlplane.scheduler.decide import NodeBid
from shoal.controlplane.scheduler.interpod import InterPodScore, InterPodState

LARGE_GROUP_NODES = 8
"""Number of nodes from which a group ranks its own."""
NEUTRAL_SCORE = InterPodScore()

GroupKey = tuple[int | None, tuple[str | None, ...]]
"""Pods on each node, for default spread, and label values."""


@dataclass(slots=True, eq=False)
class TopologyNodeGroup:
    labels: dict[str, str]
    pods_here: int | None
    score: InterPodScore | None
    """None: the group is closed."""
    node_names: set[str] = field(default_factory=set)
    heap: list[NodeBid] | None = None
    """Its own heap, if it is or was large."""


class TopologyNodeGroups:
    def __init__(self, inter_pod: InterPodState | None, keys: tuple[str, ...], bids: Mapping[str, NodeBid]) -> None:
        """`bids` are the current ones by node; older ones in the heaps are skipped."""
        self._inter_pod, self._keys, self._bids = inter_pod, keys, bids
        self._groups: dict[GroupKey, TopologyNodeGroup] = {}
        self._large_groups: list[TopologyNodeGroup] = []
        self._shared_heaps: dict[InterPodScore, list[NodeBid]] = {}
        self._by_label: dict[tuple[str, str], set[GroupKey]] = {}

    @property
    def large_groups(self) -> list[TopologyNodeGroup]:
        """Groups that rank their own nodes: all, without inter-pod constraints."""
        return self._large_groups

    def add(self, name: str, labels: Mapping[str, str], pods_here: int | None) -> TopologyNodeGroup:
        values = tuple(labels.get(key) for key in self._keys)
        group_key = pods_here, values
        group = self._groups.get(group_key)
        if group is None:
            pairs = {key: value for key, value in zip(self._keys, values, strict=True) if value is not None}
            group = TopologyNodeGroup(pairs, pods_here, self._score(pairs, pods_here))
            self._groups[group_key] = group
            for pair in pairs.items():
                self._by_label.setdefault(pair, set()).add(group_key)
        group.node_names.add(name)
        if group.heap is None and (len(group.node_names) >= LARGE_GROUP_NODES or self._inter_pod is None):
            group.heap = [self._bids[each] for each in group.node_names if each in self._bids]
            heapq.heapify(group.heap)
            self._large_groups.append(group)
        return group

    def remove(self, name: str, group: TopologyNodeGroup) -> None:
        group.node_names.discard(name)
        if not group.node_names:
            group_key = group.pods_here, tuple(group.labels.get(key) for key in self._keys)
            del self._groups[group_key]
            for pair in group.labels.items():
                self._by_label[pair].discard(group_key)
            if group.heap is not None:
                self._large_groups.remove(group)

    def push(self, group: TopologyNodeGroup, bid: NodeBid) -> None:
        if group.heap is not None:
            heapq.heappush(group.heap, bid)
        elif group.score is not None:
            heapq.heappush(self._shared_heaps.setdefault(group.score, []), bid)

    def open_heaps(self) -> Iterator[tuple[InterPodScore, list[NodeBid], TopologyNodeGroup | None]]:
        """Yields each heap with its score, and the group that owns it, if any."""
        for group in self._large_groups:
            if group.score is not None:
                yield group.score, group.heap or [], group
        for inter_pod_score, heap in list(self._shared_heaps.items()):
            yield inter_pod_score, heap, None
            if not heap:
                del self._shared_heaps[inter_pod_score]

    def refresh_scores(self, changed_labels: set[tuple[str, str]] | None) -> None:
        """Recomputes the scores of groups with these labels; None for all."""
        if changed_labels is None:
            groups = list(self._groups.values())
        else:
            affected = {group_key for each in changed_labels for group_key in self._by_label.get(each, ())}
            groups = [self._groups[group_key] for group_key in affected]
        for group in groups:
            before, group.score = group.score, self._score(group.labels, group.pods_here)
            if group.score is not None and group.score != before and group.heap is None:
                heap = self._shared_heaps.setdefault(group.score, [])
                for name in group.node_names:
                    if name in self._bids:
                        heapq.heappush(heap, self._bids[name])

    def compact(self) -> None:
        """Drops stale bids where there are many."""
        for group in self._large_groups:
            if group.heap is not None and len(group.heap) > 2 * len(group.node_names) + 64:
                group.heap = [self._bids[name] for name in group.node_names if name in self._bids]
                heapq.heapify(group.heap)
        if sum(map(len, self._shared_heaps.values())) > 2 * len(self._bids) + 64:
            self._shared_heaps = {}
            for group in self._groups.values():
                if group.score is not None and group.heap is None:
                    bids = [self._bids[name] for name in group.node_names if name in self._bids]
                    self._shared_heaps.setdefault(group.score, []).extend(bids)
            for heap in self._shared_heaps.values():
                heapq.heapify(heap)

    def _score(self, labels: Mapping[str, str], pods_here: int | None) -> InterPodScore | None:
        if self._inter_pod is None:
            return NEUTRAL_SCORE
        return None if self._inter_pod.reject_reason(labels) else self._inter_pod.score(labels, pods_here)
