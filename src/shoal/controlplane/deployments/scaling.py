"""Scales the ReplicaSets of a Deployment: stepwise in a rollout, proportionally when the Deployment is scaled.

Pure: each step changes the given draft and returns whether a size changed.
"""

from __future__ import annotations

import math
from typing import Any

from shoal.kinds.apps.deployment import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    is_rolling,
    max_surge,
    max_unavailable,
    replicas_of,
)
from shoal.kinds.apps.replicaset_draft import ReplicaSetDraft, age_key

Object = dict[str, Any]


def available_replicas(replica_set: Object) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas") or 0)


def int_annotation(replica_set: Object, annotation: str) -> int | None:
    text = (replica_set["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() else None


def is_scaling_event(deployment: Object, draft: ReplicaSetDraft) -> bool:
    """Returns whether the Deployment was scaled since its size was last recorded on the ReplicaSets."""
    recorded_sizes = (int_annotation(one, DESIRED_REPLICAS) for one in draft.active)
    return any(size is not None and size != replicas_of(deployment) for size in recorded_sizes)


def new_rs_replicas(deployment: Object, draft: ReplicaSetDraft) -> int:
    """Returns the initial size of a new ReplicaSet, or the size it may grow to now."""
    replicas, size = replicas_of(deployment), replicas_of(draft.new) if draft.new is not None else 0
    if not is_rolling(deployment):
        return replicas
    room = replicas + max_surge(deployment) - draft.total_replicas
    return size if room <= 0 else size + min(room, replicas - size)


def reconcile_new_rs(deployment: Object, draft: ReplicaSetDraft) -> bool:
    new, replicas = draft.new, replicas_of(deployment)
    if new is None or replicas_of(new) == replicas:
        return False
    return draft.scale(new, replicas if replicas_of(new) > replicas else new_rs_replicas(deployment, draft))


def reconcile_old_rs(deployment: Object, draft: ReplicaSetDraft) -> bool:
    """Removes unhealthy pods first: they are no loss. Then removes available pods above the minimum."""
    new, before = draft.new, draft.total_replicas
    assert new is not None, "a rolling update makes the new ReplicaSet first"
    minimum = replicas_of(deployment) - max_unavailable(deployment)
    room = draft.total_replicas - minimum - (replicas_of(new) - available_replicas(new))
    if room <= 0:
        return False
    for one in draft.old:
        unhealthy = replicas_of(one) - available_replicas(one)
        if room > 0 and replicas_of(one) and unhealthy > 0:
            cut = min(room, unhealthy)
            draft.scale(one, replicas_of(one) - cut)
            room -= cut
    spare = sum(map(available_replicas, draft.all)) - minimum
    for one in draft.old:
        if spare > 0 and replicas_of(one):
            cut = min(replicas_of(one), spare)
            draft.scale(one, replicas_of(one) - cut)
            spare -= cut
    return draft.total_replicas < before


def scale_down_old(draft: ReplicaSetDraft) -> bool:
    scaled = [draft.scale(one, 0) for one in draft.old]
    return any(scaled)


def old_pods_running(draft: ReplicaSetDraft) -> bool:
    """Returns whether pods of another template may still run. Terminating pods count."""
    counts = ((one.get("status") or {}) for one in draft.old)
    return any((count.get("replicas") or 0) + (count.get("terminatingReplicas") or 0) for count in counts)


def scale(deployment: Object, draft: ReplicaSetDraft) -> None:
    """Scales each ReplicaSet in proportion to its size, without advancing a rollout in progress."""
    replicas, new = replicas_of(deployment), draft.new
    active_or_latest = _active_or_latest(draft)
    if active_or_latest is not None:
        draft.scale(active_or_latest, replicas)
    elif new is not None and _is_saturated(new, replicas):
        scale_down_old(draft)
    elif is_rolling(deployment):
        _scale_proportionally(deployment, draft)


def _active_or_latest(draft: ReplicaSetDraft) -> Object | None:
    """Returns the only ReplicaSet with pods; if none has pods, the new or else the latest. None if several have
    pods.
    """
    if len(draft.active) == 1:
        return draft.active[0]
    if draft.active:
        return None
    return draft.new or (draft.old[-1] if draft.old else None)


def _is_saturated(new: Object, replicas: int) -> bool:
    return replicas_of(new) == replicas == int_annotation(new, DESIRED_REPLICAS) == available_replicas(new)


def _scale_proportionally(deployment: Object, draft: ReplicaSetDraft) -> None:
    replicas = replicas_of(deployment)
    replicas_to_add = (replicas + max_surge(deployment) if replicas else 0) - draft.total_replicas
    active = sorted(draft.active, key=age_key, reverse=replicas_to_add > 0)
    active.sort(key=replicas_of, reverse=True)
    sizes, added = [], 0
    for one in active:
        change = _proportion(deployment, one, replicas_to_add, replicas_to_add - added)
        sizes.append(replicas_of(one) + change)
        added += change
    sizes[0] = max(sizes[0] + replicas_to_add - added, 0)
    for one, size in zip(active, sizes, strict=True):
        draft.scale(one, size, annotate=True)


def _proportion(deployment: Object, replica_set: Object, replicas_to_add: int, left: int) -> int:
    size, replicas = replicas_of(replica_set), replicas_of(deployment)
    if not replicas_to_add or not left:
        return 0
    if not replicas:
        share = -size
    else:
        before = int_annotation(replica_set, MAX_REPLICAS) or (deployment.get("status") or {}).get("replicas") or 0
        scaled = size * (replicas + max_surge(deployment)) / before if before else size
        share = math.floor(scaled + 0.5) - size
    return min(share, left) if replicas_to_add > 0 else max(share, left)
