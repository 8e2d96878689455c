"""Decides whether a single ManagedCluster has to leave a Worker that may otherwise keep what it has. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from shoal.fleet.migration.decide import REQUEST, REQUIREMENTS
from shoal.fleet.scheduler.candidate import candidate_of
from shoal.fleet.scheduler.filters import filter_location, filter_selector
from shoal.fleet.scheduler.requirements import requirements_of
from shoal.kinds.fleet import infrav1, migration
from shoal.kinds.fleet.move_request import MOVE_ANNOTATIONS, move_request
from shoal.objects.conditions import get_condition

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Relocation:
    reason: str = ""
    """The migration reason; empty: it stays."""
    to: str = ""
    """The Worker that was asked for; empty: any that fits."""
    mismatch: str = ""
    """What its Worker does not meet."""


STAYS = Relocation()


def relocation_of(managed: Object, worker: Object) -> Relocation:
    """`worker` is the one that it is on. Of its requirements, location and selector hold as long as it exists. The
    others decide only where it is placed next; taints with the effect NoExecute are in `eviction`.
    """
    if infrav1.is_deleting(managed):
        return STAYS
    request, requirements = move_request(managed), requirements_of(managed)
    if request.is_due:
        return Relocation(REQUEST, request.to)
    if requirements.selector_error:
        return STAYS
    candidate = candidate_of(worker)
    failure = filter_location(requirements, candidate) or filter_selector(requirements, candidate)
    if failure is None:
        return STAYS
    return Relocation(REQUIREMENTS, mismatch=f"worker {candidate.name} {failure.singular}")


def is_still_wanted(managed: Object, worker: Object) -> bool:
    """Reports whether the migration that is under way is what has to be done now."""
    relocation, move = relocation_of(managed, worker), migration.planned_migration(managed)
    return bool(relocation.reason) and relocation.to in ("", move.get("to"))


def relocation_inputs(managed: Object) -> Hashable:
    """Returns what the decision depends on, as far as it changes with the ManagedCluster."""
    metadata = managed["metadata"]
    annotations = metadata.get("annotations") or {}
    is_unusual = move_request(managed).is_made or get_condition(managed, infrav1.MOVABLE) is not None
    return (
        metadata.get("generation"),
        tuple(annotations.get(name) for name in MOVE_ANNOTATIONS),
        (get_condition(managed, infrav1.MOVING) or {}).get("status"),
        infrav1.assigned_worker(managed) if is_unusual else None,
    )
