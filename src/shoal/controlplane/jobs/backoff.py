"""Backoff before a failed pod is replaced: doubled by every consecutive failure. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

INITIAL_SECONDS, MAX_SECONDS = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class JobBackoff:
    failures: int = 0
    """Failures since the last success."""
    last_failure: float = 0.0
    """Time of the latest failure."""

    def with_finished(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> JobBackoff:
        """Returns the backoff after these pods finished."""
        failures, count = sorted(map(finish_time, failed)), self.failures
        success = max(map(finish_time, succeeded), default=None)
        if success is not None:
            failures, count = [moment for moment in failures if moment > success], 0
        if not failures:
            return self if success is None else JobBackoff()
        return JobBackoff(count + len(failures), failures[-1])

    def retry_at(self) -> float:
        """Returns the time from which the next pod may be created."""
        if not self.failures:
            return 0.0
        return self.last_failure + min(INITIAL_SECONDS * 2.0 ** min(self.failures - 1, 16), MAX_SECONDS)


def finish_time(pod: Object) -> float:
    """Returns the time the pod finished, from its container statuses, Ready condition, deletionTimestamp or
    creationTimestamp, whichever is known first.
    """
    metadata = pod["metadata"]
    containers_finished = _containers_finish_time(pod)
    if containers_finished is not None:
        return containers_finished
    ready = get_condition(pod, "Ready") or {}
    unready = parse_time(ready.get("lastTransitionTime")) if ready.get("status") == "False" else None
    if unready is not None:
        return unready
    deadline = parse_time(metadata.get("deletionTimestamp"))
    if deadline is not None:
        return deadline - float(metadata.get("deletionGracePeriodSeconds") or 0)
    return parse_time(metadata.get("creationTimestamp")) or 0.0


def _containers_finish_time(pod: Object) -> float | None:
    """Returns the latest finish time once all containers have finished. Sidecars finish after the others."""
    status = pod.get("status") or {}
    sidecars = {one["name"] for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"}
    statuses = [*(status.get("containerStatuses") or ())]
    statuses += [one for one in status.get("initContainerStatuses") or () if one["name"] in sidecars]
    moments = [parse_time(((one.get("state") or {}).get("terminated") or {}).get("finishedAt")) for one in statuses]
    finish_times = [moment for moment in moments if moment is not None]
    return max(finish_times) if finish_times and len(finish_times) == len(moments) else None
