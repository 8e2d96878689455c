"""ManagedCluster and Worker of infrastructure.cluster.x-k8s.io: names, accessors and strategies. Pure.

Named after the import alias of Cluster API providers for their infrastructure API.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from shoal.kinds.clusterapi import machine_sizes
from shoal.kinds.fleet import nodepools
from shoal.kinds.fleet.keys import validate_keys
from shoal.kinds.fleet.kindhosting import validate_infrastructure
from shoal.kinds.limits import validate_limits
from shoal.kinds.strategy import CUSTOM_STRATEGY, Strategy
from shoal.kinds.versions import validate_hosted_version
from shoal.objects.conditions import get_condition
from shoal.objects.errors import Cause, forbidden_field, required_value

Object = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
MANAGED_CLUSTER, WORKER = "ManagedCluster", "Worker"

NAMESPACE = "shoal-system"
"""The namespace of Workers and their Leases."""
MANAGED_CLUSTER_FINALIZER = "infrastructure.cluster.x-k8s.io/managedcluster"
"""Finalizer of a ManagedCluster. Removed when its Worker reports that nothing of it is left."""
WORKER_FINALIZER = "infrastructure.cluster.x-k8s.io/worker"
"""Finalizer of a Worker. Removed when no ManagedCluster is assigned to it."""
STORE_ANNOTATION = "shoal.dev/store"
"""Annotation of a Worker: the id of its store. Another store is another worker, even with the same name."""
SUPERVISOR_ANNOTATION = "shoal.dev/supervisor"
"""Annotation of a Worker with infrastructure `process`: the id of the data directory of the hub that runs its
process.
"""
PROCESS_FINALIZER = "shoal.dev/worker-process"
"""Finalizer of such a Worker. Removed when its process has ended and its data directory is deleted."""
PROCESS_WORKER, EXTERNAL_WORKER, IN_PROCESS_WORKER = "process", "external", "inside"
"""Infrastructure of a Worker: a process a hub runs, one that is run externally, or part of `shoal up`."""
KIND_WORKER = "kind"
"""Infrastructure of a Worker that the hub installs in a cluster through the bundle."""

BUS_DOWN_ANNOTATION = "shoal.dev/bus-down-since"
"""Annotation of a worker's Lease: since when the worker has had no connection to the bus."""
PINNED_HUB_ANNOTATION = "shoal.dev/pinned-hub"
"""Annotation of a worker's Lease: the id of the hub it belongs to, when that is not the hub of the Lease."""

SPREAD_GROUP = "shoal.dev/spread-group"
"""On a ManagedCluster: clusters with the same value are spread over Workers and locations. Without it the clusters of a
namespace are.
"""
AUTO_WORKER_LABEL = "shoal.dev/auto-worker"
"""Label of a Worker the scheduler created: a digest of the requirements it was created for."""
AUTO_WORKERS_CONFIG_MAP = "auto-workers"
"""The ConfigMap in the Workers' namespace that limits how many Workers the scheduler may create. Without it there are
none.
"""
MAX_WORKER_NAME_LENGTH = 56
"""Its Lease and the identity it joins with contain the name."""

PENDING, PROVISIONING, RUNNING, FAILED, TERMINATING = "Pending", "Provisioning", "Running", "Failed", "Terminating"
UPGRADING, UNKNOWN = "Upgrading", "Unknown"
LOST = "Lost"
READY, SCHEDULED = "Ready", "Scheduled"
"""Conditions. Scheduled is also a phase."""
INFRASTRUCTURE_READY, NODES_READY = "InfrastructureReady", "NodesReady"
UPGRADED, WORKER_READY, DELETING = "Upgraded", "WorkerReady", "Deleting"
ACCESS_GRANTED = "AccessGranted"
"""Condition of a ManagedCluster: whether the roles of `spec.access` are bound in the hosted cluster."""
HUB_ACCEPTED = "HubAccepted"
"""Condition of a Worker: False while it belongs to another hub, and so keeps clusters that this hub deletes."""
BUS_CONNECTED = "BusConnected"
"""Condition of a Worker: False while no message of the bus reaches it and no report of it arrives."""
SUPERVISED = "Supervised"
"""Condition of a Worker with infrastructure `process`: whether a hub runs it."""
MOVING, MOVABLE = "Moving", "Movable"
"""Conditions of a ManagedCluster: it is migrating to another Worker; its Worker is lost, and whether it may be
migrated.
"""
MOVED = "Moved"
"""Reason of `Moving` after a move."""
TUNNEL_HUB_ANNOTATION = "shoal.dev/tunnel-hub"
"""Annotation of a worker's Lease: the URL at which other hubs reach the hub that has the worker's tunnel."""
FENCES_ANNOTATION = "shoal.dev/fences"
"""Annotation of the Lease of a worker that refuses writes to clusters it may have lost."""
LOG_NAMESPACE_ANNOTATION = "shoal.dev/log-namespace"
"""Annotation of the Lease of a worker that has logs in the namespace `cluster_log.NAMESPACE`, which earlier releases do
not read.
"""
WORKER_REPORTED_CONDITIONS = (INFRASTRUCTURE_READY, NODES_READY, ACCESS_GRANTED, UPGRADED, READY)
"""Conditions reported by the current Worker. They do not apply to a later one."""

