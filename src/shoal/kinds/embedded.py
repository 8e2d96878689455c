"""The embedded provider (infrastructure.cluster.x-k8s.io): its names and the objects it makes. Pure.

An EmbeddedCluster becomes a LogicalCluster, an EmbeddedMachine a Node of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.kinds.sizes import ARCHITECTURE, DEFAULT, SYSTEM, node_labels
from shoal.kinds.versions import KUBERNETES

Object = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

CLUSTER, MACHINE, MACHINE_TEMPLATE = "EmbeddedCluster", "EmbeddedMachine", "EmbeddedMachineTemplate"

CLUSTER_FINALIZER = "embeddedcluster.infrastructure.cluster.x-k8s.io"
MACHINE_FINALIZER = "embeddedmachine.infrastructure.cluster.x-k8s.io"

HOST_UID = "shoal.dev/embeddedcluster-uid"
"""Annotation of a LogicalCluster: the EmbeddedCluster it was made for."""
SIMULATED = "shoal.dev/simulated"
"""Label of a Node nobody runs containers on."""

ADMIN_NAMESPACE = "kube-system"
ADMIN = "shoal-admin"
ADMIN_TOKEN = "shoal-admin-token"

KUBELET_VERSION = KUBERNETES
"""Of a machine nobody gave one: the version this server speaks."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def placement_labels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Labels every Node of such machines has, but for its own name."""
    return {**node_labels(spec), SIMULATED: "true", **(spec.get("labels") or {})}


def hosted_name(namespace: str, name: str) -> str:
    """The LogicalCluster of an EmbeddedCluster."""
    return f"{namespace}.{name}"


def hosted_owner(logical: str) -> tuple[str, str]:
    """The way back; a namespace has no dots."""
    namespace, _, name = logical.partition(".")
    return namespace, name


def provider_id(namespace: str, name: str) -> str:
    return f"embedded://{namespace}/{name}"


def seconds(duration: str | None) -> float:
    """Of a duration such as 1m30s; nothing is none."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(duration or ""))


def addresses(namespace: str, name: str) -> list[Object]:
    """Nothing listens there; an address is expected of a Node, so it has one that stays the same."""
    number = 0
    for byte in f"{namespace}/{name}".encode():
        number = (number * 31 + byte) & 0x3FFFFF
    host = f"100.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
    return [{"type": "InternalIP", "address": host}, {"type": "Hostname", "address": name}]


def logical_cluster(namespace: str, name: str, uid: str, version: str) -> Object:
    return {
        "apiVersion": "core.shoal.dev/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": hosted_name(namespace, name), "annotations": {HOST_UID: uid}},
        "spec": {"profile": "cluster", **({"version": version} if version else {})},
    }


def admin_account() -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _admin_metadata(ADMIN)}


def admin_binding() -> Object:
    subject = {"kind": "ServiceAccount", "namespace": ADMIN_NAMESPACE, "name": ADMIN}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMIN},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }


def admin_token() -> Object:
    """A Secret that is filled with a token of the account."""
    metadata = {**_admin_metadata(ADMIN_TOKEN), "annotations": {"kubernetes.io/service-account.name": ADMIN}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"}


def _admin_metadata(name: str) -> Object:
    return {"namespace": ADMIN_NAMESPACE, "name": name}


def node(
    machine: Mapping[str, Any],
    version: str,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> Object:
    """The Node of an EmbeddedMachine, before anybody animates it."""
    metadata, spec = machine["metadata"], machine.get("spec") or {}
    namespace, name = metadata["namespace"], metadata["name"]
    capacity = {key: str(value) for key, value in {**DEFAULT.capacity, **(spec.get("capacity") or {})}.items()}
    wanted: Object = {"providerID": provider_id(namespace, name)}
    all_taints = _distinct([*(spec.get("taints") or ()), *taints])
    if all_taints:
        wanted["taints"] = all_taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**placement_labels(spec), "kubernetes.io/hostname": name, **labels},
            "annotations": dict(annotations),
        },
        "spec": wanted,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": addresses(namespace, name),
            "nodeInfo": _node_info(version, metadata.get("uid", "")),
        },
    }


def _distinct(taints: Sequence[Mapping[str, str]]) -> list[Object]:
    found: dict[tuple[str, str], Object] = {}
    for taint in taints:
        kept = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        found.setdefault((taint["key"], taint["effect"]), kept)
    return list(found.values())


def _node_info(version: str, uid: str) -> Object:
    return {
        "architecture": ARCHITECTURE,
        "operatingSystem": SYSTEM,
        "osImage": "simulated",
        "kernelVersion": "simulated",
        "containerRuntimeVersion": "simulated://1.0.0",
        "kubeletVersion": version,
        "kubeProxyVersion": version,
        "machineID": uid,
        "systemUUID": uid,
        "bootID": uid,
    }
