"""The embedded provider (infrastructure.cluster.x-k8s.io): names, strategies, and the objects it creates. Pure.

An EmbeddedCluster becomes a LogicalCluster, an EmbeddedMachine a Node in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.kinds.clusterapi.machine_sizes import ARCHITECTURE, DEFAULT_SIZE, SYSTEM, node_labels
from shoal.kinds.limits import validate_limits
from shoal.kinds.strategy import CUSTOM_STRATEGY, Strategy
from shoal.kinds.versions import KUBERNETES_VERSION, validate_hosted_version
from shoal.objects.duration import parse_duration as parse_go_duration
from shoal.objects.errors import Cause

Object = dict[str, Any]

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

CLUSTER, MACHINE, MACHINE_TEMPLATE = "EmbeddedCluster", "EmbeddedMachine", "EmbeddedMachineTemplate"

CLUSTER_FINALIZER = "embeddedcluster.infrastructure.cluster.x-k8s.io"
MACHINE_FINALIZER = "embeddedmachine.infrastructure.cluster.x-k8s.io"

OWNER_UID_ANNOTATION = "shoal.dev/embeddedcluster-uid"
"""Annotation of a LogicalCluster: the uid of the EmbeddedCluster it belongs to."""
SIMULATED_LABEL = "shoal.dev/simulated"
"""Label of a Node on which no containers run."""

ADMIN_NAMESPACE = "kube-system"
ADMIN_SERVICE_ACCOUNT = "shoal-admin"
ADMIN_TOKEN_SECONDS = 365 * 86_400
ADMIN_TOKEN_RENEWAL_SECONDS = 30 * 86_400
"""How long before its end the administrator's token is replaced."""

DEFAULT_KUBELET_VERSION = KUBERNETES_VERSION
"""The version of machines without one: the version this server serves."""


def common_node_labels(spec: Mapping[str, Any]) -> dict[str, str]:
    """Returns the labels that all Nodes of such machines share. The hostname is not among them."""
    return {**node_labels(spec), SIMULATED_LABEL: "true", **(spec.get("labels") or {})}


def logical_cluster_name(namespace: str, name: str) -> str:
    """Returns the LogicalCluster name of an EmbeddedCluster."""
    return f"{namespace}.{name}"


def owner_of_logical_cluster(logical: str) -> tuple[str, str]:
    """Returns namespace and name of the EmbeddedCluster. A namespace has no dots."""
    namespace, _, name = logical.partition(".")
    return namespace, name


def provider_id(namespace: str, name: str) -> str:
    return f"embedded://{namespace}/{name}"


def parse_duration(duration: str | None) -> float:
    """Returns the seconds of a duration such as 1m30s; an empty one is 0."""
    return parse_go_duration(duration) or 0.0


def node_addresses(namespace: str, name: str) -> list[Object]:
    """Returns stable addresses of a Node. Nothing listens there; a Node is expected to have one."""
    number = 0
    for byte in f"{namespace}/{name}".encode():
        number = (number * 31 + byte) & 0x3FFFFF
    host = f"100.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
    return [{"type": "InternalIP", "address": host}, {"type": "Hostname", "address": name}]


def new_logical_cluster(namespace: str, name: str, uid: str, version: str) -> Object:
    return {
        "apiVersion": "core.shoal.dev/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": logical_cluster_name(namespace, name), "annotations": {OWNER_UID_ANNOTATION: uid}},
        "spec": {"profile": "cluster", **({"version": version} if version else {})},
    }


def admin_service_account() -> Object:
    metadata = {"namespace": ADMIN_NAMESPACE, "name": ADMIN_SERVICE_ACCOUNT}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def admin_role_binding() -> Object:
    subject = {"kind": "ServiceAccount", "namespace": ADMIN_NAMESPACE, "name": ADMIN_SERVICE_ACCOUNT}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMIN_SERVICE_ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }


def new_node(
    machine: Mapping[str, Any],
    version: str,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> Object:
    """Returns the Node of an EmbeddedMachine as the provider creates it, before the simulated kubelet updates it."""
    metadata, spec = machine["metadata"], machine.get("spec") or {}
    namespace, name = metadata["namespace"], metadata["name"]
    capacity = {key: str(value) for key, value in {**DEFAULT_SIZE.capacity, **(spec.get("capacity") or {})}.items()}
    node_spec: Object = {"providerID": provider_id(namespace, name)}
    all_taints = _unique_taints([*(spec.get("taints") or ()), *taints])
    if all_taints:
        node_spec["taints"] = all_taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**common_node_labels(spec), "kubernetes.io/hostname": name, **labels},
            "annotations": dict(annotations),
        },
        "spec": node_spec,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": node_addresses(namespace, name),
            "nodeInfo": _node_info(version, metadata.get("uid", "")),
        },
    }


def _unique_taints(taints: Sequence[Mapping[str, str]]) -> list[Object]:
    taints_by_key: dict[tuple[str, str], Object] = {}
    for taint in taints:
        cleaned = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        taints_by_key.setdefault((taint["key"], taint["effect"]), cleaned)
    return list(taints_by_key.values())


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


def validate_cluster(obj: Object, old: Object | None) -> list[Cause]:
    return [*validate_hosted_version(obj, old), *validate_limits(obj)]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "embeddedclusters"): replace(CUSTOM_STRATEGY, validate=validate_cluster),
}
