"""Metrics of the pod scheduler, under kube-scheduler's names.

An attempt is one decision about one pod, without the time to write its binding. Decisions are made in batches: each
attempt of a batch is observed with the batch's mean.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.decide import SCHEDULER
from shoal.controlplane.scheduler.results import Binding
from shoal.telemetry.metrics import Counter, Histogram, Metric, MetricFunc, render_text

BUCKETS = (1e-5, 1e-4, *(0.001 * 2**power for power in range(15)))
_LABELS = ("result", "profile")

ATTEMPTS = Counter("scheduler_schedule_attempts_total", "Number of attempts to schedule pods, by result.", _LABELS)
ATTEMPT_DURATION = Histogram(
    "scheduler_scheduling_attempt_duration_seconds", "Scheduling attempt latency in seconds.", _LABELS, BUCKETS
)
PENDING_PODS = MetricFunc("scheduler_pending_pods", "Number of pending pods, by queue.", ("queue",))
_ALL: tuple[Metric, ...] = (ATTEMPTS, ATTEMPT_DURATION, PENDING_PODS)


def schedule_pending(cluster_scheduler: ClusterScheduler, limit: int, now: Callable[[], float]) -> list[Binding]:
    """Calls `schedule_pending` and observes the attempts."""
    start, scheduled, unschedulable = now(), cluster_scheduler.scheduled, cluster_scheduler.unschedulable
    bindings = cluster_scheduler.schedule_pending(limit)
    scheduled, unschedulable = cluster_scheduler.scheduled - scheduled, cluster_scheduler.unschedulable - unschedulable
    if scheduled or unschedulable:
        each = (now() - start) / (scheduled + unschedulable)
        for result, times in (("scheduled", scheduled), ("unschedulable", unschedulable)):
            if times:
                ATTEMPTS.inc("", times, result=result, profile=SCHEDULER)
                ATTEMPT_DURATION.observer("", result=result, profile=SCHEDULER).observe(each, times)
    return bindings


def count_binding_errors(times: int) -> None:
    """Counts bindings that the server rejected."""
    if times:
        ATTEMPTS.inc("", times, result="error", profile=SCHEDULER)


def render(only: str | None = None) -> str:
    """Renders /metrics of all clusters or of one."""
    lines = render_text(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""
