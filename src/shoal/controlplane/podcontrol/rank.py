"""Ranks pods for deletion: those whose loss costs least go first. Pure.

Ages are compared on a logarithmic scale, as upstream does. Among pods of about the same age the choice is spread by uid
instead of always hitting the newest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from shoal.kinds.core.pod.pods import DELETION_COST_ANNOTATION
from shoal.kinds.core.pod.status import is_active, is_ready, ready_since
from shoal.objects.duration import parse_time

Object = dict[str, Any]

_PHASE_RANKS = {"Pending": 0, "Unknown": 1, "Running": 2}


def pods_to_delete(pods: list[Object], related: Iterable[Object], count: int, now: float) -> list[Object]:
    """Returns `count` of the pods. `related` are the pods of all owners with the same controller: the more of them are
    on a node, the sooner a pod there is deleted.
    """
    if count >= len(pods):
        return pods
    pods_per_node = Counter(pod["spec"].get("nodeName") or "" for pod in related if is_active(pod))
    return sorted(pods, key=lambda pod: _deletion_rank(pod, pods_per_node, now))[:count]


def _deletion_rank(pod: Object, pods_per_node: Counter[str], now: float) -> tuple[Any, ...]:
    node = pod["spec"].get("nodeName") or ""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ready = is_ready(pod)
    return (
        bool(node),
        _PHASE_RANKS.get(status.get("phase", ""), 0),
        ready,
        _deletion_cost(metadata),
        -pods_per_node[node],
        _log_age(ready_since(pod), now) if ready else 0,
        -_max_restarts(status.get("containerStatuses")),
        -_max_restarts(status.get("initContainerStatuses")),
        _log_age(parse_time(metadata.get("creationTimestamp")), now),
        metadata["uid"],
    )


def _deletion_cost(metadata: Object) -> int:
    try:
        return int((metadata.get("annotations") or {}).get(DELETION_COST_ANNOTATION, 0))
    except ValueError:
        return 0


def _log_age(since: float | None, now: float) -> int:
    """Returns log2 of the age in nanoseconds. An unknown time counts as youngest."""
    if since is None:
        return -2
    return int(math.log2((now - since) * 1e9)) if now > since else -1


def _max_restarts(containers: list[Object] | None) -> int:
    return max((container.get("restartCount") or 0 for container in containers or ()), default=0)
