"""Scheduling queue of one hosted cluster: order of pending pods and the messages reported for them. Pure.

Pods are queued in groups of one equivalence class, and of one peer where other pods matter. A pod that is unschedulable
makes its whole group unschedulable. The group is not tried again until the cluster changes in a way that could help.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shoal.controlplane.scheduler.decide import Object, condition
from shoal.controlplane.scheduler.ranking import Ranking
from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import PodKey, Resident, Snapshot
from shoal.fit.podaffinity import Peer

Order = tuple[int, str, int]
"""Higher priority first, then older, then first seen. Unique per pod."""

EMPTY_GROUPS = 64
"""Groups kept without pods, because of their cached node evaluations."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0


@dataclass(slots=True, eq=False)
class Waiting:
    key: PodKey
    uid: str
    generation: int
    shape: Shape
    peer: Peer
    order: Order
    told: tuple[str | None, int, str]
    """Message of its condition (None before the first), pod generation and nominated node that were reported."""
    nominated: str = ""
    """Node where it preempts pods."""

    @property
    def priority(self) -> int:
        return -self.order[0]

    def resident(self) -> Resident:
        return Resident(self.key, self.uid, self.shape, self.peer, self.priority)


GroupKey = tuple[Shape, Peer | None, PodKey | None]
"""The peer is None if other pods do not matter. A nominated pod has a group of its own."""


@dataclass(slots=True, eq=False)
class Group:
    """Pods of one equivalence class."""

    ranking: Ranking
    pods: dict[PodKey, Waiting] = field(default_factory=dict)
    heap: list[tuple[Order, PodKey]] = field(default_factory=list)
    lined: Order | None = None
    """Its order among the active groups."""
    refusal: str = ""
    """Why it is unschedulable; empty if it is active."""
    untold: dict[PodKey, Waiting] = field(default_factory=dict)
    message: str = ""
    """Reported for all of its pods except the unreported ones."""
    due: float = 0.0
    pause: float = FIRST_PAUSE
    moving: bool = False
    """Some of its pods were scheduled since the last report."""

    @property
    def needy(self) -> bool:
        """Whether arriving pods may make it schedulable."""
        company = self.ranking.company
        return company is not None and company.needy

    def head(self) -> Waiting | None:
        while self.heap:
            order, key = self.heap[0]
            waiting = self.pods.get(key)
            if waiting is not None and waiting.order == order:
                return waiting
            heapq.heappop(self.heap)
        return None

    def to_tell(self, now: float) -> list[Waiting]:
        """Returns the pods whose condition is to be updated. A first message is reported at once. A changed message is
        reported only at `next_report`, and not while other pods of the group are being scheduled.
        """
        heard, self.untold = self.untold, {}
        if self.moving:
            self.moving, self.due = False, max(self.due, now + FIRST_PAUSE)
        if self.refusal != self.message and now >= self.due:
            heard, self.message = self.pods, self.refusal
            self.pause = FIRST_PAUSE if now > self.due + LONGEST_PAUSE else min(2 * self.pause, LONGEST_PAUSE)
            self.due = now + self.pause
        return [each for each in heard.values() if each.told != (self.refusal, each.generation, each.nominated)]


