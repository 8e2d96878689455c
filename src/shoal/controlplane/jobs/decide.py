"""Decides the next step of a Job: pods to create, pods to delete, and whether it is finished. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.backoff import JobBackoff, finish_time
from shoal.controlplane.jobs.indexes import IndexSet
from shoal.controlplane.jobs.pods import all_index_failures, completion_index, is_failed
from shoal.controlplane.jobs.policies import match_pod_failure_policy, match_success_policy
from shoal.controlplane.jobs.state import JobState, indexes_of
from shoal.controlplane.podcontrol.rank import pods_to_delete
from shoal.kinds.batch.job import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    has_backoff_limit_per_index,
    is_indexed,
    is_suspended,
    only_replaces_failed_pods,
)
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

BURST_REPLICAS = 500
"""Maximum number of pods created or deleted in one reconcile. The desired number is computed again in between."""


@dataclass(frozen=True, slots=True)
class FinishedCondition:
    type: str
    """Complete or Failed."""
    reason: str
    message: str

    @property
    def interim_type(self) -> str:
        """The condition type that is set before the last pods have finished."""
        return SUCCESS_CRITERIA_MET if self.type == COMPLETE else FAILURE_TARGET


@dataclass(frozen=True, slots=True)
class JobPlan:
    finished: FinishedCondition | None = None
    """Known before anything is done. All active pods are then deleted; the finalizer keeps them until they are
    counted.
    """
    is_managed: bool = False
    """Whether the number of pods is managed at all."""
    create: tuple[int | None, ...] = ()
    """Completion indexes; None for a Job without indexes."""
    delete: tuple[Object, ...] = ()
    """Without a finished condition these are surplus and count neither as succeeded nor as failed."""
    requeue_at: float | None = None
    """Time of the next reconcile if nothing changes before."""


def decide(job: Object, state: JobState, now: float) -> JobPlan:
    finished = finished_condition(job, state, now)
    if finished is not None:
        return JobPlan(finished, delete=tuple(state.active))
    deadline = _deadline(job, now)
    if "deletionTimestamp" in job["metadata"]:
        return JobPlan(requeue_at=deadline)
    if is_suspended(job):
        return JobPlan(is_managed=True, delete=tuple(state.active))
    desired = _desired_active(job, state)
    surplus = _surplus(job, state.active, max(len(state.active) - desired, 0), now)[:BURST_REPLICAS]
    if surplus:
        return JobPlan(is_managed=True, delete=tuple(surplus), requeue_at=deadline)
    lacking = desired - len(state.active) - (len(state.terminating) if only_replaces_failed_pods(job) else 0)
    create, retry_at = _indexes_to_create(job, state, min(lacking, BURST_REPLICAS), now)
    moments = [moment for moment in (deadline, retry_at) if moment is not None]
    return JobPlan(is_managed=True, create=create, requeue_at=min(moments, default=None))


def finished_condition(job: Object, state: JobState, now: float) -> FinishedCondition | None:
    """An interim condition that is already set is final. Failures take precedence over success."""
    for type_, interim in ((COMPLETE, SUCCESS_CRITERIA_MET), (FAILED, FAILURE_TARGET)):
        condition = get_condition(job, interim) or {}
        if condition.get("status") == "True":
            return FinishedCondition(type_, condition.get("reason", ""), condition.get("message", ""))
    return (
        _failed_by_policy(job, state)
        or _failed_by_limit(job, state, now)
        or _failed_by_index(job, state)
        or _succeeded_by_policy(job, state)
    )


def _failed_by_policy(job: Object, state: JobState) -> FinishedCondition | None:
    if job["spec"].get("podFailurePolicy") is None:
        return None
    for pod in state.pods:
        message = match_pod_failure_policy(job, pod).message if is_failed(pod, job) else ""
        if message:
            return FinishedCondition(FAILED, "PodFailurePolicy", message)
    return None


def _failed_by_limit(job: Object, state: JobState, now: float) -> FinishedCondition | None:
    if state.failed > job["spec"]["backoffLimit"] or _restarts_exceed(job, state.pods):
        return FinishedCondition(FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = _deadline(job, now)
    if deadline is not None and deadline <= now:
        return FinishedCondition(FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarts_exceed(job: Object, pods: list[Object]) -> bool:
    """Restarts of containers in place count as well."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for status in (pod.get("status") or {} for pod in pods):
        if status.get("phase") in ("Running", "Pending"):
            for field in ("initContainerStatuses", "containerStatuses"):
                restarts += sum(one.get("restartCount") or 0 for one in status.get(field) or ())
    return bool(restarts >= max(job["spec"]["backoffLimit"], 1))