NOT_SUPPORTED, BROKEN_KUBECONFIG = "InfrastructureNotSupported", "BrokenKubeconfig"
SECRET_TAKEN, HOST_TAKEN, BAD_VERSION = "SecretNameTaken", "NameTaken", "VersionNotSupported"
LOG_MISSING, LOG_TORN, NOT_RESTORABLE = "LogMissing", "LogTorn", "StoreNotSupported"
PERMANENT_FAILURE_REASONS = frozenset(
    {NOT_SUPPORTED, BROKEN_KUBECONFIG, SECRET_TAKEN, HOST_TAKEN, BAD_VERSION, LOG_MISSING, LOG_TORN, NOT_RESTORABLE}
)
"""Reasons for not being Ready that do not pass by waiting."""
VERSION_REFUSED, REPLACEMENT_REFUSED = "VersionRefused", "ReplacementRefused"
PERMANENT_UPGRADE_REASONS = frozenset({VERSION_REFUSED, REPLACEMENT_REFUSED})
"""Reasons for not being Upgraded that are permanent."""

HEARTBEAT_SECONDS = 10.0
"""The interval at which a worker renews its Lease."""
LEASE_GRACE_SECONDS = 40.0
"""A worker whose Lease is older than this counts as lost."""

MAX_STATUS_ERRORS = 10
"""The maximum number of `status.errors`."""
CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
"""Cluster API's label of objects that belong to a Cluster."""
CLUSTER_SECRET = "cluster.x-k8s.io/secret"
"""Cluster API's Secret type."""


def lease_name(worker: str) -> str:
    return f"worker-{worker}"


def tunnel_hub(lease: Object) -> str:
    """Returns the URL of the hub that has the tunnel of the Lease's worker; empty: no hub has it."""
    return str((lease["metadata"].get("annotations") or {}).get(TUNNEL_HUB_ANNOTATION) or "")


def has_log_namespace(lease: Object | None) -> bool:
    """Reports whether the Lease's worker has logs in the namespace of logs."""
    annotations = (lease or {"metadata": {}})["metadata"].get("annotations") or {}
    return LOG_NAMESPACE_ANNOTATION in annotations


def worker_of_lease(name: str) -> str:
    """Returns the Worker of a Lease. Empty: the Lease is not a worker's."""
    return name.removeprefix("worker-") if name.startswith("worker-") else ""


def kubeconfig_secret_name(name: str) -> str:
    return f"{name}-kubeconfig"


def kubeconfig_hash(kubeconfig: str) -> str:
    """Returns the hash by which a worker knows whether the hub has its current kubeconfig, without reading it back."""
    return sha256(kubeconfig.encode()).hexdigest()[:16]


def cluster_of_kubeconfig_secret(name: str) -> str:
    """Returns the ManagedCluster of a kubeconfig Secret's name. Empty: it is not such a name."""
    suffix = kubeconfig_secret_name("")
    return name.removesuffix(suffix) if name.endswith(suffix) else ""


def is_owned_by_cluster(secret: Object, cluster: str) -> bool:
    """Reports whether an owner reference names a ManagedCluster of that name: the current one or an earlier one."""
    owners = secret["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") == MANAGED_CLUSTER and owner.get("name") == cluster for owner in owners)


def managed_cluster_path(namespace: str, name: str) -> str:
    """Returns the path under which the hub serves the API of a ManagedCluster, on whichever Worker it is hosted."""
    return f"/managedclusters/{namespace}/{name}"


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def status_of(obj: Object) -> Object:
    status: Object = obj.get("status") or {}
    return status


def spec_of(obj: Object) -> Object:
    spec: Object = obj.get("spec") or {}
    return spec


def capacity_of(worker: Object) -> int:
    """Returns how many ManagedClusters a Worker may host: its reported capacity, at most the administrator's limit."""
    spec = spec_of(worker)
    reported, limit = int(spec.get("capacity") or 0), spec.get("capacityLimit")
    return reported if limit is None else min(reported, int(limit))


def assigned_worker(managed: Object) -> str:
    """Empty: no Worker is assigned."""
    return str(status_of(managed).get("assignedWorker") or "")


def migration_target(managed: Object) -> str:
    """Returns the Worker a ManagedCluster is migrating to. Empty: it is not migrating."""
    return str((status_of(managed).get("move") or {}).get("to") or "")


def epoch(managed: Object) -> int:
    return int(status_of(managed).get("epoch") or 0)


