"""ManagedCluster and Worker of infrastructure.cluster.x-k8s.io: names, and what is read from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds import sizes

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

SPREAD_GROUP = "shoal.dev/spread-group"
"""On a ManagedCluster: those with the same value are spread over Workers and locations; without, a namespace's are."""
AUTO_WORKER = "shoal.dev/auto-worker"
"""On a Worker that the scheduler has asked for: a digest of what it is for."""
AUTO_WORKERS = "auto-workers"
"""The ConfigMap beside the Workers that says how many of those there may be; without it there are none."""
WORKER_NAME_LIMIT = 56

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


def cluster_of_secret(name: str) -> str:
    """The ManagedCluster whose kubeconfig a Secret of that name holds; empty: it has another name."""
    suffix = kubeconfig_secret("")
    return name.removesuffix(suffix) if name.endswith(suffix) else ""


def is_kubeconfig_of(secret: Object, cluster: str) -> bool:
    """Whether it was made for a ManagedCluster of that name: this one, or an earlier."""
    owners = secret["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") == MANAGED_CLUSTER and owner.get("name") == cluster for owner in owners)


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


def prepare_create(obj: Object) -> None:
    """Every ManagedCluster has the finalizer from its first moment on: giving it to a Worker is one write then."""
    if not has_finalizer(obj):
        obj["metadata"] = with_finalizer(obj)["metadata"]


def machines(managed: Object) -> list[tuple[sizes.Size, int]]:
    """The nodes it asks for by number, by their size; those bought for pending pods are not known beforehand."""
    return [(sizes.DEFAULT, int(spec_of(managed).get("nodes") or 0))]


def errors_now(obj: Object, said: Iterable[tuple[str, str]], now: str) -> list[Object]:
    """`status.errors` that say these (reason, message); one that was there already keeps its time."""
    since = {(error["reason"], error["message"]): error["time"] for error in status_of(obj).get("errors") or ()}
    return [{"time": since.get(one, now), "reason": one[0], "message": one[1]} for one in said][-ERRORS:]
