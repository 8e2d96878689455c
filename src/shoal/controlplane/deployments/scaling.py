"""Scales the ReplicaSets of a Deployment: stepwise in a rollout, proportionally when the Deployment is scaled.

Pure: each step changes the given draft and returns whether a size changed.
"""

from __future__ import annotations

import math
from typing import Any

from shoal.controlplane.deployments.sets import Sets, by_age
from shoal.kinds.deployments import DESIRED_REPLICAS, MAX_REPLICAS, is_rolling, max_surge, max_unavailable, replicas_of

Object = dict[str, Any]


def available(one: Object) -> int:
    return int((one.get("status") or {}).get("availableReplicas") or 0)


def noted(one: Object, annotation: str) -> int | None:
    text = (one["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() else None


def is_scaling(deployment: Object, sets: Sets) -> bool:
    """Returns whether the Deployment was scaled since its size was last recorded on the ReplicaSets."""
    said = (noted(one, DESIRED_REPLICAS) for one in sets.active)
    return any(size is not None and size != replicas_of(deployment) for size in said)


def first_size(deployment: Object, sets: Sets) -> int:
    """Returns the initial size of a new ReplicaSet, or the size it may grow to now."""
    replicas, size = replicas_of(deployment), replicas_of(sets.new) if sets.new is not None else 0
    if not is_rolling(deployment):
        return replicas
    room = replicas + max_surge(deployment) - sets.pods
    return size if room <= 0 else size + min(room, replicas - size)


def grow_new(deployment: Object, sets: Sets) -> bool:
    new, replicas = sets.new, replicas_of(deployment)
    if new is None or replicas_of(new) == replicas:
        return False
    return sets.scale(new, replicas if replicas_of(new) > replicas else first_size(deployment, sets))


def shrink_old(deployment: Object, sets: Sets) -> bool:
    """Removes unhealthy pods first: they are no loss. Then removes available pods above the minimum."""
    new, before = sets.new, sets.pods
    assert new is not None, "a rolling update makes the new ReplicaSet first"
    minimum = replicas_of(deployment) - max_unavailable(deployment)
    room = sets.pods - minimum - (replicas_of(new) - available(new))
    if room <= 0:
        return False
    for one in sets.old:
        broken = replicas_of(one) - available(one)
        if room > 0 and replicas_of(one) and broken > 0:
            cut = min(room, broken)
            sets.scale(one, replicas_of(one) - cut)
            room -= cut
    spare = sum(map(available, sets.all)) - minimum
    for one in sets.old:
        if spare > 0 and replicas_of(one):
            cut = min(replicas_of(one), spare)
            sets.scale(one, replicas_of(one) - cut)
            spare -= cut
    return sets.pods < before


def end_old(sets: Sets) -> bool:
    scaled = [sets.scale(one, 0) for one in sets.old]
    return any(scaled)


def are_old_pods_left(sets: Sets) -> bool:
    """Returns whether pods of another template may still run. Terminating pods count."""
    counts = ((one.get("status") or {}) for one in sets.old)
    return any((count.get("replicas") or 0) + (count.get("terminatingReplicas") or 0) for count in counts)


def scale(deployment: Object, sets: Sets) -> None:
    """Scales each ReplicaSet in proportion to its size, without advancing a rollout in progress."""
    replicas, new = replicas_of(deployment), sets.new
    only = _only(sets)
    if only is not None:
        sets.scale(only, replicas)
    elif new is not None and _is_saturated(new, replicas):
        end_old(sets)
    elif is_rolling(deployment):
        _in_proportion(deployment, sets)


def _only(sets: Sets) -> Object | None:
    """Returns the only ReplicaSet with pods; if none has pods, the new or else the latest. None if several have
    pods.
    """
    if len(sets.active) == 1:
        return sets.active[0]
    if sets.active:
        return None
    return sets.new or (sets.old[-1] if sets.old else None)


def _is_saturated(new: Object, replicas: int) -> bool:
    return replicas_of(new) == replicas == noted(new, DESIRED_REPLICAS) == available(new)


def _in_proportion(deployment: Object, sets: Sets) -> None:
    replicas = replicas_of(deployment)
    missing = (replicas + max_surge(deployment) if replicas else 0) - sets.pods
    active = sorted(sets.active, key=by_age, reverse=missing > 0)
    active.sort(key=replicas_of, reverse=True)
    sizes, added = [], 0
    for one in active:
        change = _share(deployment, one, missing, missing - added)
        sizes.append(replicas_of(one) + change)
        added += change
    sizes[0] = max(sizes[0] + missing - added, 0)
    for one, size in zip(active, sizes, strict=True):
        sets.scale(one, size, annotate=True)


def _share(deployment: Object, one: Object, missing: int, left: int) -> int:
    size, replicas = replicas_of(one), replicas_of(deployment)
    if not missing or not left:
        return 0
    if not replicas:
        share = -size
    else:
        before = noted(one, MAX_REPLICAS) or (deployment.get("status") or {}).get("replicas") or 0
        grown = size * (replicas + max_surge(deployment)) / before if before else size
        share = math.floor(grown + 0.5) - size
    return min(share, left) if missing > 0 else max(share, left)
