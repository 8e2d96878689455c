"""Tracks finished pods in a Job's status so that none is lost and none is counted twice. Pure.

The uid of a finished pod is first recorded in uncountedTerminatedPods, with the rest of the status. Then its finalizer
is removed. Then the uid is replaced by a count. After an interruption anywhere, status and pods tell what is left to
do. An indexed Job needs no uids for successes: an index is in the list or it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.decide import FinishedCondition, JobPlan
from shoal.controlplane.jobs.pods import completion_index, has_valid_index, is_failed, phase_of
from shoal.controlplane.jobs.policies import match_pod_failure_policy
from shoal.controlplane.jobs.state import JobState
from shoal.kinds.batch.job import COMPLETE, FAILED, SUSPENDED, is_indexed, is_suspended
from shoal.kinds.core.pod.status import is_ready
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]
JobEvent = tuple[str, str, str]
"""Type, reason and message."""

MAX_UNCOUNTED = 500
"""Keeps the status small. The rest follows in the next reconcile."""
COMPLETIONS_REACHED = FinishedCondition(COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """Outcome of executing a plan."""

    created: int = 0
    deleted: frozenset[str] = frozenset()
    """Uids of pods."""


@dataclass(frozen=True, slots=True)
class UncountedPods:
    """Result of the first half: the status to write before finalizers are removed."""

    status: Object
    release: tuple[Object, ...]
    """Pods whose finalizer is removed next."""
    finished: FinishedCondition | None
    events: tuple[JobEvent, ...] = ()


def record_finished(
    job: Object, state: JobState, plan: JobPlan, outcome: PlanOutcome, now_rfc3339: str
) -> UncountedPods:
    remaining = [pod for pod in state.active if pod["metadata"]["uid"] not in outcome.deleted]
    active = len(remaining) + outcome.created
    status: Object = dict(job.get("status") or {})
    if not status.get("startTime") and not is_suspended(job):
        status["startTime"] = now_rfc3339
    finished, events = plan.finished, tuple[JobEvent, ...]()
    if finished is None and _is_complete(job, state, active):
        finished = COMPLETIONS_REACHED
    elif finished is None and plan.is_managed:
        status, events = _with_suspended_condition(job, status, now_rfc3339)
    elif finished is not None and remaining:
        finished = None  # some pods could not be deleted; active ones would not be counted
    status = _with_counts(status, active=active) | {
        "ready": sum(map(is_ready, remaining)),
        "terminating": len(state.terminating) + len(state.active) - len(remaining),
    }
    status, release, all_recorded = _record_uncounted(job, state, count_released(status, state.held_uids), finished)
    if is_indexed(job):
        status = _with_counts(status, succeeded=state.completed.total) | {"completedIndexes": str(state.completed)}
        if not status["completedIndexes"]:
            del status["completedIndexes"]
        if state.failed_indexes is not None:
            status["failedIndexes"] = str(state.failed_indexes)
    if finished is not None and not condition_is({"status": status}, finished.interim_type):
        status = _with_condition(status, finished.interim_type, "True", finished.reason, finished.message, now_rfc3339)
    return UncountedPods(status, release, finished if all_recorded else None, events)


def flush_uncounted(
    job: Object, status: Object, finished: FinishedCondition | None, held_uids: Set[str], now_rfc3339: str
) -> tuple[Object, list[JobEvent]]:
    """Second half, after the finalizers are removed. `held_uids` are uids of pods that still have theirs."""
    status = count_released(status, held_uids)
    uncounted = status["uncountedTerminatedPods"]
    if finished is None or uncounted or status["terminating"]:
        return status, []
    status = _with_condition(status, finished.type, "True", finished.reason, finished.message, now_rfc3339)
    if finished.type == FAILED:
        return status, [("Warning", finished.reason, finished.message)]
    events: list[JobEvent] = []
    completions = job["spec"].get("completions")
    if completions is not None and (status.get("succeeded") or 0) > completions:
        message = "Too many succeeded pods running after completion count reached"
        events.append(("Warning", "TooManySucceededPods", message))
    return {**status, "completionTime": now_rfc3339}, [*events, ("Normal", "Completed", "Job completed")]


def count_released(status: Object, held_uids: Set[str]) -> Object:
    """Replaces the uids of pods without a finalizer by counts."""
    uncounted, remaining, numbers = (
        status.get("uncountedTerminatedPods") or {},
        dict[str, list[str]](),
        dict[str, int](),
    )
    for field in ("succeeded", "failed"):
        uids = uncounted.get(field) or []
        kept = [uid for uid in uids if uid in held_uids]
        numbers[field] = (status.get(field) or 0) + len(uids) - len(kept)
        if kept:
            remaining[field] = kept
    return _with_counts(status, **numbers) | {"uncountedTerminatedPods": remaining}


def _record_uncounted(
    job: Object, state: JobState, status: Object, finished: FinishedCondition | None
) -> tuple[Object, tuple[Object, ...], bool]:
    """Returns the status with the uids of finished pods, those pods, and whether these are all."""
    uncounted = status["uncountedTerminatedPods"]
    succeeded, failed = [*(uncounted.get("succeeded") or ())], [*(uncounted.get("failed") or ())]
    recorded = {*succeeded, *failed}
    new_indexes, release, all_recorded = 0, list[Object](), True
    for pod in _by_index(job, state.pods):
        uid = pod["metadata"]["uid"]
        if uid not in state.held_uids or not _can_release(job, state, pod, finished):
            continue
        if uid not in recorded and len(succeeded) + len(failed) + new_indexes >= MAX_UNCOUNTED:
            all_recorded = False
            continue
        release.append(pod)
        if uid in recorded:
            continue
        if phase_of(pod) != "Succeeded":
            if _counts_as_failed(job, pod, finished):
                failed.append(uid)
        elif not is_indexed(job):
            succeeded.append(uid)
        else:
            index = completion_index(pod)
            new_indexes += index is not None and index not in state.completed_before
    kept = {field: uids for field, uids in (("succeeded", succeeded), ("failed", failed)) if uids}
    return {**status, "uncountedTerminatedPods": kept}, tuple(release), all_recorded


def _by_index(job: Object, pods: list[Object]) -> Iterable[Object]:
    return (
        sorted(pods, key=lambda pod: -1 if (index := completion_index(pod)) is None else index)
        if is_indexed(job)
        else pods
    )


def _can_release(job: Object, state: JobState, pod: Object, finished: FinishedCondition | None) -> bool:
    if "deletionTimestamp" in job["metadata"] or finished is not None or phase_of(pod) == "Succeeded":
        return True
    if not is_failed(pod, job):
        return False
    index = completion_index(pod)
    awaits_replacement = state.last_failed_pods.get(index) if index is not None else None
    return awaits_replacement is None or awaits_replacement["metadata"]["uid"] != pod["metadata"]["uid"]


def _counts_as_failed(job: Object, pod: Object, finished: FinishedCondition | None) -> bool:
    """When a Job fails, every unfinished pod counts as failed."""
    job_fails = finished is not None and finished.type == FAILED
    return (
        (job_fails or is_failed(pod, job))
        and has_valid_index(pod, job)
        and match_pod_failure_policy(job, pod).is_counted
    )


def _is_complete(job: Object, state: JobState, active: int) -> bool:
    completions = job["spec"].get("completions")
    return not active and (state.succeeded > 0 if completions is None else state.succeeded >= completions)


def _with_suspended_condition(job: Object, status: Object, now_rfc3339: str) -> tuple[Object, tuple[JobEvent, ...]]:
    """Resuming a Job resets its start time: the deadline limits the time it is active without interruption."""
    suspended = get_condition({"status": status}, SUSPENDED) or {}
    if is_suspended(job):
        if (suspended.get("status"), suspended.get("reason")) == ("True", "JobSuspended"):
            return status, ()
        status = {field: value for field, value in status.items() if field != "startTime"}
        status = _with_condition(status, SUSPENDED, "True", "JobSuspended", "Job suspended", now_rfc3339)
        return status, (("Normal", "Suspended", "Job suspended"),)
    if not suspended or (suspended.get("status"), suspended.get("reason")) == ("False", "JobResumed"):
        return status, ()
    status = _with_condition(status, SUSPENDED, "False", "JobResumed", "Job resumed", now_rfc3339)
    return {**status, "startTime": now_rfc3339}, (("Normal", "Resumed", "Job resumed"),)


def _with_condition(status: Object, type_: str, state: str, reason: str, message: str, now_rfc3339: str) -> Object:
    condition = {"type": type_, "status": state, "lastProbeTime": now_rfc3339, "lastTransitionTime": now_rfc3339}
    condition |= {"reason": reason, "message": message}
    conditions = status.get("conditions") or []
    if any(one.get("type") == type_ for one in conditions):
        return {**status, "conditions": [condition if one.get("type") == type_ else one for one in conditions]}
    return {**status, "conditions": [*conditions, condition]}


def _with_counts(status: Object, **counts: int) -> Object:
    """Counts of zero are omitted."""
    kept = {field: value for field, value in status.items() if field not in counts}
    return kept | {field: number for field, number in counts.items() if number}
