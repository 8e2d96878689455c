"""The launch of a NodeClaim, and the replicas and Machines of a MachineDeployment. Pure.

A launch goes from a NodeClaim without an offering to one that chose an offering, then to one that names its Machine,
and ends when the Machine has a providerID; `decide_launch` returns the next step. The Machine of a machine template is
created for the NodeClaim. Machines of a MachineDeployment are assigned to all its NodeClaims at once, by
`assign_machines`. Both read only annotations, so either may be interrupted anywhere.

Replicas are derived, never incremented: as many as NodeClaims need. So a repeated or interrupted step converges to the
same state. Only marked Machines are scaled away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.clusterapi.capi import DELETE_MACHINE, SET_NAME, labels_of
from shoal.kinds.karpenter.karpenter import (
    MACHINE_ANNOTATION,
    MACHINE_DEPLOYMENT_ANNOTATION,
    MACHINE_TEMPLATE_ANNOTATION,
    NODE_CLAIM_ANNOTATION,
    NODE_CLAIM_UID_ANNOTATION,
    annotation_of,
    is_deleting,
)
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time
from shoal.provision.clusterapi.nodegroups import full_name, is_template_offering, max_size, min_size

Object = dict[str, Any]

UNCLAIMED_SECONDS = 60.0
"""Time that an unclaimed Machine is kept for another NodeClaim."""
MARKED_DELETE_SECONDS = 30.0
"""Time that a marked Machine waits for replicas to go down before it is deleted directly."""


@dataclass(frozen=True, slots=True)
class LaunchSnapshot:
    claim: Object
    machine: Object | None
    """The Machine that the NodeClaim names. None: it is gone, or none is named yet."""
    rejection: str
    """Why the MachineDeployment does not admit the NodeClaim; empty: it does, or has not decided yet."""
    has_node_group: bool
    """The chosen offering still exists."""


@dataclass(frozen=True, slots=True)
class ChooseOffering:
    pass


@dataclass(frozen=True, slots=True)
class CreateMachine:
    offering: str


@dataclass(frozen=True, slots=True)
class WaitForMachine:
    message: str


@dataclass(frozen=True, slots=True)
class FailLaunch:
    message: str


@dataclass(frozen=True, slots=True)
class FinishLaunch:
    machine: Object


LaunchStep = ChooseOffering | CreateMachine | WaitForMachine | FailLaunch | FinishLaunch


def decide_launch(snapshot: LaunchSnapshot) -> LaunchStep:
    claim, machine = snapshot.claim, snapshot.machine
    name, offering = annotation_of(claim, MACHINE_ANNOTATION), chosen_offering(claim)
    if name:
        if machine is None or is_deleting(machine):
            return FailLaunch(f"Machine {name} was deleted")
        if not (machine.get("spec") or {}).get("providerID"):
            return WaitForMachine(f"waiting for the providerID of Machine {name}")
        return FinishLaunch(machine)
    if snapshot.rejection:
        return FailLaunch(snapshot.rejection)
    if not offering:
        return ChooseOffering()
    if is_template_offering(offering):
        return CreateMachine(offering)
    if not snapshot.has_node_group:
        return FailLaunch(f"MachineDeployment {offering} is no longer selected")
    return WaitForMachine(f"waiting for a Machine of MachineDeployment {offering}")


def chosen_offering(claim: Object) -> str:
    """Name of the offering chosen for a NodeClaim."""
    return annotation_of(claim, MACHINE_DEPLOYMENT_ANNOTATION) or annotation_of(claim, MACHINE_TEMPLATE_ANNOTATION)


@dataclass(frozen=True, slots=True)
class MachineAssignment:
    bind: tuple[tuple[Object, Object], ...] = ()
    """Machine and its NodeClaim. Includes pairs whose NodeClaim does not name the Machine yet."""
    mark: tuple[Object, ...] = ()
    """Machines to select for deletion when replicas go down."""
    orphans: tuple[Object, ...] = ()
    """Machines of `mark` whose NodeClaim was not found. The server must confirm it before they are marked."""
    delete: tuple[Object, ...] = ()
    """Marked Machines that scaling down will not remove: replicas are at the minimum or cannot go down now."""
    reject: tuple[Object, ...] = ()
    """NodeClaims beyond the maximum size."""
    replicas: int | None = None
    """None: unchanged."""
    requeue_after: float | None = None
    """Seconds until a Machine has been unclaimed, or marked, for long enough."""


@dataclass(slots=True)
class _SortedMachines:
    """Machines and NodeClaims of one MachineDeployment."""

    assigned: int = 0
    """NodeClaims that have a Machine."""
    staying: int = 0
    """Machines that are not being deleted."""
    unrecorded: list[tuple[Object, Object]] = field(default_factory=list)
    unassigned: list[Object] = field(default_factory=list)
    free: list[Object] = field(default_factory=list)
    marked: list[Object] = field(default_factory=list)
    sets: set[str] = field(default_factory=set)
    """MachineSets of the Machines that are not being deleted."""
    newest_set: str = ""
    orphans: list[Object] = field(default_factory=list)


def assign_machines(
    deployment: Object, machines: Iterable[Object], claims: Iterable[Object], now: float
) -> MachineAssignment:
    """`claims`: NodeClaims that chose this MachineDeployment.

    Replicas go down only while no Machine is starting, and only by the number of marked Machines: an unseen new Machine
    would be scaled away unmarked, or instead of a marked one. While a rollout leaves Machines in several MachineSets,
    replicas do not go down at all, because the oldest MachineSet would shrink regardless of marks. Then marked Machines
    are deleted directly, and their replacements serve the next NodeClaim or wait for the end of the rollout.
    """
    machines_sorted = _sort_machines(machines, claims)
    max_replicas, min_replicas = max_size(deployment), min_size(deployment)
    remaining = (
        len(machines_sorted.unassigned) if max_replicas is None else max(0, max_replicas - machines_sorted.assigned)
    )
    admitted, rejected = machines_sorted.unassigned[:remaining], machines_sorted.unassigned[remaining:]
    binds = list(zip(machines_sorted.free, admitted, strict=False))
    target = max(machines_sorted.assigned + len(admitted), min_replicas)
    replicas = (deployment.get("spec") or {}).get("replicas", 1)
    spares = [(UNCLAIMED_SECONDS - _age(machine, now), machine) for machine in machines_sorted.free[len(binds) :]]
    expired = [machine for left, machine in spares if left <= 0]
    marking = list(machines_sorted.orphans)
    new_replicas, has_several_sets = max(replicas, target), len(machines_sorted.sets) > 1
    if has_several_sets:
        marking += [machine for machine in expired if _is_outdated(machine, machines_sorted.newest_set)]
    elif replicas > target and machines_sorted.staying >= replicas:
        marking += expired[: max(0, machines_sorted.staying - target - len(machines_sorted.marked) - len(marking))]
        new_replicas = min(replicas, max(target, machines_sorted.staying - len(machines_sorted.marked) - len(marking)))
    not_scaled_away = machines_sorted.marked[
        0 if has_several_sets else max(0, machines_sorted.staying - new_replicas) :
    ]
    marked_waits = [(MARKED_DELETE_SECONDS - _marked_for(machine, now), machine) for machine in not_scaled_away]
    waiting = [left for left, _ in (*spares, *marked_waits) if left > 0] if replicas > target else []
    return MachineAssignment(
        bind=(*machines_sorted.unrecorded, *binds),
        mark=tuple(marking),
        orphans=tuple(machine for machine in marking if annotation_of(machine, NODE_CLAIM_ANNOTATION)),
        delete=tuple(machine for left, machine in marked_waits if left <= 0 or replicas <= target or has_several_sets),
        reject=tuple(rejected),
        replicas=new_replicas if new_replicas != replicas else None,
        requeue_after=min(waiting, default=None),
    )


def is_marked_for_deletion(machine: Object) -> bool:
    return DELETE_MACHINE in (machine["metadata"].get("annotations") or {})


def is_claimed_by(machine: Object, claim: Object) -> bool:
    name, uid = annotation_of(machine, NODE_CLAIM_ANNOTATION), annotation_of(machine, NODE_CLAIM_UID_ANNOTATION)
    return (name, uid) == (claim["metadata"]["name"], claim["metadata"]["uid"])


def needs_machine(claim: Object, machine: Object | None) -> bool:
    """True if the NodeClaim needs a Machine: one of its own that stays, or one still to come."""
    if machine is not None:
        return not is_deleting(machine) and not is_marked_for_deletion(machine)
    return not is_deleting(claim) and not annotation_of(claim, MACHINE_ANNOTATION)


def _sort_machines(machines: Iterable[Object], claims: Iterable[Object]) -> _SortedMachines:
    by_name = {full_name(machine): machine for machine in machines}
    by_owner = {annotation_of(machine, NODE_CLAIM_UID_ANNOTATION): machine for machine in by_name.values()}
    result, assigned_names = _SortedMachines(), set()
    for claim in sorted(claims, key=_age_order):
        machine = by_owner.get(claim["metadata"]["uid"])
        if machine is not None:
            assigned_names.add(full_name(machine))
        if not needs_machine(claim, machine):
            continue
        if machine is None:
            result.unassigned.append(claim)
            continue
        result.assigned += 1
        if not annotation_of(claim, MACHINE_ANNOTATION):
            result.unrecorded.append((machine, claim))
    for name, machine in sorted(by_name.items(), key=lambda each: _age_order(each[1])):
        if is_deleting(machine):
            continue
        result.staying += 1
        result.newest_set = labels_of(machine).get(SET_NAME, "")
        result.sets.add(result.newest_set)
        if is_marked_for_deletion(machine):
            result.marked.append(machine)
        elif name not in assigned_names:
            (result.orphans if annotation_of(machine, NODE_CLAIM_ANNOTATION) else result.free).append(machine)
    result.free.sort(key=lambda machine: _is_outdated(machine, result.newest_set))
    return result


def unowned_claimed_machines(machines: Iterable[Object], claims: Iterable[Object]) -> tuple[list[Object], list[Object]]:
    """Of claimed Machines without a member MachineDeployment: those to delete, and those to delete after the server
    confirms that their NodeClaim is gone. Unclaimed Machines are ignored.
    """
    claim_uids = {claim["metadata"]["uid"] for claim in claims}
    owned = [each for each in machines if annotation_of(each, NODE_CLAIM_ANNOTATION) and not is_deleting(each)]
    unclaimed = [each for each in owned if annotation_of(each, NODE_CLAIM_UID_ANNOTATION) not in claim_uids]
    return [each for each in owned if is_marked_for_deletion(each)], [
        each for each in unclaimed if not is_marked_for_deletion(each)
    ]


def _is_outdated(machine: Object, newest: str) -> bool:
    """True if the UpToDate condition is False, or is not set and the Machine is not of the newest MachineSet."""
    up_to_date = (get_condition(machine, "UpToDate") or {}).get("status")
    return up_to_date == "False" or (up_to_date != "True" and labels_of(machine).get(SET_NAME, "") != newest)


def _marked_for(machine: Object, now: float) -> float:
    """Seconds since the mark. A mark without a time counts as expired."""
    since = parse_time(annotation_of(machine, DELETE_MACHINE))
    return now - since if since is not None else MARKED_DELETE_SECONDS


def _age(obj: Object, now: float) -> float:
    created = parse_time(obj["metadata"].get("creationTimestamp"))
    return now - created if created is not None else 0.0


def _age_order(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]
