"""Decides what a hub does about the process of a Worker with infrastructure process, and builds its Supervised
condition. Pure.

A Worker that no worker has joined as is claimed by one hub, with one compare-and-swap, for its whole life: its data is
in that hub's data directory. Its data is removed only when the Worker is being deleted and hosts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.workerprocesses.interface import ProcessState
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.conditions import remove_condition, set_condition

Object = dict[str, Any]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
STABLE_SECONDS = 60.0
"""A process that has run that long is healthy: the restart delay starts over."""
RECHECK_SECONDS = 1.0
"""Between checks of a directory that another process uses."""
PROVIDES = frozenset({"embedded"})
"""Infrastructures that a worker process can host."""

CLAIM, START, STOP, REMOVE, RELEASE = "claim", "start", "stop", "remove", "release"

PROCESS_RUNNING, PROCESS_EXITED = "ProcessRunning", "ProcessExited"
NO_WORKER_PROCESSES, JOINED_FROM_ELSEWHERE, WRONG_NAMESPACE = (
    "NoWorkerProcesses",
    "JoinedFromElsewhere",
    "WrongNamespace",
)
NOT_PROVIDED, EXPELLED = "InfrastructureNotProvided", "Expelled"
DIRECTORY_TAKEN, DIRECTORY_IN_USE, DIRECTORY_MISSING = "DirectoryTaken", "DirectoryInUse", "DirectoryMissing"
SUPERVISOR_SILENT = "SupervisorSilent"


@dataclass(frozen=True, slots=True)
class SupervisedCondition:
    status: str
    """Status of the Supervised condition; empty: there is no condition."""
    reason: str = ""
    message: str = ""


NO_CONDITION = SupervisedCondition("")


@dataclass(frozen=True, slots=True)
class ProcessDecision:
    action: str = ""
    condition: SupervisedCondition | None = None
    """None: the condition is left as it is."""
    requeue_after: float | None = None
    """Seconds after which to reconcile again if nothing changes."""
    is_stable: bool = False
    """Earlier failures no longer count."""


def supervisor_of(worker: Object) -> str:
    return str((worker["metadata"].get("annotations") or {}).get(infrav1.SUPERVISOR_ANNOTATION) or "")


def needs_cluster_count(worker: Object) -> bool:
    """True if the number of hosted clusters has to be known."""
    held = worker["metadata"].get("finalizers") or ()
    return bool(supervisor_of(worker)) and infrav1.is_deleting(worker) and infrav1.WORKER_FINALIZER not in held


def decide(
    worker: Object,
    supervisor_id: str,
    process: ProcessState,
    cluster_count: int | None,
    monotonic: float,
    lease_remaining: float = 0.0,
) -> ProcessDecision:
    """`supervisor_id` is the id of this hub's worker processes, empty if it runs none. `cluster_count` is how many
    ManagedClusters the Worker has, None if not queried. `lease_remaining` is for how many seconds the hub that has
    claimed it still counts as alive.
    """
    owner = supervisor_of(worker)
    if not owner or not _is_in_worker_namespace(worker):
        return _decide_unclaimed(worker, supervisor_id, process)
    is_removable = needs_cluster_count(worker) and cluster_count == 0
    if owner != supervisor_id:
        if process.pid:
            return ProcessDecision(STOP)  # This hub was silent for too long, and another one has claimed it.
        return (
            ProcessDecision(requeue_after=lease_remaining)
            if lease_remaining > 0
            else _decide_abandoned(worker, supervisor_id, process, is_removable)
        )
    if is_removable:
        return _decide_removal(process, worker["metadata"]["uid"])
    if worker_join.is_expelled(worker):
        return ProcessDecision(
            STOP if process.pid else "",
            SupervisedCondition("False", EXPELLED, "the worker was expelled; its process is not run"),
        )
    if process.pid:
        lease_remaining = process.changed_at + STABLE_SECONDS - monotonic
        condition = SupervisedCondition("True", PROCESS_RUNNING, f"process {process.pid} on {process.directory}")
        return ProcessDecision("", condition, lease_remaining if lease_remaining > 0 else None, lease_remaining <= 0)
    return _decide_stopped(worker, process, monotonic)


def _decide_unclaimed(worker: Object, supervisor_id: str, process: ProcessState) -> ProcessDecision:
    metadata, spec = worker["metadata"], infrav1.spec_of(worker)
    name = metadata["name"]
    if spec.get("infrastructure", infrav1.PROCESS_WORKER) != infrav1.PROCESS_WORKER or infrav1.is_deleting(worker):
        return ProcessDecision("", NO_CONDITION)
    if not _is_in_worker_namespace(worker):
        return _not_supervised(WRONG_NAMESPACE, f"Workers must be in the namespace {infrav1.NAMESPACE}")
    if _has_joined(worker):
        message = "a worker that this hub did not start has joined with this name; its infrastructure is external"
        return _not_supervised(JOINED_FROM_ELSEWHERE, message)
    if not supervisor_id:
        return _not_supervised(
            NO_WORKER_PROCESSES, f"this hub runs no worker processes; run it yourself: shoal worker --name {name}"
        )
    unsupported = sorted(set(spec.get("provides") or ()) - PROVIDES)
    if unsupported:
        return _not_supervised(
            NOT_PROVIDED,
            f"a worker process can provide only {', '.join(sorted(PROVIDES))}, not {', '.join(unsupported)}; "
            f"run it yourself: shoal worker --name {name} --kind",
        )
    if process.owner_uid is not None and process.owner_uid != metadata["uid"]:
        message = f"{process.directory} holds the data of another worker; move it away, or choose another name"
        return ProcessDecision("", SupervisedCondition("False", DIRECTORY_TAKEN, message), RECHECK_SECONDS)
    return ProcessDecision(CLAIM)


def _decide_abandoned(worker: Object, supervisor_id: str, process: ProcessState, is_removable: bool) -> ProcessDecision:
    """The hub that has claimed it is silent. Its data may still be there, unless there never was any."""
    if is_removable:
        return ProcessDecision(RELEASE)
    if supervisor_id and process.owner_uid is None and not infrav1.is_deleting(worker) and not _has_joined(worker):
        return ProcessDecision(CLAIM)
    message = (
        "no heartbeat from the hub that runs it and has its data "
        f"({infrav1.SUPERVISOR_ANNOTATION}: {supervisor_of(worker)})"
    )
    return ProcessDecision("", SupervisedCondition("Unknown", SUPERVISOR_SILENT, message), infrav1.HEARTBEAT_SECONDS)


def _is_in_worker_namespace(worker: Object) -> bool:
    """Processes are identified by name alone: a Worker of the same name in another namespace is unrelated."""
    return bool(worker["metadata"].get("namespace") == infrav1.NAMESPACE)


def _has_joined(worker: Object) -> bool:
    return infrav1.STORE_ANNOTATION in (worker["metadata"].get("annotations") or {})


def _not_supervised(reason: str, message: str) -> ProcessDecision:
    return ProcessDecision("", SupervisedCondition("False", reason, message))


def _decide_removal(process: ProcessState, uid: str) -> ProcessDecision:
    if process.pid:
        return ProcessDecision(STOP)
    if process.owner_uid != uid:
        return ProcessDecision(RELEASE)  # The directory belongs to another Worker.
    return _directory_in_use(process) if process.foreign_pid else ProcessDecision(REMOVE)


def _decide_stopped(worker: Object, process: ProcessState, monotonic: float) -> ProcessDecision:
    metadata = worker["metadata"]
    if process.owner_uid is None and _has_joined(worker):
        message = f"{process.directory} is missing with the hosted clusters; restore it, or delete the Worker"
        return ProcessDecision("", SupervisedCondition("False", DIRECTORY_MISSING, message), RECHECK_SECONDS)
    if process.owner_uid not in (None, metadata["uid"]):
        message = f"{process.directory} holds the data of another worker; move it away"
        return ProcessDecision("", SupervisedCondition("False", DIRECTORY_TAKEN, message), RECHECK_SECONDS)
    if process.foreign_pid:
        return _directory_in_use(process)
    restart_at = process.changed_at + restart_delay(process.failures)
    if process.failures and monotonic < restart_at:
        return ProcessDecision(
            "",
            SupervisedCondition("False", PROCESS_EXITED, f"{process.exit_message}; restarting"),
            restart_at - monotonic,
        )
    return ProcessDecision(START)


def _directory_in_use(process: ProcessState) -> ProcessDecision:
    message = f"{process.directory} is in use by process {process.foreign_pid}, which this hub did not start"
    return ProcessDecision("", SupervisedCondition("False", DIRECTORY_IN_USE, message), RECHECK_SECONDS)


def restart_delay(failures: int) -> float:
    """Seconds before the process is restarted."""
    return min(FIRST_PAUSE * float(2 ** min(failures - 1, 20)), LONGEST_PAUSE) if failures else 0.0


def failures_after(previous: int, runtime_seconds: float) -> int:
    """Returns the consecutive failures after a process that ran that long has exited by itself."""
    return 1 if runtime_seconds >= STABLE_SECONDS else previous + 1


def claim_patch(worker: Object, supervisor_id: str) -> Object:
    """Returns the patch that claims the Worker; it conflicts if anything has changed."""
    metadata = worker["metadata"]
    current = [*(metadata.get("finalizers") or ())]
    finalizers = current if infrav1.PROCESS_FINALIZER in current else [*current, infrav1.PROCESS_FINALIZER]
    return _metadata_patch(
        metadata, {"annotations": {infrav1.SUPERVISOR_ANNOTATION: supervisor_id}, "finalizers": finalizers}
    )


def release_patch(worker: Object) -> Object:
    metadata = worker["metadata"]
    finalizers = [each for each in metadata.get("finalizers") or () if each != infrav1.PROCESS_FINALIZER]
    return _metadata_patch(metadata, {"finalizers": finalizers})


def _metadata_patch(metadata: Object, fields: Object) -> Object:
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], **fields}}


def supervised_status(worker: Object, decision: ProcessDecision, now: str) -> Object | None:
    """Returns the status with the condition; None if it is current."""
    condition = decision.condition
    if condition is None:
        return None
    updated = remove_condition(worker, infrav1.SUPERVISED)
    if condition.status:
        reason_and_message = {"reason": condition.reason, "message": condition.message}
        generation = worker["metadata"].get("generation")
        updated = set_condition(
            worker, infrav1.SUPERVISED, condition.status, **reason_and_message, observed_generation=generation, now=now
        )
    before = list(infrav1.status_of(worker).get("errors") or ())
    errors = before
    if condition.reason == PROCESS_EXITED:
        errors = infrav1.append_error(worker, condition.reason, condition.message, now)
    elif decision.is_stable:
        errors = [error for error in before if error["reason"] != PROCESS_EXITED]
    if errors != before:
        updated = {**updated, "status": {**infrav1.status_of(updated), "errors": errors}}
    return None if updated is worker else infrav1.status_of(updated)
