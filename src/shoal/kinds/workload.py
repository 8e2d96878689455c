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

ASSIGNED = "workloads.kcp.dev/cluster"
"""Label of an object on the hub: the WorkloadCluster it is assigned to."""
MANAGED = "shoal.dev/managedcluster"
"""Label of a WorkloadCluster: the ManagedCluster it represents."""
CLUSTER_API = "shoal.dev/capicluster"
"""Label of a WorkloadCluster: the Cluster API Cluster it represents."""
LOCATION = "shoal.dev/location"
"""Label of a WorkloadCluster: the location its ManagedCluster requests."""
REGISTER = "workloads.kcp.dev/register"
"""Annotation of a Cluster API Cluster: `false` keeps it from being registered as a WorkloadCluster."""
PROBLEM = "workloads.kcp.dev/problem"
"""Annotation of an object on the hub: why it is not synced to its cluster."""
UNSCHEDULABLE = "workloads.kcp.dev/unschedulable"
"""Annotation of an object on the hub: the number of its pods that are unschedulable in its cluster."""
FORCE = "workloads.kcp.dev/force"
"""Annotation of an object on the hub: `true` lets the syncer adopt an object it did not create."""
FINALIZER = "workloads.kcp.dev/syncer-"
"""Prefix of the finalizer of an object on the hub that may have a downstream copy."""

ADOPT = "workloads.kcp.dev/adopt-from"
"""Annotation of a WorkloadCluster: the store id of another hub, whose downstream copies this hub adopts."""
ALLOW_DELETIONS = "workloads.kcp.dev/allow-deletions"
"""Annotation of a WorkloadCluster: `true` lets the syncer exceed its bulk-deletion guard."""
LOCATOR = "kcp.dev/namespace-locator"
"""Annotation of a downstream namespace: the hub and the hub namespace whose copies it holds."""
DEPENDENCY = "dependency.workloads.kcp.dev/"
"""Prefix of a label of an object on the hub: the external syncer of that cluster may read it, because an object
assigned to the cluster refers to it.
"""
MIRRORED = "workloads.kcp.dev/mirrored-from"
"""Label of an Event or Pod on the hub: the WorkloadCluster it is mirrored from."""
MIRRORED_POD = "workloads.kcp.dev/mirrored-pod"
"""Annotation of a Pod on the hub: its namespace and name in its cluster."""
MIRRORED_VERSION = "workloads.kcp.dev/mirrored-version"
"""Annotation of a Pod on the hub: its uid and resourceVersion in its cluster."""

PUSH, PULL, NONE = "push", "pull", "none"
SYNC_MODES = (PUSH, PULL, NONE)
"""The syncer of a cluster runs in the hub, in the cluster, or is not managed by Shoal."""
SYNCERS = "shoal-syncers"
"""The namespace of the ServiceAccounts of external syncers. Each is named after its WorkloadCluster."""
_ACCOUNT = f"system:serviceaccount:{SYNCERS}:"

HOME_ONLY = frozenset({"kube-system", "kube-public", "kube-node-lease", SYNCERS, "shoal-system"})
"""Namespaces whose objects are not synced."""
_STAYING = frozenset(
    {
        *(("namespaces", ""), ("nodes", ""), ("events", ""), ("bindings", ""), ("endpoints", "")),
        *(("persistentvolumes", ""), ("componentstatuses", ""), ("events", "events.k8s.io")),
        *(("leases", "coordination.k8s.io"), ("apiservices", "apiregistration.k8s.io")),
        *(("customresourcedefinitions", "apiextensions.k8s.io"), ("endpointslices", "discovery.k8s.io")),
        *(("csinodes", "storage.k8s.io"), ("volumeattachments", "storage.k8s.io")),
        *(("controllerrevisions", "apps"), ("certificatesigningrequests", "certificates.k8s.io")),
    }
)
_OWN_GROUPS = ("shoal.dev", "workload.kcp.dev", "apiresource.kcp.dev", "cluster.x-k8s.io", "cluster-k8s.io")

