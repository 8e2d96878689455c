"""Decides the next step of a Deployment from its spec and its ReplicaSets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.controlplane.deployments import scaling, status
from shoal.controlplane.deployments.sets import Sets
from shoal.kinds.deployments import REVISION, UNLIMITED, is_rolling, replicas_of, revision_of, with_condition

Object = dict[str, Any]

CREATE_ERROR = "ReplicaSetCreateError"


@dataclass(frozen=True, slots=True)
class Decision:
    """Status and annotations (the revision) are written after the ReplicaSets."""

    status: Object
    annotations: Object
    create: Object | None = None
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    later: float | None = None


def decide(deployment: Object, found: list[Object], now: float, stamp: str) -> Decision:
    """`replica_sets` are those it controls; `now_rfc3339` is `now` as text."""
    sets = Sets(deployment, found)
    conditions: list[Object] = (deployment.get("status") or {}).get("conditions") or []
    if "deletionTimestamp" in deployment["metadata"]:
        said = status.counted(deployment, sets, conditions, stamp)
        return Decision(said, deployment["metadata"].get("annotations") or {})
    conditions = status.note_pause(deployment, conditions, stamp)
    sets.renew()
    outdated: tuple[Object, ...] = ()
    if deployment["spec"].get("paused") or scaling.is_scaling(deployment, sets):
        scaling.scale(deployment, sets)
        if deployment["spec"].get("paused"):
            outdated = _outdated(deployment, sets)
        said = status.counted(deployment, sets, conditions, stamp)
    else:
        if not _rolled(deployment, sets) and status.is_complete(deployment, deployment.get("status") or {}):
            outdated = _outdated(deployment, sets)
        said = status.judged(deployment, sets, conditions, now, stamp)
    return Decision(
        said,
        _annotations(deployment, sets),
        create=sets.new if sets.created else None,
        update=tuple(sets.changed()),
        delete=outdated,
        later=status.next_check(deployment, said, now),
    )


def collided(deployment: Object) -> Object:
    """Returns the status after a name collision of the new ReplicaSet: the next attempt gets another hash."""
    before = deployment.get("status") or {}
    return {**before, "collisionCount": (before.get("collisionCount") or 0) + 1}


def failure_to_create(name: str, error: Exception) -> str:
    return f'Failed to create new replica set "{name}": {error}'


def refused(deployment: Object, name: str, error: Exception, stamp: str) -> Object:
    """Returns the status after the new ReplicaSet could not be created."""
    before: Object = deployment.get("status") or {}
    if status.deadline_of(deployment) is None:
        return before
    message, conditions = failure_to_create(name, error), before.get("conditions") or []
    made = with_condition(conditions, status.PROGRESSING, "False", CREATE_ERROR, message, stamp)
    return {**before, "conditions": made}


def _rolled(deployment: Object, sets: Sets) -> bool:
    """Performs one rollout step. Returns whether a size changed."""
    if is_rolling(deployment):
        if sets.new is None:
            sets.create(scaling.first_size(deployment, sets))
        return scaling.grow_new(deployment, sets) or scaling.shrink_old(deployment, sets)
    if scaling.end_old(sets):
        return True
    if scaling.are_old_pods_left(sets):
        return True  # Recreate never runs two templates at once
    if sets.new is None:
        sets.create(replicas_of(deployment))
        return False
    return scaling.grow_new(deployment, sets)


def _outdated(deployment: Object, sets: Sets) -> tuple[Object, ...]:
    """Returns ReplicaSets over the history limit; never one that has or may have pods."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == UNLIMITED:
        return ()
    kept = [one for one in sets.old if "deletionTimestamp" not in one["metadata"]]
    oldest = sorted(kept, key=revision_of)[: max(len(kept) - limit, 0)]
    return tuple(one for one in oldest if _is_idle(one))


def _is_idle(one: Object) -> bool:
    said = one.get("status") or {}
    observed = (said.get("observedGeneration") or 0) >= one["metadata"].get("generation", 0)
    return bool(observed and not said.get("replicas") and not replicas_of(one))


def _annotations(deployment: Object, sets: Sets) -> Object:
    annotations: Object = deployment["metadata"].get("annotations") or {}
    revision = (sets.new["metadata"].get("annotations") or {}).get(REVISION) if sets.new is not None else None
    return {**annotations, REVISION: revision} if revision else annotations
