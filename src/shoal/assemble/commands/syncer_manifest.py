"""The objects that run a syncer in the cluster it syncs. Pure.

Its permissions there are those on synced resources only. It may not read objects of namespaces that it cannot name in a
rule, so it leaves the namespaces it created rather than reading everything.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bundle.objects import IMAGE_REPOSITORY as IMAGE_REPOSITORY
from shoal.kinds.workload.apiresource import parse_resource

Object = dict[str, Any]

NAME = "shoal-syncer"
HEALTH_PORT = 8081
SECRET, KEY, MOUNT = "shoal-syncer-hub", "kubeconfig", "/etc/shoal/hub"
SYNCED_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
READ_VERBS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class SyncerInstallation:
    cluster: str
    """The workload Cluster on the hub."""
    kubeconfig: str
    """Of the hub, for the syncer of that cluster."""
    image: str
    resources: tuple[str, ...]
    namespace: str = NAME


def manifest(installation: SyncerInstallation) -> list[Object]:
    """Returns the objects in the order to apply them."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": installation.cluster}

    def object_meta(name: str, namespaced: bool = True) -> Object:
        return {"name": name, "labels": labels, **({"namespace": installation.namespace} if namespaced else {})}

    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": object_meta(installation.namespace, namespaced=False)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object_meta(NAME)},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": object_meta(NAME, namespaced=False),
            "rules": cluster_role_rules(installation.resources),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": object_meta(NAME, namespaced=False),
            "roleRef": role,
            "subjects": [subject],
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": object_meta(SECRET),
            "type": "Opaque",
            "data": {KEY: base64.b64encode(installation.kubeconfig.encode()).decode()},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": object_meta(NAME),
            "spec": _deployment_spec(installation, labels),
        },
    ]


def cluster_role_rules(resources: Sequence[str]) -> list[Object]:
    groups: dict[str, set[str]] = {}
    for plural, group in map(parse_resource, resources):
        groups.setdefault("*" if plural == "*" else group, set()).add(plural)
    resource_rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(SYNCED_VERBS)}
        for group, plurals in sorted(groups.items())
    ]
    return [
        *resource_rules,
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": [""], "resources": ["nodes", "pods", "events"], "verbs": list(READ_VERBS)},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": list(READ_VERBS)},
        {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": list(READ_VERBS)},
    ]


def _deployment_spec(installation: SyncerInstallation, labels: Object) -> Object:
    container = {
        "name": "syncer",
        "image": installation.image,
        "args": [
            *("syncer", "--from-kubeconfig", f"{MOUNT}/{KEY}", "--cluster", installation.cluster),
            *("--health-address", f"0.0.0.0:{HEALTH_PORT}"),
        ],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "hub", "mountPath": MOUNT, "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    if installation.resources:
        container["args"] += ["--resources-to-sync", ",".join(installation.resources)]  # type: ignore[operator]
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "serviceAccountName": NAME,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [{"name": "hub", "secret": {"secretName": SECRET}}, {"name": "tmp", "emptyDir": {}}],
            },
        },
    }
