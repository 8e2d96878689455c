"""Cluster of workload.kcp.dev, called workload Cluster here: names, labels, accessors. The CRD is in `crds/root`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from shoal.objects.conditions import condition_is

Object = dict[str, Any]

GROUP = "workload.kcp.dev"
VERSION = "v1alpha1"
KIND = "Cluster"
PLURAL = "clusters"

ASSIGNED = "workloads.kcp.dev/cluster"
"""Label of an object on the hub: the workload Cluster it is to be in."""
MANAGED = "shoal.dev/managedcluster"
"""Label of a workload Cluster: the ManagedCluster it stands for."""
PROBLEM = "workloads.kcp.dev/problem"
"""Annotation of an object on the hub: why it is not in its cluster."""
FORCE = "workloads.kcp.dev/force"
"""Annotation of an object on the hub: `true` lets the syncer take over an object it did not make."""
FINALIZER = "workloads.kcp.dev/syncer-"
"""Prefix of the finalizer of an object on the hub that may have a copy in a cluster."""

READY = "Ready"
HEARTBEAT_HEALTHY, IMPORTER_READY, SYNCER_READY = "HeartbeatHealthy", "APIImporterReady", "SyncerReady"
PARTS = (HEARTBEAT_HEALTHY, IMPORTER_READY, SYNCER_READY)
"""Ready sums these up."""

LONGEST_NAME = 63
"""Of a workload Cluster: it has to be a label's value."""


def name_for(namespace: str, name: str) -> str:
    """The workload Cluster of a ManagedCluster."""
    return name if namespace == "default" else f"{namespace}.{name}"


def managed_by_name(cluster: str) -> list[tuple[str, str]]:
    """The ManagedClusters, by namespace and name, whose workload Cluster has that name."""
    namespace, dot, name = cluster.partition(".")
    return [("default", cluster), *([(namespace, name)] if dot else [])]


def managed_value(namespace: str, name: str) -> str:
    """The value of the label `shoal.dev/managedcluster`."""
    return _within(f"{namespace}.{name}", 63)


def finalizer_of(cluster: str) -> str:
    return FINALIZER + _within(cluster, 63 - len("syncer-"))


def is_ready(cluster: Object) -> bool:
    return condition_is(cluster, READY)


def assigned_to(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(ASSIGNED, "")


def syncer_finalizers(obj: Object) -> list[str]:
    return [name for name in obj["metadata"].get("finalizers") or () if name.startswith(FINALIZER)]


def summary(cluster: Object, parts: Iterable[str] = PARTS) -> tuple[str, str, str]:
    """Status, reason and message of Ready: the first part that is not True says why not."""
    conditions = {c["type"]: c for c in (cluster.get("status") or {}).get("conditions") or ()}
    for part in parts:
        found = conditions.get(part)
        if found is None:
            return "False", "WorkloadClusterStatusUnknown", f"{part} is not known yet"
        if found["status"] != "True":
            return "False", str(found["reason"]), str(found.get("message", ""))
    return "True", "WorkloadClusterReady", ""


def _within(name: str, most: int) -> str:
    """The name, or its beginning and a digest where it is too long."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
