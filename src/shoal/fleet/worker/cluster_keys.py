"""Which keys of the worker's store belong to a hosted cluster: everything inside it, and its objects in root. Pure.

Machine templates of root that belong to no Cluster are shared by the hosted clusters of their namespace.

Keys are the store's, `group/plural/cluster/namespace/name`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from shoal.kinds.clusterapi import capi, embedded
from shoal.kinds.fleet import infrav1, logicalcluster

ROOT = "root"
LOGICAL_CLUSTER_RESOURCE = f"{logicalcluster.GROUP}/{logicalcluster.PLURAL}"
COPY_RESOURCE = f"{infrav1.GROUP}/managedclusters"
_SAME_NAME_RESOURCES = (f"{capi.GROUP}/clusters", f"{infrav1.GROUP}/embeddedclusters")
"""Resources whose objects have the name of the ManagedCluster."""
_EXCLUDED_RESOURCES = frozenset({COPY_RESOURCE, f"{infrav1.GROUP}/workers"})
_HOSTING_GROUPS = (capi.GROUP, infrav1.GROUP)
TEMPLATES_PREFIX = f"{infrav1.GROUP}/embeddedmachinetemplates/{ROOT}/"

_OWNERS_LAST = (
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
    "daemonsets",
    "jobs",
    "deployments",
    "cronjobs",
    "machinesets",
    "machinedeployments",
    "embeddedclusters",
    "clusters",
)
"""Owners come after what they own: a controller that sees an owner first would create what is still to come."""


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = {}
    ownerReferences: list[dict[str, Any]] = []  # noqa: N815 - wire name
    deletionTimestamp: str = ""  # noqa: N815


class _Spec(msgspec.Struct):
    clusterName: str = ""  # noqa: N815


class _OwnedObject(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_OWNED_OBJECT_DECODER = msgspec.json.Decoder(_OwnedObject)


def hosted_cluster_of(key: str, value: bytes | None) -> str:
    """Returns the hosted cluster of a key, except for copies; empty if it belongs to none, or only its value would
    tell.
    """
    group, plural, cluster, namespace, name = key.split("/", 4)
    if cluster != ROOT:
        return cluster
    resource = f"{group}/{plural}"
    if resource == LOGICAL_CLUSTER_RESOURCE:
        return name if "." in name else ""
    if group not in _HOSTING_GROUPS or resource in _EXCLUDED_RESOURCES:
        return ""
    if resource in _SAME_NAME_RESOURCES:
        return embedded.logical_cluster_name(namespace, name)
    owned = _decode(value)
    owner = _owning_cluster(owned) if owned is not None else ""
    return embedded.logical_cluster_name(namespace, owner) if owner else ""


def is_shared_template(key: str, value: bytes) -> bool:
    """True for a machine template that belongs to no Cluster, and so to all hosted clusters of its namespace."""
    owned = _decode(value) if key.startswith(TEMPLATES_PREFIX) else None
    return owned is not None and not owned.metadata.deletionTimestamp and not _owning_cluster(owned)


def _decode(value: bytes | None) -> _OwnedObject | None:
    try:
        return None if value is None else _OWNED_OBJECT_DECODER.decode(value)
    except msgspec.DecodeError:
        return None


def _owning_cluster(owned: _OwnedObject) -> str:
    """Returns the Cluster that a Cluster API object belongs to."""
    owners = (str(each.get("name")) for each in owned.metadata.ownerReferences if each.get("kind") == capi.CLUSTER)
    return owned.metadata.labels.get(capi.CLUSTER_NAME, "") or owned.spec.clusterName or next(owners, "")


def copy_key(namespace: str, name: str) -> str:
    return f"{COPY_RESOURCE}/{ROOT}/{namespace}/{name}"


def logical_cluster_key(hosted: str) -> str:
    return f"{LOGICAL_CLUSTER_RESOURCE}/{ROOT}//{hosted}"


def write_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in write order: the logical cluster, its contents, the objects of root, the copy."""
    return sorted(keys, key=_write_rank)


def _write_rank(key: str) -> tuple[int, int, str]:
    group, plural, cluster, _ = key.split("/", 3)
    resource = f"{group}/{plural}"
    stage = (
        1 if cluster != ROOT else 0 if resource == LOGICAL_CLUSTER_RESOURCE else 3 if resource == COPY_RESOURCE else 2
    )
    return stage, _OWNERS_LAST.index(plural) + 1 if plural in _OWNERS_LAST else 0, key
