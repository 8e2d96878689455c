"""Decides the next step of a Job: pods to create, pods to delete, and whether it is finished. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.backoff import Backoff, end_time
from shoal.controlplane.jobs.indexes import Indexes
from shoal.controlplane.jobs.pods import all_index_failures, index_of, is_failed
from shoal.controlplane.jobs.policies import judged, success_by_policy
from shoal.controlplane.jobs.reading import Reading, indexes_of
from shoal.controlplane.podcontrol.ranking import least_needed
from shoal.kinds.jobs import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    has_limit_per_index,
    is_indexed,
    is_suspended,
    replaces_only_failed,
)
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

BURST = 500
"""Maximum number of pods created or deleted in one reconcile. The desired number is computed again in between."""


@dataclass(frozen=True, slots=True)
class Ending:
    type: str
    """Complete or Failed."""
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The condition type that is set before the last pods have finished."""
        return SUCCESS_CRITERIA_MET if self.type == COMPLETE else FAILURE_TARGET


@dataclass(frozen=True, slots=True)
class Plan:
    ending: Ending | None = None
    """Known before anything is done. All active pods are then deleted; the finalizer keeps them until they are
    counted.
    """
    managed: bool = False
    """Whether the number of pods is managed at all."""
    create: tuple[int | None, ...] = ()
    """Completion indexes; None for a Job without indexes."""
    delete: tuple[Object, ...] = ()
    """Without a finished condition these are surplus and count neither as succeeded nor as failed."""
    at: float | None = None
    """Time of the next reconcile if nothing changes before."""


def decide(job: Object, found: Reading, now: float) -> Plan:
    ending = ended(job, found, now)
    if ending is not None:
        return Plan(ending, delete=tuple(found.active))
    at = _deadline(job, now)
    if "deletionTimestamp" in job["metadata"]:
        return Plan(at=at)
    if is_suspended(job):
        return Plan(managed=True, delete=tuple(found.active))
    wanted = _wanted(job, found)
    surplus = _surplus(job, found.active, max(len(found.active) - wanted, 0), now)[:BURST]
    if surplus:
        return Plan(managed=True, delete=tuple(surplus), at=at)
    lacking = wanted - len(found.active) - (len(found.terminating) if replaces_only_failed(job) else 0)
    create, later = _created(job, found, min(lacking, BURST), now)
    moments = [moment for moment in (at, later) if moment is not None]
    return Plan(managed=True, create=create, at=min(moments, default=None))


def ended(job: Object, found: Reading, now: float) -> Ending | None:
    """An interim condition that is already set is final. Failures take precedence over success."""
    for type_, interim in ((COMPLETE, SUCCESS_CRITERIA_MET), (FAILED, FAILURE_TARGET)):
        said = get_condition(job, interim) or {}
        if said.get("status") == "True":
            return Ending(type_, said.get("reason", ""), said.get("message", ""))
    return _failed_by_rule(job, found) or _failed(job, found, now) or _failed_by_index(job, found) or _met(job, found)


def _failed_by_rule(job: Object, found: Reading) -> Ending | None:
    if job["spec"].get("podFailurePolicy") is None:
        return None
    for pod in found.pods:
        message = judged(job, pod).message if is_failed(pod, job) else ""
        if message:
            return Ending(FAILED, "PodFailurePolicy", message)
    return None


def _failed(job: Object, found: Reading, now: float) -> Ending | None:
    if found.failed > job["spec"]["backoffLimit"] or _restarts_exceed(job, found.pods):
        return Ending(FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = _deadline(job, now)
    if deadline is not None and deadline <= now:
        return Ending(FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")
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


def _failed_by_index(job: Object, found: Reading) -> Ending | None:
    if found.failed_indexes is None:
        return None
    failed, most = found.failed_indexes.total, job["spec"].get("maxFailedIndexes")
    if most is not None and failed > most:
        said = "Job has exceeded the specified maximal number of failed indexes"
        return Ending(FAILED, "MaxFailedIndexesExceeded", said)
    if failed and failed + found.completed.total >= job["spec"]["completions"]:
        return Ending(FAILED, "FailedIndexes", "Job has failed indexes")
    return None


def _met(job: Object, found: Reading) -> Ending | None:
    message = success_by_policy(job, found.completed) if is_indexed(job) else None
    return Ending(COMPLETE, "SuccessPolicy", message) if message is not None else None


def _wanted(job: Object, found: Reading) -> int:
    parallelism, completions = job["spec"]["parallelism"], job["spec"].get("completions")
    if completions is None:
        # One success is enough: active pods continue and no new pod is started.
        return len(found.active) if found.succeeded else int(parallelism)
    return max(int(min(completions - found.succeeded, parallelism)), 0)


def _surplus(job: Object, active: list[Object], at_least: int, now: float) -> list[Object]:
    """Returns the pods to delete. Always includes those without a valid index and duplicates of an index."""
    if not is_indexed(job):
        return least_needed(active, (), at_least, now) if at_least else []
    useless: list[Object] = []
    by_index: dict[int, list[Object]] = {}
    for pod in active:
        index = index_of(pod)
        if index is None or index >= job["spec"]["completions"]:
            useless.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for same in by_index.values():
        if len(same) > 1:
            useless += least_needed(same, (), len(same) - 1, now)
    going = {pod["metadata"]["uid"] for pod in useless}
    left = [pod for pod in active if pod["metadata"]["uid"] not in going]
    more = at_least - len(useless)
    return useless + (least_needed(left, (), more, now) if more > 0 else [])


def _created(job: Object, found: Reading, count: int, now: float) -> tuple[tuple[int | None, ...], float | None]:
    """Returns the indexes to create now, and the time from which more may be created if only backoff prevents it."""
    if count <= 0:
        return (), None
    if not has_limit_per_index(job) and found.backoff.until() > now:
        return (), found.backoff.until()
    if not is_indexed(job):
        return (None,) * count, None
    pending = _taken(job, found).missing(count, job["spec"]["completions"])
    moments = {index: _may_follow(found.last_failed.get(index)) for index in pending}
    ready = tuple(index for index in pending if moments[index] <= now)
    return ready, min((moment for moment in moments.values() if moment > now), default=None)


def _taken(job: Object, found: Reading) -> Indexes:
    taken = found.completed | indexes_of(found.active) | (found.failed_indexes or Indexes())
    return taken | indexes_of(found.terminating) if replaces_only_failed(job) else taken


def _may_follow(failed: Object | None) -> float:
    """Returns the time from which the failed pod may be replaced."""
    return 0.0 if failed is None else Backoff(all_index_failures(failed) + 1, end_time(failed)).until()
