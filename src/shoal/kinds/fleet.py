"""ManagedCluster and Worker of infrastructure.cluster.x-k8s.io: names, and what is read from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from shoal.kinds import nodepools, sizes
from shoal.objects.conditions import get_condition
from shoal.objects.errors import Cause, forbidden_field

Object = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
MANAGED_CLUSTER, WORKER = "ManagedCluster", "Worker"

NAMESPACE = "shoal-system"
"""Where Workers join, and where their Leases are."""
FINALIZER = "infrastructure.cluster.x-k8s.io/managedcluster"
"""Of a ManagedCluster: goes when its Worker says that nothing of it is left."""
WORKER_FINALIZER = "infrastructure.cluster.x-k8s.io/worker"
"""Of a Worker: goes when no ManagedCluster is given to it."""
STORE = "shoal.dev/store"
"""On a Worker: the id of the store it is of. Another store is another worker, whatever its name."""
SUPERVISOR = "shoal.dev/supervisor"
"""On a Worker with infrastructure process: the data directory of the hub that runs its process, by its id."""
PROCESS_FINALIZER = "shoal.dev/worker-process"
"""Of such a Worker: goes when its process has ended and its data directory is removed."""
PROCESS, EXTERNAL, INSIDE = "process", "external", "inside"
"""What a Worker is: a process a hub runs, one that somebody else runs, a part of `shoal up`."""
KIND = "kind"
"""Or a cluster that gets its worker from the hub, by the bundle."""

PINNED_HUB = "shoal.dev/pinned-hub"
"""On a worker's Lease: the id of the hub it belongs to, where that is not the one the Lease is at."""

SPREAD_GROUP = "shoal.dev/spread-group"
"""On a ManagedCluster: those with the same value are spread over Workers and locations; without, a namespace's are."""
AUTO_WORKER = "shoal.dev/auto-worker"
"""On a Worker that the scheduler has asked for: a digest of what it is for."""
AUTO_WORKERS = "auto-workers"
"""The ConfigMap beside the Workers that says how many of those there may be; without it there are none."""
WORKER_NAME_LIMIT = 56
"""Characters: its Lease and the identity it joins with are named after it."""

PENDING, PROVISIONING, RUNNING, FAILED, TERMINATING = "Pending", "Provisioning", "Running", "Failed", "Terminating"
UPGRADING, UNKNOWN = "Upgrading", "Unknown"
LOST = "Lost"
READY, SCHEDULED = "Ready", "Scheduled"
"""Conditions; the second is a phase too."""
INFRASTRUCTURE_READY, NODES_READY = "InfrastructureReady", "NodesReady"
UPGRADED, WORKER_READY, DELETING = "Upgraded", "WorkerReady", "Deleting"
HUB_ACCEPTED = "HubAccepted"
"""Of a Worker: False while it belongs to another hub, and so holds what this one deletes."""
SUPERVISED = "Supervised"
"""Of a Worker with infrastructure process: whether a hub runs it."""
MOVING, MOVABLE = "Moving", "Movable"
"""Of a ManagedCluster: it is on its way to another Worker; its Worker is lost, and it may or may not be moved."""
FENCES = "shoal.dev/fences"
"""On the Lease of a worker that refuses changes of clusters it may have lost."""
TOLD_BY_WORKER = (INFRASTRUCTURE_READY, NODES_READY, UPGRADED, READY)
"""Conditions that are of the Worker it is on, and of no later one."""

NOT_SUPPORTED, BROKEN_KUBECONFIG = "InfrastructureNotSupported", "BrokenKubeconfig"
SECRET_TAKEN, HOST_TAKEN, BAD_VERSION = "SecretNameTaken", "NameTaken", "VersionNotSupported"
LOG_MISSING, LOG_TORN, NOT_RESTORABLE = "LogMissing", "LogTorn", "StoreNotSupported"
FAILURES = frozenset(
    {NOT_SUPPORTED, BROKEN_KUBECONFIG, SECRET_TAKEN, HOST_TAKEN, BAD_VERSION, LOG_MISSING, LOG_TORN, NOT_RESTORABLE}
)
"""Reasons why a ManagedCluster is not Ready that do not pass by waiting."""
VERSION_REFUSED = "VersionRefused"
"""Why it is not Upgraded, and will not be."""

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


def kubeconfig_hash(kubeconfig: str) -> str:
    """By which a worker sees whether the hub has the kubeconfig it would publish, without reading it back."""
    return sha256(kubeconfig.encode()).hexdigest()[:16]


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


def capacity_of(worker: Object) -> int:
    """How many ManagedClusters a Worker may have: what it says, and never more than an administrator says."""
    spec = spec_of(worker)
    said, limit = int(spec.get("capacity") or 0), spec.get("capacityLimit")
    return said if limit is None else min(said, int(limit))


def assigned_worker(managed: Object) -> str:
    """Empty: nobody hosts it."""
    return str(status_of(managed).get("assignedWorker") or "")


def moving_to(managed: Object) -> str:
    """The Worker it is on its way to; empty: it is not."""
    return str((status_of(managed).get("move") or {}).get("to") or "")


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


def validate_worker(obj: Object, old: Object | None) -> list[Cause]:
    """What a hub runs as a process does not become something else."""
    annotations = (old or {"metadata": {}})["metadata"].get("annotations") or {}
    if old is None or SUPERVISOR not in annotations or spec_of(obj).get("infrastructure") == PROCESS:
        return []
    return [forbidden_field("spec.infrastructure", "a hub runs it as a process: delete it, and declare it anew")]


def machines(managed: Object) -> list[tuple[sizes.Size, int]]:
    """The nodes it asks for by number, by their size; those bought for pending pods are not known beforehand."""
    return [(pool.size, pool.nodes) for pool in nodepools.asked_for(spec_of(managed))]


def errors_now(obj: Object, said: Iterable[tuple[str, str]], now: str) -> list[Object]:
    """`status.errors` that say these (reason, message); one that was there already keeps its time."""
    since = {(error["reason"], error["message"]): error["time"] for error in status_of(obj).get("errors") or ()}
    return [{"time": since.get(one, now), "reason": one[0], "message": one[1]} for one in said][-ERRORS:]


def errors_with(obj: Object, reason: str, message: str, now: str) -> list[Object]:
    """`status.errors` with this one last; one that is there already is not said again."""
    said: list[Object] = list(status_of(obj).get("errors") or ())
    if any((error["reason"], error["message"]) == (reason, message) for error in said):
        return said
    return [*said, {"time": now, "reason": reason, "message": message}][-ERRORS:]


def phase_of(managed: Object) -> str:
    """What its conditions come to. Each condition has one loop that tells it, so all who write the phase agree."""
    if is_deleting(managed):
        return TERMINATING
    if not assigned_worker(managed):
        return PENDING
    heard, ready, upgraded = (get_condition(managed, type_) for type_ in (WORKER_READY, READY, UPGRADED))
    if heard is not None and heard["status"] != "True":
        return UNKNOWN
    if ready is None:
        return SCHEDULED
    if ready["status"] != "True":
        return FAILED if ready.get("reason") in FAILURES else PROVISIONING
    if upgraded is not None and upgraded["status"] != "True" and upgraded.get("reason") != VERSION_REFUSED:
        return UPGRADING
    return RUNNING