class Pending:
    def __init__(self, key_of: Callable[[Waiting], GroupKey], make: Callable[[Waiting, GroupKey], Ranking]) -> None:
        self._key_of, self._make = key_of, make
        self._numbers = itertools.count()
        self._pods: dict[PodKey, Waiting] = {}
        self._groups: dict[GroupKey, Group] = {}
        self._home: dict[PodKey, GroupKey] = {}
        self._line: list[tuple[Order, int, Group]] = []
        """Heap of active groups by their heads, with stale entries."""
        self._resting: set[Group] = set()
        self._needy: set[Group] = set()
        """Unschedulable groups that arriving pods may help."""
        self._helps = self._revision = 0
        self._many = EMPTY_GROUPS

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: PodKey) -> Waiting | None:
        return self._pods.get(key)

    def is_of(self, waiting: Waiting, group: Group) -> bool:
        return group.pods.get(waiting.key) is waiting

    def waiting(self, key: PodKey, pod: Object, shape: Shape, peer: Peer, old: Waiting | None = None) -> Waiting:
        metadata = pod["metadata"]
        uid = metadata.get("uid", "")
        number = old.order[2] if old is not None and old.uid == uid else next(self._numbers)
        order = (-(pod["spec"].get("priority") or 0), metadata.get("creationTimestamp", ""), number)
        told = condition(pod)
        return Waiting(key, uid, metadata.get("generation", 0), shape, peer, order, told, told[2])

    def put(self, key: PodKey, pod: Object, shape: Shape, peer: Peer) -> Waiting | None:
        """Queues a pod without a node; None if nothing relevant changed."""
        old = self._pods.get(key)
        new = self.waiting(key, pod, shape, peer, old)
        if old is not None and (old.uid, old.generation, old.shape, old.peer) == (new.uid, new.generation, shape, peer):
            return None
        self.drop(key)
        self.join(new)
        return new

    def join(self, waiting: Waiting) -> None:
        self._pods[waiting.key] = waiting
        key = self._home[waiting.key] = self._key_of(waiting)
        group = self._groups.get(key)
        if group is None:
            self._prune()
            group = self._groups[key] = Group(self._make(waiting, key))
        group.pods[waiting.key] = group.untold[waiting.key] = waiting
        heapq.heappush(group.heap, (waiting.order, waiting.key))
        self._line_up(group)

    def drop(self, key: PodKey) -> None:
        if self._pods.pop(key, None) is not None:
            home = self._home.pop(key)
            group = self._groups[home]
            del group.pods[key]
            group.untold.pop(key, None)
            if not group.pods and group.ranking.ties is not None:
                self._forget(home)  # its volumes may be elsewhere when the next such pod arrives

    def move(self, which: Callable[[Waiting], bool] | None = None) -> bool:
        """Moves the selected pods to new groups; by default all whose group key changed. Returns whether there were
        any.
        """
        strays = which or (lambda waiting: self._key_of(waiting) != self._home[waiting.key])
        moved = [waiting for waiting in self._pods.values() if strays(waiting)]
        for waiting in moved:
            key = self._home[waiting.key]
            self.drop(waiting.key)
            if which is not None and key in self._groups and not self._groups[key].pods:
                self._forget(key)
        for waiting in moved:
            self.join(waiting)
        return bool(moved)

    def untold(self, waiting: Waiting) -> None:
        if self._pods.get(waiting.key) is waiting:
            self._groups[self._home[waiting.key]].untold[waiting.key] = waiting

    def next(self) -> tuple[Waiting, Group] | None:
        """Returns the next pod of the active groups. It stays queued until removed."""
        while self._line:
            order, _, group = self._line[0]
            if group.lined == order:
                head = group.head()
                if head is not None and head.order == order and not group.refusal:
                    return head, group
                group.lined = None
                self._line_up(group)
            else:
                heapq.heappop(self._line)
        return None

    def wake(self, snapshot: Snapshot) -> None:
        """Reactivates unschedulable groups after changes that could help."""
        helped, changed = snapshot.helps != self._helps, snapshot.revision != self._revision
        self._helps, self._revision = snapshot.helps, snapshot.revision
        if not helped and not changed:
            return
        for group in list(self._resting if helped else self._needy):
            group.refusal = ""
            self._resting.discard(group)
            self._needy.discard(group)
            self._line_up(group)

    def rest(self, group: Group, refusal: str) -> None:
        group.refusal = refusal
        self._resting.add(group)
        if group.needy:
            self._needy.add(group)

    @property
    def needy(self) -> bool:
        """Whether an unschedulable group may be helped by an arriving pod."""
        return bool(self._needy)

    def resting(self) -> Iterator[Group]:
        return (group for group in self._resting if group.pods)

    def _line_up(self, group: Group) -> None:
        head = group.head()
        if head is not None and not group.refusal and head.order != group.lined:
            group.lined = head.order
            heapq.heappush(self._line, (head.order, next(self._numbers), group))

    def _prune(self) -> None:
        if len(self._groups) <= self._many:
            return
        empty = [key for key, group in self._groups.items() if not group.pods]
        for key in empty[: max(len(empty) - EMPTY_GROUPS, 0)]:
            self._forget(key)
        self._many = len(self._groups) + EMPTY_GROUPS

    def _forget(self, key: GroupKey) -> None:
        group = self._groups.pop(key)
        group.lined = None
        self._resting.discard(group)
        self._needy.discard(group)
