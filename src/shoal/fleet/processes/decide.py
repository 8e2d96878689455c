"""Decides what a hub does about the process of a Worker with infrastructure process, and builds its Supervised
condition. Pure.

A Worker that no worker has joined as is claimed by one hub, with one compare-and-swap, for its whole life: its data is
in that hub's data directory. Its data is removed only when the Worker is being deleted and hosts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.processes.interface import Here
from shoal.kinds import fleet, joining
from shoal.objects.conditions import remove_condition, set_condition

Object = dict[str, Any]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
STEADY_SECONDS = 60.0
"""A process that has run that long is healthy: the restart delay starts over."""
LOOK_SECONDS = 1.0
"""Between checks of a directory that another process uses."""
PROVIDES = frozenset({"embedded"})
"""Infrastructures that a worker process can host."""

CLAIM, START, STOP, REMOVE, RELEASE = "claim", "start", "stop", "remove", "release"

RUNNING, EXITED = "ProcessRunning", "ProcessExited"
NOT_STARTED, JOINED, ELSEWHERE = "NoWorkerProcesses", "JoinedFromElsewhere", "WrongNamespace"
NOT_PROVIDED, EXPELLED = "InfrastructureNotProvided", "Expelled"
TAKEN, IN_USE, MISSING = "DirectoryTaken", "DirectoryInUse", "DirectoryMissing"
SILENT = "SupervisorSilent"


@dataclass(frozen=True, slots=True)
class Said:
    status: str
    """Status of the Supervised condition; empty: there is no condition."""
    reason: str = ""
    message: str = ""


NOTHING = Said("")


@dataclass(frozen=True, slots=True)
class Decision:
    act: str = ""
    said: Said | None = None
    """None: the condition is left as it is."""
    again: float | None = None
    """Seconds after which to reconcile again if nothing changes."""
    steady: bool = False
    """Earlier failures no longer count."""


def claim_of(worker: Object) -> str:
    return str((worker["metadata"].get("annotations") or {}).get(fleet.SUPERVISOR) or "")


def may_be_leaving(worker: Object) -> bool:
    """True if the number of hosted clusters has to be known."""
    held = worker["metadata"].get("finalizers") or ()
    return bool(claim_of(worker)) and fleet.is_deleting(worker) and fleet.WORKER_FINALIZER not in held


def decide(worker: Object, place: str, here: Here, hosted: int | None, monotonic: float, left: float = 0.0) -> Decision:
    """`supervisor_id` is the id of this hub's worker processes, empty if it runs none. `cluster_count` is how many
    ManagedClusters the Worker has, None if not queried. `lease_remaining` is for how many seconds the hub that has
    claimed it still counts as alive.
    """
    claim = claim_of(worker)
    if not claim or not _is_at_home(worker):
        return _unclaimed(worker, place, here)
    leaves = may_be_leaving(worker) and hosted == 0
    if claim != place:
        if here.pid:
            return Decision(STOP)  # This hub was silent for too long, and another one has claimed it.
        return Decision(again=left) if left > 0 else _abandoned(worker, place, here, leaves)
    if leaves:
        return _leaving(here, worker["metadata"]["uid"])
    if joining.is_expelled(worker):
        return Decision(STOP if here.pid else "", Said("False", EXPELLED, "it was expelled: its process is not run"))
    if here.pid:
        left = here.since + STEADY_SECONDS - monotonic
        said = Said("True", RUNNING, f"process {here.pid} on {here.directory}")
        return Decision("", said, left if left > 0 else None, left <= 0)
    return _down(worker, here, monotonic)


def _unclaimed(worker: Object, place: str, here: Here) -> Decision:
    metadata, spec = worker["metadata"], fleet.spec_of(worker)
    name = metadata["name"]
    if spec.get("infrastructure", fleet.PROCESS) != fleet.PROCESS or fleet.is_deleting(worker):
        return Decision("", NOTHING)
    if not _is_at_home(worker):
        return _refused(ELSEWHERE, f"Workers are in the namespace {fleet.NAMESPACE}")
    if _has_joined(worker):
        why = "a worker that this hub did not start has joined by this name; its infrastructure is external"
        return _refused(JOINED, why)
    if not place:
        return _refused(NOT_STARTED, f"this hub runs no worker processes; run it yourself: shoal worker --name {name}")
    missing = sorted(set(spec.get("provides") or ()) - PROVIDES)
    if missing:
        return _refused(NOT_PROVIDED, f"a process provides {', '.join(sorted(PROVIDES))}, not {', '.join(missing)}")
    if here.owner is not None and here.owner != metadata["uid"]:
        why = f"{here.directory} holds the data of another worker; move it away, or choose another name"
        return Decision("", Said("False", TAKEN, why), LOOK_SECONDS)
    return Decision(CLAIM)


def _abandoned(worker: Object, place: str, here: Here, leaves: bool) -> Decision:
    """The hub that has claimed it is silent. Its data may still be there, unless there never was any."""
    if leaves:
        return Decision(RELEASE)
    if place and here.owner is None and not fleet.is_deleting(worker) and not _has_joined(worker):
        return Decision(CLAIM)
    why = f"the hub that runs it is silent ({fleet.SUPERVISOR}: {claim_of(worker)}); its data is there"
    return Decision("", Said("Unknown", SILENT, why), fleet.HEARTBEAT_SECONDS)


def _is_at_home(worker: Object) -> bool:
    """Processes are identified by name alone: a Worker of the same name in another namespace is unrelated."""
    return bool(worker["metadata"].get("namespace") == fleet.NAMESPACE)


def _has_joined(worker: Object) -> bool:
    return fleet.STORE in (worker["metadata"].get("annotations") or {})


def _refused(reason: str, message: str) -> Decision:
    return Decision("", Said("False", reason, message))


def _leaving(here: Here, uid: str) -> Decision:
    if here.pid:
        return Decision(STOP)
    if here.owner != uid:
        return Decision(RELEASE)  # The directory belongs to another Worker.
    return _in_use(here) if here.occupant else Decision(REMOVE)


def _down(worker: Object, here: Here, monotonic: float) -> Decision:
    metadata = worker["metadata"]
    if here.owner is None and _has_joined(worker):
        why = f"{here.directory} is gone, and with it what it hosted; bring it back, or delete the Worker"
        return Decision("", Said("False", MISSING, why), LOOK_SECONDS)
    if here.owner not in (None, metadata["uid"]):
        why = f"{here.directory} holds the data of another worker; move it away"
        return Decision("", Said("False", TAKEN, why), LOOK_SECONDS)
    if here.occupant:
        return _in_use(here)
    due = here.since + pause(here.failures)
    if here.failures and monotonic < due:
        return Decision("", Said("False", EXITED, f"{here.ended}; it is started again"), due - monotonic)
    return Decision(START)


def _in_use(here: Here) -> Decision:
    why = f"{here.directory} is in use by process {here.occupant}, which this hub did not start"
    return Decision("", Said("False", IN_USE, why), LOOK_SECONDS)


def pause(failures: int) -> float:
    """Seconds before the process is restarted."""
    return min(FIRST_PAUSE * float(2 ** min(failures - 1, 20)), LONGEST_PAUSE) if failures else 0.0


def failures_after(before: int, ran: float) -> int:
    """Returns the consecutive failures after a process that ran that long has exited by itself."""
    return 1 if ran >= STEADY_SECONDS else before + 1


def claimed(worker: Object, place: str) -> Object:
    """Returns the patch that claims the Worker; it conflicts if anything has changed."""
    metadata = worker["metadata"]
    held = [*(metadata.get("finalizers") or ())]
    finalizers = held if fleet.PROCESS_FINALIZER in held else [*held, fleet.PROCESS_FINALIZER]
    return _patch(metadata, {"annotations": {fleet.SUPERVISOR: place}, "finalizers": finalizers})


def released(worker: Object) -> Object:
    metadata = worker["metadata"]
    kept = [each for each in metadata.get("finalizers") or () if each != fleet.PROCESS_FINALIZER]
    return _patch(metadata, {"finalizers": kept})


def _patch(metadata: Object, changed: Object) -> Object:
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], **changed}}


def told(worker: Object, decision: Decision, now: str) -> Object | None:
    """Returns the status with the condition; None if it is current."""
    said = decision.said
    if said is None:
        return None
    after = remove_condition(worker, fleet.SUPERVISED)
    if said.status:
        what = {"reason": said.reason, "message": said.message}
        seen = worker["metadata"].get("generation")
        after = set_condition(worker, fleet.SUPERVISED, said.status, **what, observed_generation=seen, now=now)
    before = list(fleet.status_of(worker).get("errors") or ())
    errors = before
    if said.reason == EXITED:
        errors = fleet.errors_with(worker, said.reason, said.message, now)
    elif decision.steady:
        errors = [error for error in before if error["reason"] != EXITED]
    if errors != before:
        after = {**after, "status": {**fleet.status_of(after), "errors": errors}}
    return None if after is worker else fleet.status_of(after)
