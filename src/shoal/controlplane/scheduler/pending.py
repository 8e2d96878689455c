"""The pods of one hosted cluster that have no node: who is next, and who has been told what. Pure.

Pods wait in groups of one shape. What is refused for one pod of a group is refused for all: the group rests until
the cluster changes in a way that could help, and is never asked about in between.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from shoal.controlplane.scheduler.decide import Dice, Object, condition
from shoal.controlplane.scheduler.ranking import Ranking
from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import PodKey

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
    order: Order
    told: tuple[str | None, int]
    """The message of its condition, and for which generation; None before the first."""


@dataclass(slots=True, eq=False)
class Group:
    """Pods of one shape."""

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
        now and then: at `due`."""
        heard, self.untold = self.untold, {}
        if self.refusal != self.message and now >= self.due:
            heard, self.message = self.pods, self.refusal
            self.pause = FIRST_PAUSE if now > self.due + LONGEST_PAUSE else min(2 * self.pause, LONGEST_PAUSE)
            self.due = now + self.pause
        return [each for each in heard.values() if each.told != (self.refusal, each.generation)]


class Pending:
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._numbers = itertools.count()
        self._pods: dict[PodKey, Waiting] = {}
        self._groups: dict[Shape, Group] = {}
        self._line: list[tuple[Order, int, Group]] = []
        """Groups that are not resting by their heads, and stale entries."""
        self._gains = 0

    def __len__(self) -> int:
        return len(self._pods)

    def waiting(self, key: PodKey, pod: Object, shape: Shape, old: Waiting | None = None) -> Waiting:
        metadata = pod["metadata"]
        uid = metadata.get("uid", "")
        number = old.order[2] if old is not None and old.uid == uid else next(self._numbers)
        order = (-(pod["spec"].get("priority") or 0), metadata.get("creationTimestamp", ""), number)
        return Waiting(key, uid, metadata.get("generation", 0), shape, order, condition(pod))

    def put(self, key: PodKey, pod: Object, shape: Shape) -> bool:
        """A pod without a node, new or changed. Whether there is something to decide, or to tell."""
        old = self._pods.get(key)
        new = self.waiting(key, pod, shape, old)
        if old is not None and (old.uid, old.generation, old.shape) == (new.uid, new.generation, shape):
            return False
        self.drop(key)
        self.join(new)
        return True

    def join(self, waiting: Waiting) -> None:
        self._pods[waiting.key] = waiting
        group = self._groups.get(waiting.shape)
        if group is None:
            self._prune()
            group = self._groups[waiting.shape] = Group(Ranking(waiting.shape, self._dice))
        group.pods[waiting.key] = group.untold[waiting.key] = waiting
        heapq.heappush(group.heap, (waiting.order, waiting.key))
        self._line_up(group)

    def drop(self, key: PodKey) -> None:
        waiting = self._pods.pop(key, None)
        if waiting is not None:
            group = self._groups[waiting.shape]
            del group.pods[key]
            group.untold.pop(key, None)

    def untold(self, waiting: Waiting) -> None:
        if self._pods.get(waiting.key) is waiting:
            self._groups[waiting.shape].untold[waiting.key] = waiting

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

    def wake(self, gains: int) -> None:
        """After changes that could help: groups that rest are asked about again."""
        if gains == self._gains:
            return
        self._gains = gains
        for group in self._groups.values():
            group.refusal = ""
            self._line_up(group)

    def resting(self) -> Iterator[Group]:
        return (group for group in self._groups.values() if group.refusal and group.pods)

    def _line_up(self, group: Group) -> None:
        head = group.head()
        if head is not None and not group.refusal and head.order != group.lined:
            group.lined = head.order
            heapq.heappush(self._line, (head.order, next(self._numbers), group))

    def _prune(self) -> None:
        empty = [shape for shape, group in self._groups.items() if not group.pods]
        for shape in empty[: max(len(empty) - EMPTY_GROUPS, 0)]:
            self._groups.pop(shape).lined = None
