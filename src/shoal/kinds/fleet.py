"""ManagedCluster and Worker of infrastructure.cluster.x-k8s.io: names, and what is read from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
MANAGED_CLUSTER, WORKER = "ManagedCluster", "Worker"

NAMESPACE = "shoal-system"
"""Where Workers join, and where their Leases are."""
FINALIZER = "infrastructure.cluster.x-k8s.io/managedcluster"
"""Of a ManagedCluster: goes when its Worker says that nothing of it is left."""
STORE = "shoal.dev/store"
"""On a Worker: the id of the store it is of. Another store is another worker, whatever its name."""

PENDING, PROVISIONING, RUNNING, FAILED, TERMINATING = "Pending", "Provisioning", "Running", "Failed", "Terminating"
LOST = "Lost"
READY, SCHEDULED = "Ready", "Scheduled"
INFRASTRUCTURE_READY, NODES_READY = "InfrastructureReady", "NodesReady"

HEARTBEAT_SECONDS = 10.0
"""How often a worker renews its Lease."""
SILENCE_SECONDS = 40.0
"""How long it may be silent before it counts as lost."""

ERRORS = 10
"""The most a status keeps."""
CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
"""Cluster API's label for what belongs to a Cluster."""
CLUSTER_SECRET = "cluster.x-k8s.io/secret"
"""Cluster API's type of Secrets."""


def lease_name(worker: str) -> str:
    return f"worker-{worker}"


def worker_of_lease(name: str) -> str:
    """Empty: it is not a worker's."""
    return name.removeprefix("worker-") if name.startswith("worker-") else ""


def kubeconfig_secret(name: str) -> str:
    return f"{name}-kubeconfig"


def stable_path(namespace: str, name: str) -> str:
    """Where the hub serves the API of a ManagedCluster, wherever it is hosted."""
    return f"/managedclusters/{namespace}/{name}"


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def status_of(obj: Object) -> Object:
    found: Object = obj.get("status") or {}
    return found


def spec_of(obj: Object) -> Object:
    found: Object = obj.get("spec") or {}
    return found


def assigned_worker(managed: Object) -> str:
    """Empty: nobody hosts it."""
    return str(status_of(managed).get("assignedWorker") or "")


def epoch(managed: Object) -> int:
    return int(status_of(managed).get("epoch") or 0)


def has_finalizer(obj: Object) -> bool:
    return FINALIZER in (obj["metadata"].get("finalizers") or ())


def with_finalizer(obj: Object) -> Object:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER]}}


def without_finalizer(obj: Object) -> Object:
    metadata = obj["metadata"]
    kept = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != FINALIZER]
    return {**obj, "metadata": {**metadata, "finalizers": kept}}


def errors_now(obj: Object, said: Iterable[tuple[str, str]], now: str) -> list[Object]:
    """`status.errors` that say these (reason, message); one that was there already keeps its time."""
    since = {(error["reason"], error["message"]): error["time"] for error in status_of(obj).get("errors") or ()}
    return [{"time": since.get(one, now), "reason": one[0], "message": one[1]} for one in said][-ERRORS:]