READY = "Ready"
HEARTBEAT_HEALTHY, IMPORTER_READY, SYNCER_READY = "HeartbeatHealthy", "APIImporterReady", "SyncerReady"
PARTS = (HEARTBEAT_HEALTHY, IMPORTER_READY, SYNCER_READY)
"""Conditions that Ready summarizes."""

DEFAULT_RESOURCES = (
    *("deployments.apps", "services", "configmaps", "secrets"),
    *("serviceaccounts", "persistentvolumeclaims"),
)
"""The default of `--resources-to-sync`."""
LONGEST_NAME = 63
"""The name of a WorkloadCluster must be a valid label value."""


def name_for(namespace: str, name: str) -> str:
    """Returns the name of the WorkloadCluster of a ManagedCluster."""
    return name if namespace == "default" else f"{namespace}.{name}"


def managed_by_name(cluster: str) -> list[tuple[str, str]]:
    """Returns namespace and name of the ManagedClusters whose WorkloadCluster can have that name."""
    namespace, dot, name = cluster.partition(".")
    return [("default", cluster), *([(namespace, name)] if dot else [])]


def managed_value(namespace: str, name: str) -> str:
    """Returns the value of the label `shoal.dev/managedcluster`."""
    return within(f"{namespace}.{name}", 63)


def finalizer_of(cluster: str) -> str:
    return FINALIZER + within(cluster, 63 - len("syncer-"))


def dependency_label(cluster: str) -> str:
    return DEPENDENCY + within(cluster, 63)


def may_travel(plural: str, group: str) -> bool:
    """Reports whether objects of a resource can be synced. Resources that describe the hub or its clusters cannot."""
    if (plural, group) in _STAYING:
        return False
    return not any(group == own or group.endswith(f".{own}") for own in _OWN_GROUPS)


def sync_mode(cluster: Object, usual: str) -> str:
    """Returns where the syncer of a WorkloadCluster runs. `default_mode` is the hub's."""
    return str((cluster.get("spec") or {}).get("syncMode") or usual)


def syncer_user(cluster: str) -> str:
    """Returns the user of a cluster's external syncer on the hub."""
    return _ACCOUNT + cluster


def cluster_of_syncer(user: str) -> str:
    """Empty: the user is not a syncer."""
    return user.removeprefix(_ACCOUNT) if user.startswith(_ACCOUNT) else ""


def is_ready(cluster: Object) -> bool:
    return condition_is(cluster, READY)


def assigned_to(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(ASSIGNED, "")


def mirrors(cluster: Object, what: str) -> bool:
    """Reports whether a WorkloadCluster mirrors its `events` or `pods` to the hub."""
    return what in ((cluster.get("spec") or {}).get("mirror") or ())


def mirrored_from(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(MIRRORED, "")


def mirror_name(pod: str, cluster: str) -> str:
    """Returns the name on the hub of a cluster's pod. It is unique among clusters."""
    return f"{within(pod, 253 - 2 - len(cluster))}--{cluster}"


def syncer_finalizers(obj: Object) -> list[str]:
    return [name for name in obj["metadata"].get("finalizers") or () if name.startswith(FINALIZER)]


def parts_of(cluster: Object, usual: str) -> list[str]:
    """Returns the conditions Ready summarizes. Without a managed syncer, absent syncer conditions are ignored."""
    if sync_mode(cluster, usual) != NONE:
        return list(PARTS)
    said = {c["type"] for c in (cluster.get("status") or {}).get("conditions") or ()}
    return [part for part in PARTS if part == IMPORTER_READY or part in said]


def summary(cluster: Object, parts: Iterable[str] = PARTS) -> tuple[str, str, str]:
    """Returns status, reason and message of Ready: those of the first condition that is not True."""
    conditions = {c["type"]: c for c in (cluster.get("status") or {}).get("conditions") or ()}
    for part in parts:
        found = conditions.get(part)
        if found is None:
            return "False", "WorkloadClusterStatusUnknown", f"{part} is not known yet"
        if found["status"] != "True":
            return "False", str(found["reason"]), str(found.get("message", ""))
    return "True", "WorkloadClusterReady", ""


def within(name: str, most: int) -> str:
    """Returns the name, or its beginning and a digest when it is too long."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
