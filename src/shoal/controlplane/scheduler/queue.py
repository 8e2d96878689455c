"""Scheduling queue of one hosted cluster: order of pending pods and the messages reported for them. Pure.

Pods are queued in groups of one equivalence class, and of one peer where other pods matter. A pod that is unschedulable
makes its whole group unschedulable. The group is not tried again until the cluster changes in a way that could help.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shoal.controlplane.scheduler.decide import Object, reported_condition
from shoal.controlplane.scheduler.default_selectors import DefaultSpread, OwnerKey, owner_of
from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.ranking import NodeRanking
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot, PodInfo, PodKey
from shoal.controlplane.scheduler.spread_ranking import DefaultSpreadRanking
from shoal.fit.podaffinity import PeerPod

QueueOrder = tuple[int, str, int]
"""Higher priority first, then older, then first seen. Unique per pod."""

MAX_EMPTY_GROUPS = 64
"""Groups kept without pods, because of their cached node evaluations."""
MIN_REPORT_INTERVAL, MAX_REPORT_INTERVAL = 1.0, 10.0


@dataclass(slots=True, eq=False)
class QueuedPod:
    key: PodKey
    uid: str
    generation: int
    equivalence: EquivalenceClass
    peer: PeerPod
    order: QueueOrder
    reported: tuple[str | None, int, str]
    """Message of its condition (None before the first), pod generation and nominated node that were reported."""
    nominated_node: str = ""
    """Node where it preempts pods."""
    owner: OwnerKey | None = None

    @property
    def priority(self) -> int:
        return -self.order[0]

    def pod_info(self) -> PodInfo:
        return PodInfo(self.key, self.uid, self.equivalence, self.peer, self.priority)


QueuedGroupKey = tuple[EquivalenceClass, PeerPod | None, DefaultSpread | None, PodKey | None]
"""The peer is None if other pods matter by default spread only, or not at all. A nominated pod has a group of its own.
"""
PodRanking = NodeRanking | DefaultSpreadRanking


@dataclass(slots=True, eq=False)
class QueuedGroup:
    """Pods of one equivalence class."""

    ranking: PodRanking
    pods: dict[PodKey, QueuedPod] = field(default_factory=dict)
    heap: list[tuple[QueueOrder, PodKey]] = field(default_factory=list)
    queued_order: QueueOrder | None = None
    """Its order among the active groups."""
    unschedulable_message: str = ""
    """Why it is unschedulable; empty if it is active."""
    unreported: dict[PodKey, QueuedPod] = field(default_factory=dict)
    reported_message: str = ""
    """Reported for all of its pods except the unreported ones."""
    next_report: float = 0.0
    report_interval: float = MIN_REPORT_INTERVAL
    has_progress: bool = False
    """Some of its pods were scheduled since the last report."""

    @property
    def waits_for_pods(self) -> bool:
        """Whether arriving pods may make it schedulable."""
        inter_pod = self.ranking.inter_pod
        return inter_pod is not None and inter_pod.waits_for_pods

    def head(self) -> QueuedPod | None:
        while self.heap:
            order, key = self.heap[0]
            queued = self.pods.get(key)
            if queued is not None and queued.order == order:
                return queued
            heapq.heappop(self.heap)
        return None

    def pods_to_report(self, now: float) -> list[QueuedPod]:
        """Returns the pods whose condition is to be updated. A first message is reported at once. A changed message is
        reported only at `next_report`, and not while other pods of the group are being scheduled.
        """
        candidates, self.unreported = self.unreported, {}
        if self.has_progress:
            self.has_progress, self.next_report = False, max(self.next_report, now + MIN_REPORT_INTERVAL)
        if self.unschedulable_message != self.reported_message and now >= self.next_report:
            candidates, self.reported_message = self.pods, self.unschedulable_message
            self.report_interval = (
                MIN_REPORT_INTERVAL
                if now > self.next_report + MAX_REPORT_INTERVAL
                else min(2 * self.report_interval, MAX_REPORT_INTERVAL)
            )
            self.next_report = now + self.report_interval
        return [
            each
            for each in candidates.values()
            if each.reported != (self.unschedulable_message, each.generation, each.nominated_node)
        ]


class SchedulingQueue:
    def __init__(
        self,
        group_key_of: Callable[[QueuedPod], QueuedGroupKey],
        new_ranking: Callable[[QueuedPod, QueuedGroupKey], PodRanking],
    ) -> None:
        self._group_key_of, self._new_ranking = group_key_of, new_ranking
        self._numbers = itertools.count()
        self._pods: dict[PodKey, QueuedPod] = {}
        self._groups: dict[QueuedGroupKey, QueuedGroup] = {}
        self._group_keys: dict[PodKey, QueuedGroupKey] = {}
        self._active: list[tuple[QueueOrder, int, QueuedGroup]] = []
        """Heap of active groups by their heads, with stale entries."""
        self._unschedulable: set[QueuedGroup] = set()
        self._waiting_for_pods: set[QueuedGroup] = set()
        """Unschedulable groups that arriving pods may help."""
        self._retry_generation = self._revision = 0
        self._prune_limit = MAX_EMPTY_GROUPS

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: PodKey) -> QueuedPod | None:
        return self._pods.get(key)

    def is_in_group(self, queued: QueuedPod, group: QueuedGroup) -> bool:
        return group.pods.get(queued.key) is queued

    def new_queued_pod(
        self, key: PodKey, pod: Object, equivalence: EquivalenceClass, peer: PeerPod, old: QueuedPod | None = None
    ) -> QueuedPod:
        metadata = pod["metadata"]
        uid = metadata.get("uid", "")
        number = old.order[2] if old is not None and old.uid == uid else next(self._numbers)
        order = (-(pod["spec"].get("priority") or 0), metadata.get("creationTimestamp", ""), number)
        reported = reported_condition(pod)
        generation, owner = metadata.get("generation", 0), owner_of(pod)
        return QueuedPod(key, uid, generation, equivalence, peer, order, reported, reported[2], owner)

    def add(self, key: PodKey, pod: Object, equivalence: EquivalenceClass, peer: PeerPod) -> QueuedPod | None:
        """Queues a pod without a node; None if nothing relevant changed."""
        old = self._pods.get(key)
        new = self.new_queued_pod(key, pod, equivalence, peer, old)
        if old is not None and (old.uid, old.generation, old.equivalence, old.peer, old.owner) == (
            new.uid,
            new.generation,
            equivalence,
            peer,
            new.owner,
        ):
            return None
        self.remove(key)
        self.enqueue(new)
        return new

    def enqueue(self, queued: QueuedPod) -> None:
        self._pods[queued.key] = queued
        key = self._group_keys[queued.key] = self._group_key_of(queued)
        group = self._groups.get(key)
        if group is None:
            self._prune()
            group = self._groups[key] = QueuedGroup(self._new_ranking(queued, key))
        group.pods[queued.key] = group.unreported[queued.key] = queued
        heapq.heappush(group.heap, (queued.order, queued.key))
        self._push_group(group)

    def remove(self, key: PodKey) -> None:
        if self._pods.pop(key, None) is not None:
            group_key = self._group_keys.pop(key)
            group = self._groups[group_key]
            del group.pods[key]
            group.unreported.pop(key, None)
            if not group.pods and group.ranking.volume_constraints is not None:
                self._forget_group(group_key)  # its volumes may be elsewhere when the next such pod arrives

    def regroup(self, selects: Callable[[QueuedPod], bool] | None = None) -> bool:
        """Moves the selected pods to new groups; by default all whose group key changed. Returns whether there were
        any.
        """
        is_stray = selects or (lambda queued: self._group_key_of(queued) != self._group_keys[queued.key])
        moved = [queued for queued in self._pods.values() if is_stray(queued)]
        for queued in moved:
            key = self._group_keys[queued.key]
            self.remove(queued.key)
            if selects is not None and key in self._groups and not self._groups[key].pods:
                self._forget_group(key)
        for queued in moved:
            self.enqueue(queued)
        return bool(moved)

    def mark_unreported(self, queued: QueuedPod) -> None:
        if self._pods.get(queued.key) is queued:
            self._groups[self._group_keys[queued.key]].unreported[queued.key] = queued

    def peek(self) -> tuple[QueuedPod, QueuedGroup] | None:
        """Returns the next pod of the active groups. It stays queued until removed."""
        while self._active:
            order, _, group = self._active[0]
            if group.queued_order == order:
                head = group.head()
                if head is not None and head.order == order and not group.unschedulable_message:
                    return head, group
                group.queued_order = None
                self._push_group(group)
            else:
                heapq.heappop(self._active)
        return None

    def reactivate(self, snapshot: ClusterSnapshot) -> None:
        """Reactivates unschedulable groups after changes that could help."""
        may_fit, changed = snapshot.retry_generation != self._retry_generation, snapshot.revision != self._revision
        self._retry_generation, self._revision = snapshot.retry_generation, snapshot.revision
        if not may_fit and not changed:
            return
        for group in list(self._unschedulable if may_fit else self._waiting_for_pods):
            group.unschedulable_message = ""
            self._unschedulable.discard(group)
            self._waiting_for_pods.discard(group)
            self._push_group(group)

    def mark_unschedulable(self, group: QueuedGroup, unschedulable_message: str) -> None:
        group.unschedulable_message = unschedulable_message
        self._unschedulable.add(group)
        if group.waits_for_pods:
            self._waiting_for_pods.add(group)

    @property
    def waits_for_pods(self) -> bool:
        """Whether an unschedulable group may be helped by an arriving pod."""
        return bool(self._waiting_for_pods)

    def unschedulable_groups(self) -> Iterator[QueuedGroup]:
        return (group for group in self._unschedulable if group.pods)

    def _push_group(self, group: QueuedGroup) -> None:
        head = group.head()
        if head is not None and not group.unschedulable_message and head.order != group.queued_order:
            group.queued_order = head.order
            heapq.heappush(self._active, (head.order, next(self._numbers), group))

    def _prune(self) -> None:
        if len(self._groups) <= self._prune_limit:
            return
        empty = [key for key, group in self._groups.items() if not group.pods]
        for key in empty[: max(len(empty) - MAX_EMPTY_GROUPS, 0)]:
            self._forget_group(key)
        self._prune_limit = len(self._groups) + MAX_EMPTY_GROUPS

    def _forget_group(self, key: QueuedGroupKey) -> None:
        group = self._groups.pop(key)
        group.queued_order = None
        self._unschedulable.discard(group)
        self._waiting_for_pods.discard(group)