def has_finalizer(obj: Object) -> bool:
    return MANAGED_CLUSTER_FINALIZER in (obj["metadata"].get("finalizers") or ())


def with_finalizer(obj: Object) -> Object:
    metadata = obj["metadata"]
    return {
        **obj,
        "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), MANAGED_CLUSTER_FINALIZER]},
    }


def without_finalizer(obj: Object) -> Object:
    metadata = obj["metadata"]
    finalizers = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != MANAGED_CLUSTER_FINALIZER]
    return {**obj, "metadata": {**metadata, "finalizers": finalizers}}


def prepare_managed_cluster_create(obj: Object) -> None:
    """Adds the finalizer on create, so that assigning a Worker later is a single write."""
    if not has_finalizer(obj):
        obj["metadata"] = with_finalizer(obj)["metadata"]


def validate_worker(obj: Object, old: Object | None) -> list[Cause]:
    """Rejects a change of the infrastructure of a Worker that a hub runs as a process."""
    annotations = (old or {"metadata": {}})["metadata"].get("annotations") or {}
    if old is None or SUPERVISOR_ANNOTATION not in annotations or spec_of(obj).get("infrastructure") == PROCESS_WORKER:
        return []
    return [
        forbidden_field(
            "spec.infrastructure", "the hub runs this worker as a process: delete the Worker and create it again"
        )
    ]


HUB_UID_ANNOTATION = "shoal.dev/hub-uid"
"""Annotation of a worker's copy of a ManagedCluster: the uid of the object at the hub."""


def validate_managed_cluster(obj: Object, old: Object | None) -> list[Cause]:
    """A copy takes any step of a rotation: it may have missed one, and the hub may have been restored from a backup."""
    is_copy = HUB_UID_ANNOTATION in (obj["metadata"].get("annotations") or {})
    entries = enumerate(spec_of(obj).get("access") or ())
    nobody = [index for index, entry in entries if not entry.get("users") and not entry.get("groups")]
    causes = [required_value(f"spec.access[{index}]", "at least one user or group is required") for index in nobody]
    causes += validate_limits(obj)
    if not is_copy:
        causes += validate_infrastructure(obj, old, is_assigned=bool(assigned_worker(old or {})))
    return [*validate_hosted_version(obj, old), *([] if is_copy else validate_keys(obj, old)), *causes]


def requested_machines(managed: Object) -> list[tuple[machine_sizes.MachineSize, int]]:
    """Returns sizes and counts of the declared nodes. Nodes provisioned for pending pods are not known beforehand."""
    return [(pool.size, pool.nodes) for pool in nodepools.declared_pools(spec_of(managed))]


def current_errors(obj: Object, errors: Iterable[tuple[str, str]], now: str) -> list[Object]:
    """Returns `status.errors` for these (reason, message) pairs. An existing error keeps its time."""
    since = {(error["reason"], error["message"]): error["time"] for error in status_of(obj).get("errors") or ()}
    return [{"time": since.get(one, now), "reason": one[0], "message": one[1]} for one in errors][-MAX_STATUS_ERRORS:]


def append_error(obj: Object, reason: str, message: str, now: str) -> list[Object]:
    """Returns `status.errors` with this error appended. An existing one is not repeated."""
    errors: list[Object] = list(status_of(obj).get("errors") or ())
    if any((error["reason"], error["message"]) == (reason, message) for error in errors):
        return errors
    return [*errors, {"time": now, "reason": reason, "message": message}][-MAX_STATUS_ERRORS:]


def phase_of(managed: Object) -> str:
    """Computes the phase from the conditions. Each condition has one controller that sets it, so all writers of the
    phase agree.
    """
    if is_deleting(managed):
        return TERMINATING
    if not assigned_worker(managed):
        return PENDING
    worker_ready, ready, upgraded = (get_condition(managed, type_) for type_ in (WORKER_READY, READY, UPGRADED))
    if worker_ready is not None and worker_ready["status"] != "True":
        return UNKNOWN
    if ready is None:
        return SCHEDULED
    if ready["status"] != "True":
        return FAILED if ready.get("reason") in PERMANENT_FAILURE_REASONS else PROVISIONING
    is_upgraded = upgraded is None or upgraded["status"] == "True"
    return RUNNING if is_upgraded or (upgraded or {}).get("reason") in PERMANENT_UPGRADE_REASONS else UPGRADING


SUBRESOURCES: dict[tuple[str, str], dict[str, tuple[str, str, str, tuple[str, ...]]]] = {
    (GROUP, "managedclusters"): {"token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",))},
}
"""Further subresources: name -> (group, version, kind, verbs) of what they accept."""

STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "managedclusters"): replace(
        CUSTOM_STRATEGY, prepare_for_create=prepare_managed_cluster_create, validate=validate_managed_cluster
    ),
    (GROUP, "workers"): replace(CUSTOM_STRATEGY, validate=validate_worker),
}
