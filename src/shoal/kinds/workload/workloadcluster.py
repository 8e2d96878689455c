"""Cluster of workload.kcp.dev, called WorkloadCluster here: names, labels, accessors. The CRD is in `crds/root`."""

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

CLUSTER_LABEL = "workloads.kcp.dev/cluster"
"""Label of an object on the hub: the WorkloadCluster it is assigned to."""
MANAGED_CLUSTER_LABEL = "shoal.dev/managedcluster"
"""Label of a WorkloadCluster: the ManagedCluster it represents."""
CAPI_CLUSTER_LABEL = "shoal.dev/capicluster"
"""Label of a WorkloadCluster: the Cluster API Cluster it represents."""
LOCATION_LABEL = "shoal.dev/location"
"""Label of a WorkloadCluster: the location its ManagedCluster requests."""
REGISTER_ANNOTATION = "workloads.kcp.dev/register"
"""Annotation of a Cluster API Cluster: `false` keeps it from being registered as a WorkloadCluster."""
PROBLEM_ANNOTATION = "workloads.kcp.dev/problem"
"""Annotation of an object on the hub: why it is not synced to its cluster."""
UNSCHEDULABLE_ANNOTATION = "workloads.kcp.dev/unschedulable"
"""Annotation of an object on the hub: the number of its pods that are unschedulable in its cluster."""
FORCE_ANNOTATION = "workloads.kcp.dev/force"
"""Annotation of an object on the hub: `true` lets the syncer adopt an object it did not create."""
SYNCER_FINALIZER_PREFIX = "workloads.kcp.dev/syncer-"
"""Prefix of the finalizer of an object on the hub that may have a downstream copy."""

ADOPT_FROM_ANNOTATION = "workloads.kcp.dev/adopt-from"
"""Annotation of a WorkloadCluster: the store id of another hub, whose downstream copies this hub adopts."""
ALLOW_DELETIONS_ANNOTATION = "workloads.kcp.dev/allow-deletions"
"""Annotation of a WorkloadCluster: `true` lets the syncer exceed its bulk-deletion guard."""
NAMESPACE_LOCATOR_ANNOTATION = "kcp.dev/namespace-locator"
"""Annotation of a downstream namespace: the hub and the hub namespace whose copies it holds."""
DEPENDENCY_LABEL_PREFIX = "dependency.workloads.kcp.dev/"
"""Prefix of a label of an object on the hub: the external syncer of that cluster may read it, because an object
assigned to the cluster refers to it.
"""
DEPENDENCY_STATUS_PREFIX = "status.workloads.kcp.dev/"
"""Prefix of an annotation of an object on the hub that objects in several clusters refer to: its status in the cluster
of that name, as JSON.
"""
MIRRORED_FROM_LABEL = "workloads.kcp.dev/mirrored-from"
"""Label of an Event or Pod on the hub: the WorkloadCluster it is mirrored from."""
MIRRORED_POD_ANNOTATION = "workloads.kcp.dev/mirrored-pod"
"""Annotation of a Pod on the hub: its namespace and name in its cluster."""
MIRRORED_VERSION_ANNOTATION = "workloads.kcp.dev/mirrored-version"
"""Annotation of a Pod on the hub: its uid and resourceVersion in its cluster."""

PUSH, PULL, NONE = "push", "pull", "none"
SYNC_MODES = (PUSH, PULL, NONE)
"""The syncer of a cluster runs in the hub, in the cluster, or is not managed by Shoal."""
SYNCER_NAMESPACE = "shoal-syncers"
"""The namespace of the ServiceAccounts of external syncers. Each is named after its WorkloadCluster."""
_SYNCER_USER_PREFIX = f"system:serviceaccount:{SYNCER_NAMESPACE}:"

UNSYNCED_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease", SYNCER_NAMESPACE, "shoal-system"})
"""Namespaces whose objects are not synced."""
_UNSYNCED_RESOURCES = frozenset(
    {
        *(("namespaces", ""), ("nodes", ""), ("events", ""), ("bindings", ""), ("endpoints", "")),
        *(("componentstatuses", ""), ("events", "events.k8s.io")),
        *(("leases", "coordination.k8s.io"), ("apiservices", "apiregistration.k8s.io")),
        *(("customresourcedefinitions", "apiextensions.k8s.io"), ("endpointslices", "discovery.k8s.io")),
        *(("csinodes", "storage.k8s.io"), ("volumeattachments", "storage.k8s.io")),
        *(("controllerrevisions", "apps"), ("certificatesigningrequests", "certificates.k8s.io")),
    }
)
_OWN_GROUPS = ("shoal.dev", "workload.kcp.dev", "apiresource.kcp.dev", "cluster.x-k8s.io", "cluster-k8s.io")

READY = "Ready"
HEARTBEAT_HEALTHY, IMPORTER_READY, SYNCER_READY = "HeartbeatHealthy", "APIImporterReady", "SyncerReady"
READY_CONDITIONS = (HEARTBEAT_HEALTHY, IMPORTER_READY, SYNCER_READY)
"""Conditions that Ready summarizes."""