def _deadline(job: Object, now: float) -> float | None:
    seconds = job["spec"].get("activeDeadlineSeconds")
    if seconds is None or is_suspended(job):
        return None
    started = parse_time((job.get("status") or {}).get("startTime"))
    return float(seconds) + (now if started is None else started)


def _failed_by_index(job: Object, state: JobState) -> FinishedCondition | None:
    if state.failed_indexes is None:
        return None
    failed, max_failed = state.failed_indexes.total, job["spec"].get("maxFailedIndexes")
    if max_failed is not None and failed > max_failed:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return FinishedCondition(FAILED, "MaxFailedIndexesExceeded", message)
    if failed and failed + state.completed.total >= job["spec"]["completions"]:
        return FinishedCondition(FAILED, "FailedIndexes", "Job has failed indexes")
    return None


def _succeeded_by_policy(job: Object, state: JobState) -> FinishedCondition | None:
    message = match_success_policy(job, state.completed) if is_indexed(job) else None
    return FinishedCondition(COMPLETE, "SuccessPolicy", message) if message is not None else None


def _desired_active(job: Object, state: JobState) -> int:
    parallelism, completions = job["spec"]["parallelism"], job["spec"].get("completions")
    if completions is None:
        # One success is enough: active pods continue and no new pod is started.
        return len(state.active) if state.succeeded else int(parallelism)
    return max(int(min(completions - state.succeeded, parallelism)), 0)


def _surplus(job: Object, active: list[Object], at_least: int, now: float) -> list[Object]:
    """Returns the pods to delete. Always includes those without a valid index and duplicates of an index."""
    if not is_indexed(job):
        return pods_to_delete(active, (), at_least, now) if at_least else []
    invalid: list[Object] = []
    by_index: dict[int, list[Object]] = {}
    for pod in active:
        index = completion_index(pod)
        if index is None or index >= job["spec"]["completions"]:
            invalid.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for duplicates in by_index.values():
        if len(duplicates) > 1:
            invalid += pods_to_delete(duplicates, (), len(duplicates) - 1, now)
    invalid_uids = {pod["metadata"]["uid"] for pod in invalid}
    remaining = [pod for pod in active if pod["metadata"]["uid"] not in invalid_uids]
    more = at_least - len(invalid)
    return invalid + (pods_to_delete(remaining, (), more, now) if more > 0 else [])


def _indexes_to_create(
    job: Object, state: JobState, count: int, now: float
) -> tuple[tuple[int | None, ...], float | None]:
    """Returns the indexes to create now, and the time from which more may be created if only backoff prevents it."""
    if count <= 0:
        return (), None
    if not has_backoff_limit_per_index(job) and state.backoff.retry_at() > now:
        return (), state.backoff.retry_at()
    if not is_indexed(job):
        return (None,) * count, None
    pending = _used_indexes(job, state).first_absent(count, job["spec"]["completions"])
    moments = {index: _replacement_time(state.last_failed_pods.get(index)) for index in pending}
    ready = tuple(index for index in pending if moments[index] <= now)
    return ready, min((moment for moment in moments.values() if moment > now), default=None)


def _used_indexes(job: Object, state: JobState) -> IndexSet:
    used = state.completed | indexes_of(state.active) | (state.failed_indexes or IndexSet())
    return used | indexes_of(state.terminating) if only_replaces_failed_pods(job) else used


def _replacement_time(failed: Object | None) -> float:
    """Returns the time from which the failed pod may be replaced."""
    return 0.0 if failed is None else JobBackoff(all_index_failures(failed) + 1, finish_time(failed)).retry_at()
