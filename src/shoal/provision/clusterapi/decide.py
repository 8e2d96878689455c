"""Desired replicas of a MachineDeployment and assignment of its Machines to NodeClaims. Pure.

Replicas are derived, never incremented: as many as NodeClaims need. So a repeated or interrupted step converges to the
same state. Only marked Machines are scaled away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.capi import DELETE_MACHINE, SET_NAME, labels_of
from shoal.kinds.karpenter import CLAIMED_BY, CLAIMED_BY_UID, MACHINE, annotation, is_going
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time
from shoal.provision.clusterapi.sellers import full_name, max_size, min_size

Object = dict[str, Any]

SPARE_SECONDS = 60.0
"""Time that an unclaimed Machine is kept for another NodeClaim."""
MARKED_SECONDS = 30.0
"""Time that a marked Machine waits for replicas to go down before it is deleted directly."""


@dataclass(frozen=True, slots=True)
class Settlement:
    bind: tuple[tuple[Object, Object], ...] = ()
    """Machine and its NodeClaim. Includes pairs whose NodeClaim does not name the Machine yet."""
    mark: tuple[Object, ...] = ()
    """Machines to select for deletion when replicas go down."""
    orphans: tuple[Object, ...] = ()
    """Machines of `mark` whose NodeClaim was not found. The server must confirm it before they are marked."""
    delete: tuple[Object, ...] = ()
    """Marked Machines that scaling down will not remove: replicas are at the minimum or cannot go down now."""
    refuse: tuple[Object, ...] = ()
    """NodeClaims beyond the maximum size."""
    replicas: int | None = None
    """None: unchanged."""
    again: float | None = None
    """Seconds until a Machine has been unclaimed, or marked, for long enough."""


@dataclass(slots=True)
class _Sorted:
    """Machines and NodeClaims of one MachineDeployment."""

    settled: int = 0
    """NodeClaims that have a Machine."""
    staying: int = 0
    """Machines that are not being deleted."""
    told: list[tuple[Object, Object]] = field(default_factory=list)
    wanting: list[Object] = field(default_factory=list)
    free: list[Object] = field(default_factory=list)
    marked: list[Object] = field(default_factory=list)
    sets: set[str] = field(default_factory=set)
    """MachineSets of the Machines that are not being deleted."""
    newest: str = ""
    orphans: list[Object] = field(default_factory=list)


def settle(deployment: Object, machines: Iterable[Object], claims: Iterable[Object], now: float) -> Settlement:
    """`claims`: NodeClaims that chose this MachineDeployment.

    Replicas go down only while no Machine is starting, and only by the number of marked Machines: an unseen new Machine
    would be scaled away unmarked, or instead of a marked one. While a rollout leaves Machines in several MachineSets,
    replicas do not go down at all, because the oldest MachineSet would shrink regardless of marks. Then marked Machines
    are deleted directly, and their replacements serve the next NodeClaim or wait for the end of the rollout.
    """
    found = _sort(machines, claims)
    most, least = max_size(deployment), min_size(deployment)
    room = len(found.wanting) if most is None else max(0, most - found.settled)
    wanting, refused = found.wanting[:room], found.wanting[room:]
    binds = list(zip(found.free, wanting, strict=False))
    target = max(found.settled + len(wanting), least)
    replicas = (deployment.get("spec") or {}).get("replicas", 1)
    spares = [(SPARE_SECONDS - _age(machine, now), machine) for machine in found.free[len(binds) :]]
    old = [machine for left, machine in spares if left <= 0]
    going = list(found.orphans)
    wanted, mixed = max(replicas, target), len(found.sets) > 1
    if mixed:
        going += [machine for machine in old if _is_outdated(machine, found.newest)]
    elif replicas > target and found.staying >= replicas:
        going += old[: max(0, found.staying - target - len(found.marked) - len(going))]
        wanted = min(replicas, max(target, found.staying - len(found.marked) - len(going)))
    unscaled = found.marked[0 if mixed else max(0, found.staying - wanted) :]
    late = [(MARKED_SECONDS - _marked_for(machine, now), machine) for machine in unscaled]
    waiting = [left for left, _ in (*spares, *late) if left > 0] if replicas > target else []
    return Settlement(
        bind=(*found.told, *binds),
        mark=tuple(going),
        orphans=tuple(machine for machine in going if annotation(machine, CLAIMED_BY)),
        delete=tuple(machine for left, machine in late if left <= 0 or replicas <= target or mixed),
        refuse=tuple(refused),
        replicas=wanted if wanted != replicas else None,
        again=min(waiting, default=None),
    )


def is_marked(machine: Object) -> bool:
    return DELETE_MACHINE in (machine["metadata"].get("annotations") or {})


def is_claimed_by(machine: Object, claim: Object) -> bool:
    name, uid = annotation(machine, CLAIMED_BY), annotation(machine, CLAIMED_BY_UID)
    return (name, uid) == (claim["metadata"]["name"], claim["metadata"]["uid"])


def lives_on(claim: Object, machine: Object | None) -> bool:
    """True if the NodeClaim needs a Machine: one of its own that stays, or one still to come."""
    if machine is not None:
        return not is_going(machine) and not is_marked(machine)
    return not is_going(claim) and not annotation(claim, MACHINE)


def _sort(machines: Iterable[Object], claims: Iterable[Object]) -> _Sorted:
    by_name = {full_name(machine): machine for machine in machines}
    by_owner = {annotation(machine, CLAIMED_BY_UID): machine for machine in by_name.values()}
    found, taken = _Sorted(), set()
    for claim in sorted(claims, key=_age_order):
        machine = by_owner.get(claim["metadata"]["uid"])
        if machine is not None:
            taken.add(full_name(machine))
        if not lives_on(claim, machine):
            continue
        if machine is None:
            found.wanting.append(claim)
            continue
        found.settled += 1
        if not annotation(claim, MACHINE):
            found.told.append((machine, claim))
    for name, machine in sorted(by_name.items(), key=lambda each: _age_order(each[1])):
        if is_going(machine):
            continue
        found.staying += 1
        found.newest = labels_of(machine).get(SET_NAME, "")
        found.sets.add(found.newest)
        if is_marked(machine):
            found.marked.append(machine)
        elif name not in taken:
            (found.orphans if annotation(machine, CLAIMED_BY) else found.free).append(machine)
    found.free.sort(key=lambda machine: _is_outdated(machine, found.newest))
    return found


def strays(machines: Iterable[Object], claims: Iterable[Object]) -> tuple[list[Object], list[Object]]:
    """Of claimed Machines without a member MachineDeployment: those to delete, and those to delete after the server
    confirms that their NodeClaim is gone. Unclaimed Machines are ignored.
    """
    living = {claim["metadata"]["uid"] for claim in claims}
    owned = [each for each in machines if annotation(each, CLAIMED_BY) and not is_going(each)]
    unclaimed = [each for each in owned if annotation(each, CLAIMED_BY_UID) not in living]
    return [each for each in owned if is_marked(each)], [each for each in unclaimed if not is_marked(each)]


def _is_outdated(machine: Object, newest: str) -> bool:
    """True if the UpToDate condition is False, or is not set and the Machine is not of the newest MachineSet."""
    said = (get_condition(machine, "UpToDate") or {}).get("status")
    return said == "False" or (said != "True" and labels_of(machine).get(SET_NAME, "") != newest)


def _marked_for(machine: Object, now: float) -> float:
    """Seconds since the mark. A mark without a time counts as expired."""
    since = parse_time(annotation(machine, DELETE_MACHINE))
    return now - since if since is not None else MARKED_SECONDS


def _age(obj: Object, now: float) -> float:
    created = parse_time(obj["metadata"].get("creationTimestamp"))
    return now - created if created is not None else 0.0


def _age_order(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]
