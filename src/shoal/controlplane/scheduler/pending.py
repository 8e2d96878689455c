"""The pods of one hosted cluster that have no node: who is next, and who has been told what. Pure.

Pods wait in groups of one shape, and of one look to others where that matters. What is refused for one pod of a group
is refused for all: the group rests until the cluster changes in a way that could help, and is never asked about in
between.
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
"""Higher priority first, then older, then who was seen first. No two pods have the same."""

EMPTY_GROUPS = 64
"""Groups kept without pods, for what they know of the nodes."""
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
    """The message of its condition (None before the first), for which generation, and the node it was promised."""
    nominated: str = ""
    """Where room is made for it."""

    @property
    def priority(self) -> int:
        return -self.order[0]

    def resident(self) -> Resident:
        return Resident(self.key, self.uid, self.shape, self.peer, self.priority)


GroupKey = tuple[Shape, Peer | None, PodKey | None]
"""Whose look to others does not matter has none; who has a node promised is alone."""


@dataclass(slots=True, eq=False)
class Group:
    """Pods that are alike."""

    ranking: Ranking
    pods: dict[PodKey, Waiting] = field(default_factory=dict)
    heap: list[tuple[Order, PodKey]] = field(default_factory=list)
    lined: Order | None = None
    """Its place among the groups that are not resting."""
    refusal: str = ""
    """Why it rests; "": it does not."""
    untold: dict[PodKey, Waiting] = field(default_factory=dict)
    message: str = ""
    """What all of its pods were told, but for the untold."""
    due: float = 0.0
    pause: float = FIRST_PAUSE
    moving: bool = False
    """Some of its pods found a node since others were told."""

    @property
    def needy(self) -> bool:
        """Pods that come somewhere may help it."""
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
        """Who is to hear `refusal`. Who waits for the first word gets it at once, who knows one hears another only
        now and then: at `due`, and not while others of the group find nodes."""
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
        """Groups that are not resting by their heads, and stale entries."""
        self._resting: set[Group] = set()
        self._needy: set[Group] = set()
        """Those that rest and that pods which come somewhere may help."""
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
        """A pod without a node; None: there is nothing new about it."""
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
                self._forget(home)  # its volumes may be elsewhere when the next such pod comes

    def move(self, which: Callable[[Waiting], bool] | None = None) -> bool:
        """Those of `which` go to new groups, without it all that belong to other groups now. Whether there are any."""
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
        """The pod to decide about, of the groups that are not resting. It stays until dropped."""
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
        """After changes that could help: groups that rest are asked about again."""
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
        """Somebody rests whom a pod that comes somewhere may help."""
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
