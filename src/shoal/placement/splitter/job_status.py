"""Aggregates the status of a Job from its leaves. Pure.

It is complete when all leaves are, and has failed when one has: then the others are stopped first, because a finished
Job runs nothing. Counts of finished pods never decrease, whatever happens to a leaf.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.batch.job import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    is_finished,
    is_suspended,
)
from shoal.kinds.workload.leaf import EVACUATED_ANNOTATION
from shoal.objects.conditions import condition_is, get_condition
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.placement.splitter.leaf_status import (
    CLUSTER_NOT_REPORTING,
    CLUSTERS_REPORTING,
    known_counts,
    silence_message,
)

Object = dict[str, Any]

RUNNING_COUNTS, FINISHED_COUNTS = ("active", "ready", "terminating"), ("succeeded", "failed")
PLACED = "Placed"
"""False while some of it has no cluster; absent otherwise."""


def job_status(
    root: Object, leaf_changes: LeafChanges, cluster_count: int, now: str, silent: frozenset[str] = frozenset()
) -> Object | None:
    """`silent` are the clusters that do not report. None: it is finished, and its status stays."""
    if is_finished(root):
        return None
    current: Object = root.get("status") or {}
    live_leaves = [
        leaf
        for leaf in leaf_changes.existing
        if EVACUATED_ANNOTATION not in (leaf["metadata"].get("annotations") or {})
    ]
    running = [known_counts(leaf, silent) for leaf in live_leaves]
    status = {name: sum(counts.get(name, 0) for counts in running) for name in RUNNING_COUNTS}
    status |= {name: max(_sum_counts(leaf_changes.existing, name), current.get(name) or 0) for name in FINISHED_COUNTS}
    conditions = _JobConditions(current.get("conditions") or [], now)
    if leaf_changes.unassigned:
        message = (
            f"{leaf_changes.unassigned} parallel pods are unassigned: "
            f"none of {cluster_count} registered clusters can take them."
        )
        conditions.set(PLACED, "False", "NoReadyClusters" if cluster_count else "NoRegisteredClusters", message)
    else:
        conditions.remove(PLACED)
    silence = silence_message(leaf_changes.existing, silent)
    if silence:
        conditions.set(CLUSTERS_REPORTING, "False", CLUSTER_NOT_REPORTING, silence)
    else:
        conditions.remove(CLUSTERS_REPORTING)
    start = _update_suspended(root, live_leaves, current, conditions)
    completion_time = ""
    failure = _failure_of(live_leaves)
    if failure is not None:
        conditions.set(FAILURE_TARGET, "True", *failure)
        if not status["active"] and not status["terminating"]:
            conditions.set(FAILED, "True", *failure)
            start = start or now
    elif (
        live_leaves
        and leaf_changes.is_done
        and not leaf_changes.unassigned
        and all(condition_is(leaf, COMPLETE) for leaf in live_leaves)
    ):
        start = start or now
        completion_time = max([start, *(str((leaf["status"]).get("completionTime") or now) for leaf in live_leaves)])
        message = "All leaves of the Job are complete."
        conditions.set(SUCCESS_CRITERIA_MET, "True", "CompletionsReached", message)
        conditions.set(COMPLETE, "True", "CompletionsReached", message)
    if is_finished({"status": {"conditions": conditions.conditions}}):
        conditions.remove(CLUSTERS_REPORTING)
    job_result: Object = {name: count for name, count in status.items() if count}
    job_result |= {"startTime": start} if start else {}
    job_result |= {"completionTime": completion_time} if completion_time else {}
    tracking: Object = {"uncountedTerminatedPods": {}} if "uncountedTerminatedPods" in current else {}
    return job_result | tracking | ({"conditions": conditions.conditions} if conditions.conditions else {})


def _sum_counts(leaves: Any, name: str) -> int:
    return sum(int((leaf.get("status") or {}).get(name) or 0) for leaf in leaves)


def _update_suspended(root: Object, live_leaves: list[Object], current: Object, conditions: _JobConditions) -> str:
    """Returns the start time; a suspended Job starts anew."""
    if is_suspended(root) and live_leaves and all(condition_is(leaf, SUSPENDED) for leaf in live_leaves):
        conditions.set(SUSPENDED, "True", "JobSuspended", "Job suspended")
        return ""
    if not is_suspended(root) and any(one["type"] == SUSPENDED for one in conditions.conditions):
        conditions.set(SUSPENDED, "False", "JobResumed", "Job resumed")
    start_times = [
        str(leaf["status"]["startTime"]) for leaf in live_leaves if (leaf.get("status") or {}).get("startTime")
    ]
    return str(current.get("startTime") or min(start_times, default=""))


def _failure_of(live_leaves: list[Object]) -> tuple[str, str] | None:
    """Returns reason and message of the first leaf that has failed, or is certain to."""
    for kind in (FAILED, FAILURE_TARGET):
        for leaf in live_leaves:
            condition = get_condition(leaf, kind)
            if condition is not None and condition.get("status") == "True":
                return str(condition.get("reason", "")), f"{leaf['metadata']['name']}: {condition.get('message', '')}"
    return None


class _JobConditions:
    def __init__(self, before: list[Object], now: str) -> None:
        self.conditions, self._now = list(before), now

    def set(self, condition_type: str, status: str, reason: str, message: str) -> None:
        previous = next((one for one in self.conditions if one["type"] == condition_type), {})
        if (previous.get("status"), previous.get("reason"), previous.get("message")) == (status, reason, message):
            return
        transition_time = (
            previous.get("lastTransitionTime", self._now) if previous.get("status") == status else self._now
        )
        times = {"lastProbeTime": self._now, "lastTransitionTime": transition_time}
        condition = {"type": condition_type, "status": status, **times, "reason": reason, "message": message}
        self.conditions = (
            [condition if one is previous else one for one in self.conditions]
            if previous
            else [*self.conditions, condition]
        )

    def remove(self, condition_type: str) -> None:
        self.conditions = [one for one in self.conditions if one["type"] != condition_type]
