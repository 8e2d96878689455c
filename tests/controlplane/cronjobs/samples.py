"""Sample CronJobs and Jobs as returned by a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

CREATED = "2024-03-01T10:00:30Z"


def at(clock: str) -> float:
    return datetime.fromisoformat(f"2024-03-01T{clock}").replace(tzinfo=UTC).timestamp()


def cron_job(schedule: str = "*/10 * * * *", **spec: Any) -> Object:
    """`status` is the CronJob's own, the rest goes into its spec."""
    status = spec.pop("status", {})
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"template": {}}}
    full = {
        "schedule": schedule,
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": template,
        **spec,
    }
    metadata = {"name": "cj", "namespace": "default", "uid": "cron", "creationTimestamp": CREATED}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": full, "status": status}


def job(name: str, end: str = "", when: str = "10:05:00", start: str | None = "10:00:00") -> Object:
    status: Object = {}
    if start is not None:
        status["startTime"] = f"2024-03-01T{start}Z"
    if end:
        stamp = f"2024-03-01T{when}Z"
        status["conditions"] = [{"type": end, "status": "True", "lastTransitionTime": stamp}]
        status |= {"completionTime": stamp} if end == "Complete" else {}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "5"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}, "status": status}


def active(*names: str) -> Object:
    found = [{"kind": "Job", "name": name, "namespace": "default", "uid": f"uid-{name}"} for name in names]
    return {"active": found}
