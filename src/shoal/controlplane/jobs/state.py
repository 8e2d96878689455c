"""State of a Job from its pods and its status: finished, counted and active pods. Pure.

A finished pod is newly counted while it has the finalizer and its uid is not in uncountedTerminatedPods. Otherwise the
status already accounts for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.backoff import JobBackoff, finish_time
from shoal.controlplane.jobs.indexes import IndexSet
from shoal.controlplane.jobs.pods import (
    all_index_failures,
    completion_index,
    has_failed_index,
    has_tracking_finalizer,
    has_valid_index,
    is_failed,
    phase_of,
)
from shoal.controlplane.jobs.policies import match_pod_failure_policy
from shoal.kinds.batch.job import has_backoff_limit_per_index, is_indexed
from shoal.kinds.core.pod.status import is_active, is_terminating

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobState:
    pods: list[Object]
    held_uids: frozenset[str]
    """Uids of pods that still have the finalizer."""
    active: list[Object]
    terminating: list[Object]
    succeeded: int
    failed: int
    """Both counts include pods that the status does not count yet."""
    backoff: JobBackoff
    completed_before: IndexSet
    completed: IndexSet
    failed_indexes: IndexSet | None
    """None without a limit per index."""
    last_failed_pods: dict[int, Object]
    """By index: failed pods that wait for their replacement, which inherits their failure count."""


def job_state(job: Object, pods: list[Object], deleted_uids: Set[str], backoff: JobBackoff | None = None) -> JobState:
    """`deleted_uids` are pods whose deletion the informer does not show yet. `backoff` is the previous one; None
    derives it from the pods alone.
    """
    status = job.get("status") or {}
    held_uids = frozenset(pod["metadata"]["uid"] for pod in pods if has_tracking_finalizer(pod))
    active = [pod for pod in pods if is_active(pod) and pod["metadata"]["uid"] not in deleted_uids]
    terminating = [
        pod for pod in pods if is_terminating(pod) or (is_active(pod) and pod["metadata"]["uid"] in deleted_uids)
    ]
    uncounted_status = status.get("uncountedTerminatedPods") or {}
    uncounted = held_uids - {*(uncounted_status.get("succeeded") or ()), *(uncounted_status.get("failed") or ())}
    newly_finished = [pod for pod in pods if pod["metadata"]["uid"] in uncounted and has_valid_index(pod, job)]
    new_succeeded = [pod for pod in newly_finished if phase_of(pod) == "Succeeded"]
    new_failed = [pod for pod in newly_finished if is_failed(pod, job)]
    if backoff is None:
        earlier = [pod for pod in pods if pod["metadata"]["uid"] not in uncounted]
        backoff = JobBackoff().with_finished(
            [pod for pod in earlier if phase_of(pod) == "Succeeded"],
            [pod for pod in earlier if phase_of(pod) == "Failed"],
        )
    before, completed, failed_indexes = _completed_and_failed(job, pods, held_uids)
    succeeded = (status.get("succeeded") or 0) + len(new_succeeded) + len(uncounted_status.get("succeeded") or ())
    failed = (status.get("failed") or 0) + len(uncounted_status.get("failed") or ())
    return JobState(
        pods=pods,
        held_uids=held_uids,
        active=active,
        terminating=terminating,
        succeeded=completed.total if is_indexed(job) else succeeded,
        failed=failed + sum(match_pod_failure_policy(job, pod).is_counted for pod in new_failed),
        backoff=backoff.with_finished(new_succeeded, new_failed),
        completed_before=before,
        completed=completed,
        failed_indexes=failed_indexes,
        last_failed_pods=_last_failed_pods(job, pods, held_uids, active, completed, failed_indexes),
    )


def indexes_of(pods: Iterable[Object]) -> IndexSet:
    return IndexSet.from_indexes({index for index in map(completion_index, pods) if index is not None})


def _completed_and_failed(
    job: Object, pods: list[Object], held_uids: Set[str]
) -> tuple[IndexSet, IndexSet, IndexSet | None]:
    """Returns the indexes completed according to the status, all completed ones and the failed ones."""
    if not is_indexed(job):
        return IndexSet(), IndexSet(), None
    status, completions = job.get("status") or {}, job["spec"]["completions"]
    counting = [pod for pod in pods if pod["metadata"]["uid"] in held_uids and has_valid_index(pod, job)]
    before = IndexSet.parse(status.get("completedIndexes"), completions)
    completed = before | indexes_of(pod for pod in counting if phase_of(pod) == "Succeeded")
    if not has_backoff_limit_per_index(job):
        return before, completed, None
    failed = IndexSet.parse(status.get("failedIndexes"), completions)
    return before, completed, failed | indexes_of(pod for pod in counting if has_failed_index(pod, job))


def _last_failed_pods(
    job: Object,
    pods: list[Object],
    held_uids: Set[str],
    active: list[Object],
    completed: IndexSet,
    failed_indexes: IndexSet | None,
) -> dict[int, Object]:
    if failed_indexes is None:
        return {}
    closed_indexes, last_failed = completed | failed_indexes | indexes_of(active), dict[int, Object]()
    for pod in pods:
        index = completion_index(pod)
        if index is None or index in closed_indexes or pod["metadata"]["uid"] not in held_uids:
            continue
        if (
            has_valid_index(pod, job)
            and is_failed(pod, job)
            and _failure_rank(pod) >= _failure_rank(last_failed.get(index))
        ):
            last_failed[index] = pod
    return last_failed


def _failure_rank(pod: Object | None) -> tuple[int, float]:
    return (-1, 0.0) if pod is None else (all_index_failures(pod), finish_time(pod))
