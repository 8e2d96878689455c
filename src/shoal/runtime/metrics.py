"""Controller metrics under client-go's names: work queues and leader election.

Queues of the same name share their metrics: one process may run a hub, several workers and a syncer per cluster.
Counting costs one addition; gauges are read from the queues at scrape time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from weakref import WeakSet

from shoal.telemetry.meters import Histogram, Lookup, Meter, written

SECONDS = tuple(10.0**power for power in range(-8, 2))
"""Upstream's work queue buckets: 10 ns to 10 s, each ten times the last."""
_NAME = ("name",)

WAITED = Histogram("workqueue_queue_duration_seconds", "How long a key waits before it is taken.", _NAME, SECONDS)
WORKED = Histogram("workqueue_work_duration_seconds", "How long the work on a key takes.", _NAME, SECONDS)
ADDS = Lookup("workqueue_adds_total", "Keys added.", _NAME, "counter")
RETRIES = Lookup("workqueue_retries_total", "Keys that come back after a failure.", _NAME, "counter")
DEPTH = Lookup("workqueue_depth", "Keys that wait.", _NAME)
UNFINISHED = Lookup("workqueue_unfinished_work_seconds", "Work under way that is not counted yet.", _NAME)
LONGEST = Lookup("workqueue_longest_running_processor_seconds", "Since when the oldest of it is under way.", _NAME)
LEADING = Lookup("leader_election_master_status", "Whether this process acts: 1, or another does: 0.", _NAME)
_ALL: tuple[Meter, ...] = (WAITED, WORKED, ADDS, RETRIES, DEPTH, UNFINISHED, LONGEST, LEADING)


class Queue(Protocol):
    def depth(self) -> int: ...

    def under_way(self) -> tuple[float, float]:
        """Seconds of all unfinished work, and of the oldest."""


class Leader(Protocol):
    holds: bool

    @property
    def name(self) -> str: ...


class QueueMeter:
    """Metrics shared by all queues of one name."""

    __slots__ = ("adds", "queues", "retries", "waited", "worked")

    def __init__(self, name: str) -> None:
        self.adds = self.retries = 0
        self.waited, self.worked = WAITED.row("", name=name), WORKED.row("", name=name)
        self.queues: WeakSet[Queue] = WeakSet()


_QUEUES: dict[str, QueueMeter] = {}
_LEADERS: WeakSet[Leader] = WeakSet()


def queue_meter(name: str, queue: Queue) -> QueueMeter:
    meter = _QUEUES.get(name)
    if meter is None:
        meter = _QUEUES[name] = QueueMeter(name)
    meter.queues.add(queue)
    return meter


def tell_of_leader(leader: Leader) -> None:
    _LEADERS.add(leader)


def render(only: str | None = None) -> str:
    """Text for /metrics. Empty for a scrape of a single logical cluster: controllers work for all of them."""
    lines = written(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""


def _of_queues(read: Callable[[QueueMeter], float]) -> Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]:
    return lambda: [("", {"name": name}, read(meter)) for name, meter in _QUEUES.items()]


def _leading() -> Iterable[tuple[str, Mapping[str, str], float]]:
    held: dict[str, bool] = {}
    for leader in _LEADERS:
        held[leader.name] = held.get(leader.name, False) or leader.holds
    return [("", {"name": name}, float(holds)) for name, holds in held.items()]


ADDS.always(_of_queues(lambda meter: meter.adds))
RETRIES.always(_of_queues(lambda meter: meter.retries))
DEPTH.always(_of_queues(lambda meter: sum(queue.depth() for queue in meter.queues)))
UNFINISHED.always(_of_queues(lambda meter: sum(queue.under_way()[0] for queue in meter.queues)))
LONGEST.always(_of_queues(lambda meter: max((queue.under_way()[1] for queue in meter.queues), default=0.0)))
LEADING.always(_leading)
