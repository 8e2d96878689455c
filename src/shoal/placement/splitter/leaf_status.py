"""The statuses of leaves as far as they are known: a workload Cluster that does not report may run nothing. Pure.

`silent` are the names of such clusters. The last status of a leaf there counts as not ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds.workload.leaf import EVACUATED_ANNOTATION, leaf_replicas
from shoal.kinds.workload.workloadcluster import assigned_cluster

Object = dict[str, Any]

CLUSTERS_REPORTING = "ClustersReporting"
"""Condition of a root: False while a cluster with a leaf does not report; absent otherwise."""
CLUSTER_NOT_REPORTING = "WorkloadClusterNotReporting"
READY_COUNTS = frozenset({"readyReplicas", "availableReplicas", "numberReady", "numberAvailable", "ready"})
MAX_NAMED = 10


def is_silent(leaf: Object, silent: frozenset[str]) -> bool:
    return assigned_cluster(leaf) in silent


def is_pending(leaf: Object, silent: frozenset[str]) -> bool:
    """Whether the root waits for the leaf: not where the replicas of a silent cluster were placed elsewhere."""
    return not is_silent(leaf, silent) or leaf_replicas(leaf) != 0


def known_counts(leaf: Object, silent: frozenset[str]) -> dict[str, int]:
    """Counts such as `readyReplicas`, `numberAvailable`, `desiredNumberScheduled`; not generations. In a silent cluster
    nothing is ready, and no more than the leaf's share is counted.
    """
    counts = {
        name: value
        for name, value in (leaf.get("status") or {}).items()
        if isinstance(value, int) and not isinstance(value, bool) and "eneration" not in name
    }
    if not is_silent(leaf, silent):
        return counts
    share = leaf_replicas(leaf)
    if share is not None:
        counts = {name: min(value, share) for name, value in counts.items()}
    counts |= dict.fromkeys(READY_COUNTS & counts.keys(), 0)
    if "desiredNumberScheduled" in counts:
        counts["numberUnavailable"] = counts["desiredNumberScheduled"]
    return counts


def silence_message(leaves: Iterable[Object], silent: frozenset[str]) -> str:
    """Returns which clusters of the leaves do not report; empty: all report."""
    listed = [_silence_of(leaf) for leaf in leaves if is_silent(leaf, silent)]
    more = [f"and {len(listed) - MAX_NAMED} more"] if len(listed) > MAX_NAMED else []
    return "; ".join([*listed[:MAX_NAMED], *more])


def _silence_of(leaf: Object) -> str:
    cluster, share = assigned_cluster(leaf), leaf_replicas(leaf)
    if EVACUATED_ANNOTATION in (leaf["metadata"].get("annotations") or {}):
        return f"{cluster} does not report: its replicas were placed elsewhere, and may still run there"
    replicas = "" if share is None else f" of its {share} replicas"
    return f"{cluster} does not report: none{replicas} is counted as ready"
