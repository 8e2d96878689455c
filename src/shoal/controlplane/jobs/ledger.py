"""Tracks finished pods in a Job's status so that none is lost and none is counted twice. Pure.

The uid of a finished pod is first recorded in uncountedTerminatedPods, with the rest of the status. Then its finalizer
is removed. Then the uid is replaced by a count. After an interruption anywhere, status and pods tell what is left to
do. An indexed Job needs no uids for successes: an index is in the list or it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.jobs.decide import Ending, Plan
from shoal.controlplane.jobs.pods import index_of, is_failed, is_valid, phase_of
from shoal.controlplane.jobs.policies import judged
from shoal.controlplane.jobs.reading import Reading
from shoal.kinds.jobs import COMPLETE, FAILED, SUSPENDED, is_indexed, is_suspended
from shoal.kinds.pod_state import is_ready
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]
Event = tuple[str, str, str]
"""Type, reason and message."""

MOST_UNCOUNTED = 500
"""Keeps the status small. The rest follows in the next reconcile."""
COMPLETIONS_REACHED = Ending(COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True, slots=True)
class Done:
    """Outcome of executing a plan."""

    created: int = 0
    deleted: frozenset[str] = frozenset()
    """Uids of pods."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Result of the first half: the status to write before finalizers are removed."""

    status: Object
    release: tuple[Object, ...]
    """Pods whose finalizer is removed next."""
    ending: Ending | None
    events: tuple[Event, ...] = ()


def entered(job: Object, found: Reading, plan: Plan, done: Done, stamp: str) -> Entry:
    left = [pod for pod in found.active if pod["metadata"]["uid"] not in done.deleted]
    active = len(left) + done.created
    status: Object = dict(job.get("status") or {})
    if not status.get("startTime") and not is_suspended(job):
        status["startTime"] = stamp
    ending, events = plan.ending, tuple[Event, ...]()
    if ending is None and _is_complete(job, found, active):
        ending = COMPLETIONS_REACHED
    elif ending is None and plan.managed:
        status, events = _with_suspension(job, status, stamp)
    elif ending is not None and left:
        ending = None  # some pods could not be deleted; active ones would not be counted
    status = _numbers(status, active=active) | {
        "ready": sum(map(is_ready, left)),
        "terminating": len(found.terminating) + len(found.active) - len(left),
    }
    status, release, is_all = _noted(job, found, counted(status, found.held), ending)
    if is_indexed(job):
        status = _numbers(status, succeeded=found.completed.total) | {"completedIndexes": str(found.completed)}
        if not status["completedIndexes"]:
            del status["completedIndexes"]
        if found.failed_indexes is not None:
            status["failedIndexes"] = str(found.failed_indexes)
    if ending is not None and not condition_is({"status": status}, ending.interim):
        status = _with_condition(status, ending.interim, "True", ending.reason, ending.message, stamp)
    return Entry(status, release, ending if is_all else None, events)


def closed(
    job: Object, status: Object, ending: Ending | None, held: Set[str], stamp: str
) -> tuple[Object, list[Event]]:
    """Second half, after the finalizers are removed. `held_uids` are uids of pods that still have theirs."""
    status = counted(status, held)
    waiting = status["uncountedTerminatedPods"]
    if ending is None or waiting or status["terminating"]:
        return status, []
    status = _with_condition(status, ending.type, "True", ending.reason, ending.message, stamp)
    if ending.type == FAILED:
        return status, [("Warning", ending.reason, ending.message)]
    events: list[Event] = []
    completions = job["spec"].get("completions")
    if completions is not None and (status.get("succeeded") or 0) > completions:
        said = "Too many succeeded pods running after completion count reached"
        events.append(("Warning", "TooManySucceededPods", said))
    return {**status, "completionTime": stamp}, [*events, ("Normal", "Completed", "Job completed")]


def counted(status: Object, held: Set[str]) -> Object:
    """Replaces the uids of pods without a finalizer by counts."""
    waiting, left, numbers = status.get("uncountedTerminatedPods") or {}, dict[str, list[str]](), dict[str, int]()
    for field in ("succeeded", "failed"):
        uids = waiting.get(field) or []
        kept = [uid for uid in uids if uid in held]
        numbers[field] = (status.get(field) or 0) + len(uids) - len(kept)
        if kept:
            left[field] = kept
    return _numbers(status, **numbers) | {"uncountedTerminatedPods": left}


