"""Revisions of workloads on a hub: ReplicaSets of a Deployment, ControllerRevisions of a StatefulSet or DaemonSet.

No workload Cluster receives them, and no pod is made of them. Pure.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

HISTORY_LABEL = "placement.shoal.dev/history"
"""Label of a revision on the hub."""


def is_history(obj: Object) -> bool:
    return HISTORY_LABEL in (obj["metadata"].get("labels") or {})
