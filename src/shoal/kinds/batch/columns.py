"""Printer columns of the kinds of batch/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import AGE, NONE, Column, container_columns, field_cell, selector_cell
from shoal.objects.conditions import condition_is
from shoal.objects.duration import human_age, human_duration, parse_time

Object = dict[str, Any]

_JOB_STATES = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(obj: Object, now: float) -> object:
    for state in _JOB_STATES:
        if not state and obj["metadata"].get("deletionTimestamp"):
            return "Terminating"
        if state and condition_is(obj, state):
            return state
    return "Running"


def _completions(obj: Object, now: float) -> object:
    spec, done = obj["spec"], (obj.get("status") or {}).get("succeeded") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(obj: Object, now: float) -> object:
    status = obj.get("status") or {}
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return "" if start is None else human_duration((now if end is None else end) - start)


def _last_schedule(obj: Object, now: float) -> object:
    at = (obj.get("status") or {}).get("lastScheduleTime")
    return human_age(at, now) if at else NONE


COLUMNS: dict[str, tuple[Column, ...]] = {
    "jobs.batch": (
        Column("Status", cell=_job_status),
        Column("Completions", cell=_completions),
        Column("Duration", cell=_duration),
        AGE,
        *container_columns("spec", "template"),
        Column("Selector", priority=1, cell=selector_cell("spec", "selector")),
    ),
    "cronjobs.batch": (
        Column("Schedule", cell=field_cell("spec", "schedule")),
        Column("Timezone", cell=field_cell("spec", "timeZone", otherwise=NONE)),
        Column("Suspend", type="boolean", cell=lambda obj, now: "True" if obj["spec"].get("suspend") else "False"),
        Column("Active", type="integer", cell=lambda obj, now: len((obj.get("status") or {}).get("active") or ())),
        Column("Last Schedule", cell=_last_schedule),
        AGE,
        *container_columns("spec", "jobTemplate", "spec", "template"),
        Column("Selector", priority=1, cell=selector_cell("spec", "jobTemplate", "spec", "selector")),
    ),
}