NODE_GROUPS, NODE_POOLS, OMITTED_NODE_LABELS = "nodeGroups", "nodePools", "omittedNodeLabels"
ROOM_FIELDS = (NODE_GROUPS, NODE_POOLS, OMITTED_NODE_LABELS)
"""Fields of the status with its room for pods; absent: it is unknown."""

DEFAULT_RESOURCES = (
    *("deployments.apps", "services", "configmaps", "secrets"),
    *("serviceaccounts", "persistentvolumeclaims"),
)
"""The default of `--resources-to-sync`."""
MAX_NAME_LENGTH = 63
"""The name of a WorkloadCluster must be a valid label value."""


def workload_cluster_name(namespace: str, name: str) -> str:
    """Returns the name of the WorkloadCluster of a ManagedCluster."""
    return name if namespace == "default" else f"{namespace}.{name}"


def candidate_managed_clusters(cluster: str) -> list[tuple[str, str]]:
    """Returns namespace and name of the ManagedClusters whose WorkloadCluster can have that name."""
    namespace, dot, name = cluster.partition(".")
    return [("default", cluster), *([(namespace, name)] if dot else [])]


def managed_cluster_label_value(namespace: str, name: str) -> str:
    """Returns the value of the label `shoal.dev/managedcluster`."""
    return truncated_name(f"{namespace}.{name}", 63)


def syncer_finalizer(cluster: str) -> str:
    return SYNCER_FINALIZER_PREFIX + truncated_name(cluster, 63 - len("syncer-"))


def dependency_label(cluster: str) -> str:
    return DEPENDENCY_LABEL_PREFIX + truncated_name(cluster, 63)


def dependency_status_annotation(cluster: str) -> str:
    return DEPENDENCY_STATUS_PREFIX + truncated_name(cluster, 63)


def is_syncable(plural: str, group: str) -> bool:
    """Reports whether objects of a resource can be synced. Resources that describe the hub or its clusters cannot."""
    if (plural, group) in _UNSYNCED_RESOURCES:
        return False
    return not any(group == own_group or group.endswith(f".{own_group}") for own_group in _OWN_GROUPS)


def sync_mode(cluster: Object, default_mode: str) -> str:
    """Returns where the syncer of a WorkloadCluster runs. `default_mode` is the hub's."""
    return str((cluster.get("spec") or {}).get("syncMode") or default_mode)


def syncer_user(cluster: str) -> str:
    """Returns the user of a cluster's external syncer on the hub."""
    return _SYNCER_USER_PREFIX + cluster


def cluster_of_syncer(user: str) -> str:
    """Empty: the user is not a syncer."""
    return user.removeprefix(_SYNCER_USER_PREFIX) if user.startswith(_SYNCER_USER_PREFIX) else ""


def is_ready(cluster: Object) -> bool:
    return condition_is(cluster, READY)


def reports_status(cluster: Object) -> bool:
    """Reports whether the statuses of objects in the cluster are current: its importer alone may be not ready."""
    return is_ready(cluster) or all(condition_is(cluster, part) for part in (HEARTBEAT_HEALTHY, SYNCER_READY))


def assigned_cluster(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(CLUSTER_LABEL, "")


def mirrors_resource(cluster: Object, resource: str) -> bool:
    """Reports whether a WorkloadCluster mirrors its `events` or `pods` to the hub."""
    return resource in ((cluster.get("spec") or {}).get("mirror") or ())


def mirror_source(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(MIRRORED_FROM_LABEL, "")


def mirrored_pod_name(pod: str, cluster: str) -> str:
    """Returns the name on the hub of a cluster's pod. It is unique among clusters."""
    return f"{truncated_name(pod, 253 - 2 - len(cluster))}--{cluster}"


def syncer_finalizers(obj: Object) -> list[str]:
    return [name for name in obj["metadata"].get("finalizers") or () if name.startswith(SYNCER_FINALIZER_PREFIX)]


def ready_condition_types(cluster: Object, default_mode: str) -> list[str]:
    """Returns the conditions Ready summarizes. Without a managed syncer, absent syncer conditions are ignored."""
    if sync_mode(cluster, default_mode) != NONE:
        return list(READY_CONDITIONS)
    present = {c["type"] for c in (cluster.get("status") or {}).get("conditions") or ()}
    return [part for part in READY_CONDITIONS if part == IMPORTER_READY or part in present]


def ready_condition(cluster: Object, condition_types: Iterable[str] = READY_CONDITIONS) -> tuple[str, str, str]:
    """Returns status, reason and message of Ready: those of the first condition that is not True."""
    conditions = {c["type"]: c for c in (cluster.get("status") or {}).get("conditions") or ()}
    for part in condition_types:
        condition = conditions.get(part)
        if condition is None:
            return "False", "WorkloadClusterStatusUnknown", f"condition {part} is not set yet"
        if condition["status"] != "True":
            return "False", str(condition["reason"]), str(condition.get("message", ""))
    return "True", "WorkloadClusterReady", ""


def truncated_name(name: str, max_length: int) -> str:
    """Returns the name, or its beginning and a digest when it is too long."""
    if len(name) <= max_length:
        return name
    return f"{name[: max_length - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
