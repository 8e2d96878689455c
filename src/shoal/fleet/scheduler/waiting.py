"""The scheduling queue: one RequirementQueue per distinct requirements, oldest first.

A RequirementQueue is active until its head fits no Worker. Then the whole queue is blocked, whatever its length, until
a change lets the head fit. Freed capacity is only checked for queues that capacity alone blocks. A changed Worker is
checked for all queues. Each queue is checked once per change.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from shoal.client.reflector import Key
from shoal.fleet.scheduler.candidate import Candidate, Usage
from shoal.fleet.scheduler.decide import Waiting, fits
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import refusal, room
from shoal.fleet.scheduler.ledger import Ledger, Record

Order = tuple[str, Key]


@dataclass(slots=True, eq=False)
class Line:
    asked: Demand
    members: dict[Key, Record] = field(default_factory=dict)
    heads: list[tuple[Order, int, Record]] = field(default_factory=list)
    """A heap. It may contain entries that have left the queue."""
    closed: bool = False
    because: Waiting | None = None
    """Why no Worker fits, as of `cache_version`."""
    version: int = -1

    def head(self) -> Record | None:
        while self.heads and self.members.get(self.heads[0][2].key) is not self.heads[0][2]:
            heapq.heappop(self.heads)
        return self.heads[0][2] if self.heads else None


class WaitingRoom:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lines: dict[Demand, Line] = {}
        self._where: dict[Key, Line] = {}
        self._open: list[tuple[Order, int, Line]] = []
        """A heap of active queues by their heads. It may contain queues that are blocked, or whose head has left."""
        self._for_room: set[Line] = set()
        self._for_worker: set[Line] = set()
        """Blocked queues. In the first set some Worker passes the filters and only lacks capacity; in the second none
        passes.
        """
        self._numbers = count()
        self._read = 0
        self._era = ledger.era

    def line_of(self, key: Key) -> Line | None:
        return self._where.get(key)

    @property
    def anybody_stuck(self) -> bool:
        return bool(self._for_room or self._for_worker)

    def closed(self) -> Iterator[Line]:
        yield from list(self._for_room)
        yield from list(self._for_worker)

    def add(self, record: Record) -> Line:
        line = self._where.get(record.key)
        if line is not None and line.asked is record.asked and line.members[record.key] is record:
            return line
        self.leave(record.key)
        line = self._lines.get(record.asked)
        if line is None:
            line = self._lines[record.asked] = Line(record.asked)
        self._where[record.key] = line
        line.members[record.key] = record
        heapq.heappush(line.heads, (record.order, next(self._numbers), record))
        if not line.closed and line.head() is record:
            self._offer(line)
        return line

    def leave(self, key: Key) -> None:
        line = self._where.pop(key, None)
        if line is None:
            return
        del line.members[key]
        if not line.members:
            del self._lines[line.asked]
            self._for_room.discard(line)
            self._for_worker.discard(line)
            line.closed = True

    def _offer(self, line: Line) -> None:
        head = line.head()
        if head is not None:
            heapq.heappush(self._open, (head.order, next(self._numbers), line))

    def next(self) -> Record | None:
        """Returns the next entry to schedule. The caller must either `remove` it or `block` its queue."""
        self._wake()
        while self._open:
            order, _, line = self._open[0]
            head = line.head() if not line.closed else None
            if head is None:
                heapq.heappop(self._open)
            elif head.order != order:
                heapq.heapreplace(self._open, (head.order, next(self._numbers), line))
            else:
                return head
        return None

    def close(self, record: Record) -> None:
        """Blocks the queue of that entry: no Worker fits it, nor those behind it."""
        line = self._where[record.key]
        line.closed = True
        able = any(is_able(line.asked, worker) for worker, _ in self._ledger.workers())
        (self._for_room if able else self._for_worker).add(line)

    def _wake(self) -> None:
        log = self._ledger.log
        if self._era != self._ledger.era:
            self._era, self._read = self._ledger.era, len(log)
            self._look(list(self._ledger.workers()), said=True)
        elif self._read < len(log):
            news = log[self._read :]
            self._read = len(log)
            self._look(self._named(name for name, said in news if not said), said=False)
            self._look(self._named(name for name, said in news if said), said=True)

    def _named(self, names: Iterable[str]) -> list[tuple[Candidate, Usage]]:
        places = (self._ledger.places.get(name) for name in dict.fromkeys(names))
        return [(place.candidate, place.used) for place in places if place is not None and place.candidate is not None]

    def _look(self, workers: list[tuple[Candidate, Usage]], said: bool) -> None:
        if not workers:
            return
        for line in list(self._for_room):
            if any(fits(line.asked, worker, used) for worker, used in workers):
                self._for_room.discard(line)
                self._reopen(line)
        for line in list(self._for_worker) if said else ():
            able = [(worker, used) for worker, used in workers if is_able(line.asked, worker)]
            if able:
                self._for_worker.discard(line)
                self._for_room.add(line)
            if any(room(line.asked, worker, used) is None for worker, used in able):
                self._for_room.discard(line)
                self._reopen(line)

    def _reopen(self, line: Line) -> None:
        line.closed = False
        self._offer(line)


def is_able(asked: Demand, worker: Candidate) -> bool:
    """Returns True if the Worker fits apart from its current usage."""
    return not asked.wrong and refusal(asked, worker) is None
