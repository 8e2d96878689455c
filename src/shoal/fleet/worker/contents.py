"""Which keys of the worker's store belong to a hosted cluster: everything inside it, and its objects in root. Pure.

Keys are the store's, `group/plural/cluster/namespace/name`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from shoal.kinds import capi, embedded, fleet, logicalcluster

ROOT = "root"
LOGICAL_CLUSTERS = f"{logicalcluster.GROUP}/{logicalcluster.PLURAL}"
COPIES = f"{fleet.GROUP}/managedclusters"
_NAMED = (f"{capi.GROUP}/clusters", f"{fleet.GROUP}/embeddedclusters")
"""Resources whose objects have the name of the ManagedCluster."""
_OTHERS = frozenset({COPIES, f"{fleet.GROUP}/workers"})
_GROUPS = (capi.GROUP, fleet.GROUP)

_LAST = (
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


class _Spec(msgspec.Struct):
    clusterName: str = ""  # noqa: N815


class _Belonging(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_READER = msgspec.json.Decoder(_Belonging)


def hosted_of(key: str, value: bytes | None) -> str:
    """Returns the hosted cluster of a key, except for copies; empty if it belongs to none, or only its value would
    tell.
    """
    group, plural, cluster, namespace, name = key.split("/", 4)
    if cluster != ROOT:
        return cluster
    kind = f"{group}/{plural}"
    if kind == LOGICAL_CLUSTERS:
        return name if "." in name else ""
    if group not in _GROUPS or kind in _OTHERS:
        return ""
    if kind in _NAMED:
        return embedded.hosted_name(namespace, name)
    owner = _owner(value) if value is not None else ""
    return embedded.hosted_name(namespace, owner) if owner else ""


def _owner(value: bytes) -> str:
    """Returns the Cluster that a Cluster API object belongs to."""
    try:
        found = _READER.decode(value)
    except msgspec.DecodeError:
        return ""
    owners = (str(each.get("name")) for each in found.metadata.ownerReferences if each.get("kind") == capi.CLUSTER)
    return found.metadata.labels.get(capi.CLUSTER_NAME, "") or found.spec.clusterName or next(owners, "")


def copy_key(namespace: str, name: str) -> str:
    return f"{COPIES}/{ROOT}/{namespace}/{name}"


def logical_key(hosted: str) -> str:
    return f"{LOGICAL_CLUSTERS}/{ROOT}//{hosted}"


def in_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys in write order: the logical cluster, its contents, the objects of root, the copy."""
    return sorted(keys, key=_place)


def _place(key: str) -> tuple[int, int, str]:
    group, plural, cluster, _ = key.split("/", 3)
    kind = f"{group}/{plural}"
    stage = 1 if cluster != ROOT else 0 if kind == LOGICAL_CLUSTERS else 3 if kind == COPIES else 2
    return stage, _LAST.index(plural) + 1 if plural in _LAST else 0, key