def _noted(
    job: Object, found: Reading, status: Object, ending: Ending | None
) -> tuple[Object, tuple[Object, ...], bool]:
    """Returns the status with the uids of finished pods, those pods, and whether these are all."""
    waiting = status["uncountedTerminatedPods"]
    succeeded, failed = [*(waiting.get("succeeded") or ())], [*(waiting.get("failed") or ())]
    known = {*succeeded, *failed}
    indexes, release, is_all = 0, list[Object](), True
    for pod in _in_order(job, found.pods):
        uid = pod["metadata"]["uid"]
        if uid not in found.held or not _may_go(job, found, pod, ending):
            continue
        if uid not in known and len(succeeded) + len(failed) + indexes >= MOST_UNCOUNTED:
            is_all = False
            continue
        release.append(pod)
        if uid in known:
            continue
        if phase_of(pod) != "Succeeded":
            if _is_loss(job, pod, ending):
                failed.append(uid)
        elif not is_indexed(job):
            succeeded.append(uid)
        else:
            index = index_of(pod)
            indexes += index is not None and index not in found.completed_before
    kept = {field: uids for field, uids in (("succeeded", succeeded), ("failed", failed)) if uids}
    return {**status, "uncountedTerminatedPods": kept}, tuple(release), is_all


def _in_order(job: Object, pods: list[Object]) -> Iterable[Object]:
    return sorted(pods, key=lambda pod: -1 if (index := index_of(pod)) is None else index) if is_indexed(job) else pods


def _may_go(job: Object, found: Reading, pod: Object, ending: Ending | None) -> bool:
    if "deletionTimestamp" in job["metadata"] or ending is not None or phase_of(pod) == "Succeeded":
        return True
    if not is_failed(pod, job):
        return False
    index = index_of(pod)
    waits = found.last_failed.get(index) if index is not None else None
    return waits is None or waits["metadata"]["uid"] != pod["metadata"]["uid"]


def _is_loss(job: Object, pod: Object, ending: Ending | None) -> bool:
    """When a Job fails, every unfinished pod counts as failed."""
    failing = ending is not None and ending.type == FAILED
    return (failing or is_failed(pod, job)) and is_valid(pod, job) and judged(job, pod).counts


def _is_complete(job: Object, found: Reading, active: int) -> bool:
    completions = job["spec"].get("completions")
    return not active and (found.succeeded > 0 if completions is None else found.succeeded >= completions)


def _with_suspension(job: Object, status: Object, stamp: str) -> tuple[Object, tuple[Event, ...]]:
    """Resuming a Job resets its start time: the deadline limits the time it is active without interruption."""
    said = get_condition({"status": status}, SUSPENDED) or {}
    if is_suspended(job):
        if (said.get("status"), said.get("reason")) == ("True", "JobSuspended"):
            return status, ()
        status = {field: value for field, value in status.items() if field != "startTime"}
        status = _with_condition(status, SUSPENDED, "True", "JobSuspended", "Job suspended", stamp)
        return status, (("Normal", "Suspended", "Job suspended"),)
    if not said or (said.get("status"), said.get("reason")) == ("False", "JobResumed"):
        return status, ()
    status = _with_condition(status, SUSPENDED, "False", "JobResumed", "Job resumed", stamp)
    return {**status, "startTime": stamp}, (("Normal", "Resumed", "Job resumed"),)


def _with_condition(status: Object, type_: str, state: str, reason: str, message: str, stamp: str) -> Object:
    made = {"type": type_, "status": state, "lastProbeTime": stamp, "lastTransitionTime": stamp}
    made |= {"reason": reason, "message": message}
    conditions = status.get("conditions") or []
    if any(one.get("type") == type_ for one in conditions):
        return {**status, "conditions": [made if one.get("type") == type_ else one for one in conditions]}
    return {**status, "conditions": [*conditions, made]}


def _numbers(status: Object, **numbers: int) -> Object:
    """Counts of zero are omitted."""
    kept = {field: value for field, value in status.items() if field not in numbers}
    return kept | {field: number for field, number in numbers.items() if number}
