"""The objects that run a syncer in the cluster it syncs. Pure.

Its permissions there are those on synced resources only. It may not read objects of namespaces that it cannot name in a
rule, so it leaves the namespaces it created rather than reading everything.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bundle.objects import IMAGE as IMAGE
from shoal.kinds.apiresource import parse_resource

Object = dict[str, Any]

NAME = "shoal-syncer"
SECRET, KEY, MOUNT = "shoal-syncer-hub", "kubeconfig", "/etc/shoal/hub"
COPIED = ("get", "list", "watch", "create", "update", "patch", "delete")
READ = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Installation:
    cluster: str
    """The workload Cluster on the hub."""
    kubeconfig: str
    """Of the hub, for the syncer of that cluster."""
    image: str
    resources: tuple[str, ...]
    namespace: str = NAME


def manifest(wanted: Installation) -> list[Object]:
    """Returns the objects in the order to apply them."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": wanted.cluster}

    def named(name: str, namespaced: bool = True) -> Object:
        return {"name": name, "labels": labels, **({"namespace": wanted.namespace} if namespaced else {})}

    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": wanted.namespace}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": named(wanted.namespace, namespaced=False)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(NAME)},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": named(NAME, namespaced=False),
            "rules": rules(wanted.resources),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": named(NAME, namespaced=False),
            "roleRef": role,
            "subjects": [subject],
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": named(SECRET),
            "type": "Opaque",
            "data": {KEY: base64.b64encode(wanted.kubeconfig.encode()).decode()},
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named(NAME), "spec": _deployment(wanted, labels)},
    ]


def rules(resources: Sequence[str]) -> list[Object]:
    groups: dict[str, set[str]] = {}
    for plural, group in map(parse_resource, resources):
        groups.setdefault("*" if plural == "*" else group, set()).add(plural)
    made = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(COPIED)}
        for group, plurals in sorted(groups.items())
    ]
    return [
        *made,
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": [""], "resources": ["nodes", "pods", "events"], "verbs": list(READ)},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": list(READ)},
    ]


def _deployment(wanted: Installation, labels: Object) -> Object:
    container = {
        "name": "syncer",
        "image": wanted.image,
        "args": ["syncer", "--from-kubeconfig", f"{MOUNT}/{KEY}", "--cluster", wanted.cluster],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "hub", "mountPath": MOUNT, "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    if wanted.resources:
        container["args"] += ["--resources-to-sync", ",".join(wanted.resources)]  # type: ignore[operator]
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
