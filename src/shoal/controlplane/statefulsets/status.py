"""Status of a StatefulSet, computed from its pods. Pure."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.statefulsets.identity import replicas_of, revision_of
from shoal.kinds.core.pod.status import is_available, is_ready

Object = dict[str, Any]


def is_created(pod: Object) -> bool:
    """Returns whether the pod exists on the server."""
    return bool((pod.get("status") or {}).get("phase"))


def status_of(
    stateful_set: Object,
    pods: list[Object],
    current: Object,
    update: Object,
    collision_count: int,
    replaced_count: int,
    min_ready: int,
    now: float,
) -> Object:
    """As upstream. `replaced_count` pods are about to be deleted and no longer count as current."""
    created = [pod for pod in pods if is_created(pod)]
    ready = [pod for pod in created if pod["status"]["phase"] == "Running" and is_ready(pod)]
    revisions = [revision_of(pod) for pod in created if "deletionTimestamp" not in pod["metadata"]]
    old, new = current["metadata"]["name"], update["metadata"]["name"]
    updated = revisions.count(new)
    at_current = max(revisions.count(old) - replaced_count, 0)
    if _is_complete(stateful_set, len(created), len(ready), updated):
        old, at_current = new, updated
    before = stateful_set.get("status") or {}
    counts = {"readyReplicas": len(ready), "currentReplicas": at_current, "updatedReplicas": updated}
    return {
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
        "replicas": len(created),
        **{name: count for name, count in counts.items() if count},
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in ready),
        "currentRevision": old,
        "updateRevision": new,
        "collisionCount": collision_count,
        **({"conditions": before["conditions"]} if before.get("conditions") else {}),
    }


def _is_complete(stateful_set: Object, created: int, ready: int, updated: int) -> bool:
    """A rolling update is complete when every pod exists, is ready and is updated."""
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
    return rolling and created == ready == updated == replicas_of(stateful_set)
