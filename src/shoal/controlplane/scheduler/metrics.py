"""Metrics of the pod scheduler, under kube-scheduler's names.

An attempt is one decision about one pod, without the time to write its binding. Decisions are made in batches: each
attempt of a batch is observed with the batch's mean.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.controlplane.scheduler.decide import SCHEDULER
from shoal.controlplane.scheduler.home import Bind, Home
from shoal.telemetry.meters import Counter, Histogram, Lookup, Meter, written

SECONDS = (1e-5, 1e-4, *(0.001 * 2**power for power in range(15)))
_LABELS = ("result", "profile")

ATTEMPTS = Counter("scheduler_schedule_attempts_total", "Decisions about pods.", _LABELS)
TOOK = Histogram("scheduler_scheduling_attempt_duration_seconds", "Time of a decision.", _LABELS, SECONDS)
PENDING = Lookup("scheduler_pending_pods", "Pods without a node: still to be decided, or refused for now.", ("queue",))
_ALL: tuple[Meter, ...] = (ATTEMPTS, TOOK, PENDING)


def choose(home: Home, limit: int, now: Callable[[], float]) -> list[Bind]:
    """Calls `schedule_pending` and observes the attempts."""
    began, scheduled, refused = now(), home.scheduled, home.refused
    found = home.choose(limit)
    scheduled, refused = home.scheduled - scheduled, home.refused - refused
    if scheduled or refused:
        each = (now() - began) / (scheduled + refused)
        for result, times in (("scheduled", scheduled), ("unschedulable", refused)):
            if times:
                ATTEMPTS.inc("", times, result=result, profile=SCHEDULER)
                TOOK.row("", result=result, profile=SCHEDULER).observe(each, times)
    return found


def failed(times: int) -> None:
    """Counts bindings that the server rejected."""
    if times:
        ATTEMPTS.inc("", times, result="error", profile=SCHEDULER)


def render(only: str | None = None) -> str:
    """Renders /metrics of all clusters or of one."""
    lines = written(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""
