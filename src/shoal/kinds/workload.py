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
CLUSTER_API = "shoal.dev/capicluster"
"""Label of a workload Cluster: the Cluster API Cluster it stands for."""
LOCATION = "shoal.dev/location"
"""Label of a workload Cluster: where the ManagedCluster it stands for asked to be."""
REGISTER = "workloads.kcp.dev/register"
"""Annotation of a Cluster API Cluster: `false` keeps it from becoming a workload Cluster."""
PROBLEM = "workloads.kcp.dev/problem"
"""Annotation of an object on the hub: why it is not in its cluster."""
UNSCHEDULABLE = "workloads.kcp.dev/unschedulable"
"""Annotation of an object on the hub: how many of its pods find no node in its cluster."""
FORCE = "workloads.kcp.dev/force"
"""Annotation of an object on the hub: `true` lets the syncer take over an object it did not make."""
FINALIZER = "workloads.kcp.dev/syncer-"
"""Prefix of the finalizer of an object on the hub that may have a copy in a cluster."""

ADOPT = "workloads.kcp.dev/adopt-from"
"""Annotation of a workload Cluster: another hub, by its store, whose copies there this one takes over."""
ALLOW_DELETIONS = "workloads.kcp.dev/allow-deletions"
"""Annotation of a workload Cluster: `true` lets the syncer delete more at once than it does by itself."""
LOCATOR = "kcp.dev/namespace-locator"
"""Annotation of a namespace in a cluster: the hub, and the namespace there, whose copies are in it."""
DEPENDENCY = "dependency.workloads.kcp.dev/"
"""Prefix of a label of an object on the hub: that cluster's syncer, which is not the hub's, may read it because an
object meant for the cluster names it."""
MIRRORED = "workloads.kcp.dev/mirrored-from"
"""Label of an Event or a Pod on the hub: the workload Cluster it was told in, or is in."""
MIRRORED_POD = "workloads.kcp.dev/mirrored-pod"
"""Annotation of a Pod on the hub: its namespace and name in its cluster."""
MIRRORED_VERSION = "workloads.kcp.dev/mirrored-version"
"""Annotation of a Pod on the hub: its uid and resourceVersion in its cluster."""

PUSH, PULL, NONE = "push", "pull", "none"
SYNC_MODES = (PUSH, PULL, NONE)
"""The syncer of a cluster runs in the hub, in the cluster, or is somebody else's business."""
SYNCERS = "shoal-syncers"
"""The namespace of service accounts that syncers elsewhere have: each is named after its workload Cluster."""
_ACCOUNT = f"system:serviceaccount:{SYNCERS}:"

HOME_ONLY = frozenset({"kube-system", "kube-public", "kube-node-lease", SYNCERS, "shoal-system"})
"""Namespaces whose objects do not travel."""
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
"""Ready sums these up."""

DEFAULT_RESOURCES = (
    *("deployments.apps", "services", "configmaps", "secrets"),
    *("serviceaccounts", "persistentvolumeclaims"),
)
"""What `--resources-to-sync` says where nobody says anything."""
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
    return within(f"{namespace}.{name}", 63)


def finalizer_of(cluster: str) -> str:
    return FINALIZER + within(cluster, 63 - len("syncer-"))


def dependency_label(cluster: str) -> str:
    return DEPENDENCY + within(cluster, 63)


def may_travel(plural: str, group: str) -> bool:
    """Whether objects of a kind can be copied to clusters: not what describes the hub itself, or its clusters."""
    if (plural, group) in _STAYING:
        return False
    return not any(group == own or group.endswith(f".{own}") for own in _OWN_GROUPS)


def sync_mode(cluster: Object, usual: str) -> str:
    """Where the syncer of a workload Cluster runs; `usual` is the hub's."""
    return str((cluster.get("spec") or {}).get("syncMode") or usual)


def syncer_user(cluster: str) -> str:
    """Who the syncer of a cluster is on the hub, where it runs elsewhere."""
    return _ACCOUNT + cluster


def cluster_of_syncer(user: str) -> str:
    """Empty: the user is no syncer."""
    return user.removeprefix(_ACCOUNT) if user.startswith(_ACCOUNT) else ""


def is_ready(cluster: Object) -> bool:
    return condition_is(cluster, READY)


def assigned_to(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(ASSIGNED, "")


def mirrors(cluster: Object, what: str) -> bool:
    """Whether a workload Cluster asks for its `events` or `pods` to be shown on the hub."""
    return what in ((cluster.get("spec") or {}).get("mirror") or ())


def mirrored_from(obj: Object) -> str:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(MIRRORED, "")


def mirror_name(pod: str, cluster: str) -> str:
    """Of a pod of a cluster, on the hub: no other cluster's has it."""
    return f"{within(pod, 253 - 2 - len(cluster))}--{cluster}"


def syncer_finalizers(obj: Object) -> list[str]:
    return [name for name in obj["metadata"].get("finalizers") or () if name.startswith(FINALIZER)]


def parts_of(cluster: Object, usual: str) -> list[str]:
    """What Ready of a workload Cluster sums up; where nobody is told to run a syncer, one need not say anything."""
    if sync_mode(cluster, usual) != NONE:
        return list(PARTS)
    said = {c["type"] for c in (cluster.get("status") or {}).get("conditions") or ()}
    return [part for part in PARTS if part == IMPORTER_READY or part in said]


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


def within(name: str, most: int) -> str:
    """The name, or its beginning and a digest where it is too long."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
