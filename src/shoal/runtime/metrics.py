"""Controller metrics under client-go's names: work queues and leader election.

Queues of the same name share their metrics: one process may run a hub, several workers and a syncer per cluster.
Counting costs one addition; gauges are read from the queues at scrape time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from weakref import WeakSet

from shoal.telemetry.metrics import Histogram, Metric, MetricFunc, render_text

DURATION_BUCKETS = tuple(10.0**power for power in range(-8, 2))
"""Upstream's work queue buckets: 10 ns to 10 s, each ten times the last."""
_NAME = ("name",)

QUEUE_DURATION = Histogram(
    "workqueue_queue_duration_seconds",
    "How long in seconds an item stays in the workqueue before it is requested.",
    _NAME,
    DURATION_BUCKETS,
)
WORK_DURATION = Histogram(
    "workqueue_work_duration_seconds",
    "How long in seconds processing an item from the workqueue takes.",
    _NAME,
    DURATION_BUCKETS,
)
ADDS = MetricFunc("workqueue_adds_total", "Total number of adds handled by the workqueue.", _NAME, "counter")
RETRIES = MetricFunc("workqueue_retries_total", "Total number of retries handled by the workqueue.", _NAME, "counter")
DEPTH = MetricFunc("workqueue_depth", "Current depth of the workqueue.", _NAME)
UNFINISHED_WORK = MetricFunc(
    "workqueue_unfinished_work_seconds", "Seconds of work in progress that work_duration has not observed yet.", _NAME
)
LONGEST_RUNNING = MetricFunc(
    "workqueue_longest_running_processor_seconds",
    "How long in seconds the longest running processor has been running.",
    _NAME,
)
LEADER_STATUS = MetricFunc("leader_election_master_status", "1 if this process is the leader, 0 otherwise.", _NAME)
RESTARTS = MetricFunc(
    "shoal_controller_restarts_total", "Restarts of a controller after an unexpected error.", _NAME, "counter"
)
HANDLER_FAILURES = MetricFunc(
    "shoal_informer_handler_failures_total", "Failed calls of event handlers.", ("resource",), "counter"
)
_ALL: tuple[Metric, ...] = (
    QUEUE_DURATION,
    WORK_DURATION,
    ADDS,
    RETRIES,
    DEPTH,
    UNFINISHED_WORK,
    LONGEST_RUNNING,
    LEADER_STATUS,
    RESTARTS,
    HANDLER_FAILURES,
)


class MeasuredQueue(Protocol):
    def depth(self) -> int: ...

    def unfinished_work(self) -> tuple[float, float]:
        """Seconds of all unfinished work, and of the oldest."""


class Leader(Protocol):
    is_leader: bool

    @property
    def name(self) -> str: ...


class QueueMetrics:
    """Metrics shared by all queues of one name."""

    __slots__ = ("adds", "queue_duration", "queues", "retries", "work_duration")

    def __init__(self, name: str) -> None:
        self.adds = self.retries = 0
        self.queue_duration, self.work_duration = (
            QUEUE_DURATION.observer("", name=name),
            WORK_DURATION.observer("", name=name),
        )
        self.queues: WeakSet[MeasuredQueue] = WeakSet()


_QUEUES: dict[str, QueueMetrics] = {}
_LEADERS: WeakSet[Leader] = WeakSet()
restarts: Counter[str] = Counter()
"""Restarts by controller name."""
_handler_failures: Counter[str] = Counter()


def register_queue(name: str, queue: MeasuredQueue) -> QueueMetrics:
    metrics = _QUEUES.get(name)
    if metrics is None:
        metrics = _QUEUES[name] = QueueMetrics(name)
    metrics.queues.add(queue)
    return metrics


def register_leader(leader: Leader) -> None:
    _LEADERS.add(leader)


def count_handler_failure(resource: str) -> None:
    _handler_failures[resource] += 1


def render(only: str | None = None) -> str:
    """Text for /metrics. Empty for a scrape of a single logical cluster: controllers work for all of them."""
    lines = render_text(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""


def _queue_series(
    read: Callable[[QueueMetrics], float],
) -> Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]:
    return lambda: [("", {"name": name}, read(meter)) for name, meter in _QUEUES.items()]


def _leader_series() -> Iterable[tuple[str, Mapping[str, str], float]]:
    leading: dict[str, bool] = {}
    for leader in _LEADERS:
        leading[leader.name] = leading.get(leader.name, False) or leader.is_leader
    return [("", {"name": name}, float(holds)) for name, holds in leading.items()]


ADDS.register(_queue_series(lambda meter: meter.adds))
RETRIES.register(_queue_series(lambda meter: meter.retries))
DEPTH.register(_queue_series(lambda meter: sum(queue.depth() for queue in meter.queues)))
UNFINISHED_WORK.register(_queue_series(lambda meter: sum(queue.unfinished_work()[0] for queue in meter.queues)))
LONGEST_RUNNING.register(
    _queue_series(lambda meter: max((queue.unfinished_work()[1] for queue in meter.queues), default=0.0))
)
LEADER_STATUS.register(_leader_series)
RESTARTS.register(lambda: [("", {"name": name}, count) for name, count in restarts.items()])
HANDLER_FAILURES.register(lambda: [("", {"resource": name}, count) for name, count in _handler_failures.items()])
