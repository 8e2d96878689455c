"""State of a Job from its pods and its status: finished, counted and active pods. Pure.

A finished pod is newly counted while it has the finalizer and its uid is not in uncountedTerminatedPods. Otherwise the
status already accounts for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.backoff import Backoff, end_time
from shoal.controlplane.jobs.indexes import Indexes
from shoal.controlplane.jobs.pods import (
    all_index_failures,
    has_failed_index,
    index_of,
    is_failed,
    is_held,
    is_valid,
    phase_of,
)
from shoal.controlplane.jobs.policies import judged
from shoal.kinds.jobs import has_limit_per_index, is_indexed
from shoal.kinds.pod_state import is_active, is_terminating

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    pods: list[Object]
    held: frozenset[str]
    """Uids of pods that still have the finalizer."""
    active: list[Object]
    terminating: list[Object]
    succeeded: int
    failed: int
    """Both counts include pods that the status does not count yet."""
    backoff: Backoff
    completed_before: Indexes
    completed: Indexes
    failed_indexes: Indexes | None
    """None without a limit per index."""
    last_failed: dict[int, Object]
    """By index: failed pods that wait for their replacement, which inherits their failure count."""


def read(
    job: Object, pods: list[Object], deleted: Set[str], released: Set[str], backoff: Backoff | None = None
) -> Reading:
    """`deleted_uids` and `released_uids` are pods whose deletion or finalizer removal the informer does not show yet.
    `backoff` is the previous one; None derives it from the pods alone.
    """
    status = job.get("status") or {}
    held = frozenset(pod["metadata"]["uid"] for pod in pods if is_held(pod)) - released
    active = [pod for pod in pods if is_active(pod) and pod["metadata"]["uid"] not in deleted]
    terminating = [pod for pod in pods if is_terminating(pod) or (is_active(pod) and pod["metadata"]["uid"] in deleted)]
    waiting = status.get("uncountedTerminatedPods") or {}
    uncounted = held - {*(waiting.get("succeeded") or ()), *(waiting.get("failed") or ())}
    new = [pod for pod in pods if pod["metadata"]["uid"] in uncounted and is_valid(pod, job)]
    new_succeeded = [pod for pod in new if phase_of(pod) == "Succeeded"]
    new_failed = [pod for pod in new if is_failed(pod, job)]
    if backoff is None:
        ended = [pod for pod in pods if pod["metadata"]["uid"] not in uncounted]
        backoff = Backoff().after(
            [pod for pod in ended if phase_of(pod) == "Succeeded"], [pod for pod in ended if phase_of(pod) == "Failed"]
        )
    before, completed, failed_indexes = _indexes(job, pods, held)
    succeeded = (status.get("succeeded") or 0) + len(new_succeeded) + len(waiting.get("succeeded") or ())
    failed = (status.get("failed") or 0) + len(waiting.get("failed") or ())
    return Reading(
        pods=pods,
        held=held,
        active=active,
        terminating=terminating,
        succeeded=completed.total if is_indexed(job) else succeeded,
        failed=failed + sum(judged(job, pod).counts for pod in new_failed),
        backoff=backoff.after(new_succeeded, new_failed),
        completed_before=before,
        completed=completed,
        failed_indexes=failed_indexes,
        last_failed=_last_failed(job, pods, held, active, completed, failed_indexes),
    )


def indexes_of(pods: Iterable[Object]) -> Indexes:
    return Indexes.of({index for index in map(index_of, pods) if index is not None})


def _indexes(job: Object, pods: list[Object], held: Set[str]) -> tuple[Indexes, Indexes, Indexes | None]:
    """Returns the indexes completed according to the status, all completed ones and the failed ones."""
    if not is_indexed(job):
        return Indexes(), Indexes(), None
    status, completions = job.get("status") or {}, job["spec"]["completions"]
    counting = [pod for pod in pods if pod["metadata"]["uid"] in held and is_valid(pod, job)]
    before = Indexes.parse(status.get("completedIndexes"), completions)
    completed = before | indexes_of(pod for pod in counting if phase_of(pod) == "Succeeded")
    if not has_limit_per_index(job):
        return before, completed, None
    failed = Indexes.parse(status.get("failedIndexes"), completions)
    return before, completed, failed | indexes_of(pod for pod in counting if has_failed_index(pod, job))


def _last_failed(
    job: Object,
    pods: list[Object],
    held: Set[str],
    active: list[Object],
    completed: Indexes,
    failed_indexes: Indexes | None,
) -> dict[int, Object]:
    if failed_indexes is None:
        return {}
    settled, found = completed | failed_indexes | indexes_of(active), dict[int, Object]()
    for pod in pods:
        index = index_of(pod)
        if index is None or index in settled or pod["metadata"]["uid"] not in held:
            continue
        if is_valid(pod, job) and is_failed(pod, job) and _rank(pod) >= _rank(found.get(index)):
            found[index] = pod
    return found


def _rank(pod: Object | None) -> tuple[int, float]:
    return (-1, 0.0) if pod is None else (all_index_failures(pod), end_time(pod))
