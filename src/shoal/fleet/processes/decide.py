"""What a hub does about the process of a Worker with infrastructure process, and what it says about it. Pure.

A Worker that nobody has joined as is claimed by one hub, with one compare-and-swap, for all of its life: its data is in
that hub's data directory. What it has stored is removed only once the Worker is being deleted and hosts nothing.
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
"""A process that has run so long is well: it begins anew at the first pause."""
LOOK_SECONDS = 1.0
"""Between looks at a directory that somebody else uses."""
PROVIDES = frozenset({"embedded"})
"""What a worker process can host."""

CLAIM, START, STOP, REMOVE, RELEASE = "claim", "start", "stop", "remove", "release"

RUNNING, EXITED = "ProcessRunning", "ProcessExited"
NOT_STARTED, JOINED, ELSEWHERE = "NoWorkerProcesses", "JoinedFromElsewhere", "WrongNamespace"
NOT_PROVIDED, EXPELLED = "InfrastructureNotProvided", "Expelled"
TAKEN, IN_USE, MISSING = "DirectoryTaken", "DirectoryInUse", "DirectoryMissing"
SILENT = "SupervisorSilent"


@dataclass(frozen=True, slots=True)
class Said:
    status: str
    """Of the condition Supervised; empty: there is none."""
    reason: str = ""
    message: str = ""


NOTHING = Said("")


@dataclass(frozen=True, slots=True)
class Decision:
    act: str = ""
    said: Said | None = None
    """None: the condition is left as it is."""
    again: float | None = None
    """Seconds after which to look again, if nothing is heard."""
    steady: bool = False
    """What went wrong before is over."""


def claim_of(worker: Object) -> str:
    return str((worker["metadata"].get("annotations") or {}).get(fleet.SUPERVISOR) or "")


def may_be_leaving(worker: Object) -> bool:
    """Whether it has to be known what it hosts."""
    held = worker["metadata"].get("finalizers") or ()
    return bool(claim_of(worker)) and fleet.is_deleting(worker) and fleet.WORKER_FINALIZER not in held


def decide(worker: Object, place: str, here: Here, hosted: int | None, monotonic: float, left: float = 0.0) -> Decision:
    """`place` is the id of this hub's worker processes, empty if it runs none. `hosted`: how many ManagedClusters the
    Worker has; None: that was not asked. `left`: for how many seconds the hub that has claimed it counts as there."""
    claim = claim_of(worker)
    if not claim or not _is_at_home(worker):
        return _unclaimed(worker, place, here)
    leaves = may_be_leaving(worker) and hosted == 0
    if claim != place:
        if here.pid:
            return Decision(STOP)  # this hub was silent for too long, and another has it now
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
    """The hub that has claimed it is silent: its data may be there all the same, unless there never was any."""
    if leaves:
        return Decision(RELEASE)
    if place and here.owner is None and not fleet.is_deleting(worker) and not _has_joined(worker):
        return Decision(CLAIM)
    why = f"the hub that runs it is silent ({fleet.SUPERVISOR}: {claim_of(worker)}); its data is there"
    return Decision("", Said("Unknown", SILENT, why), fleet.HEARTBEAT_SECONDS)


def _is_at_home(worker: Object) -> bool:
    """Processes go by their names alone: one of the same name elsewhere has nothing to do with them."""
    return bool(worker["metadata"].get("namespace") == fleet.NAMESPACE)


def _has_joined(worker: Object) -> bool:
    return fleet.STORE in (worker["metadata"].get("annotations") or {})


def _refused(reason: str, message: str) -> Decision:
    return Decision("", Said("False", reason, message))


def _leaving(here: Here, uid: str) -> Decision:
    if here.pid:
        return Decision(STOP)
    if here.owner != uid:
        return Decision(RELEASE)  # whoever's that directory is, it is not this one's
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
    """Before it is started again."""
    return min(FIRST_PAUSE * float(2 ** min(failures - 1, 20)), LONGEST_PAUSE) if failures else 0.0


def failures_after(before: int, ran: float) -> int:
    """In a row, when a process ends by itself that ran so long."""
    return 1 if ran >= STEADY_SECONDS else before + 1


def claimed(worker: Object, place: str) -> Object:
    """The patch that claims it; refused if anything of it has changed."""
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
    """The status that says so; None: it does already."""
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
