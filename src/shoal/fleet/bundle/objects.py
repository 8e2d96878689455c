"""The objects of the bundle, which run a `shoal worker` in a Worker's cluster. Pure.

The worker keeps all its data in a volume and dials out to its hub. It uses nothing of the API of the cluster it runs
in. So it has no role and no token there, no Service, and no ingress.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

from shoal import __version__

Object = dict[str, Any]
Id = tuple[str, str, str]
"""Kind, namespace and name."""

IMAGE = "ghcr.io/shoal/shoal"
"""Tagged with the release's own version, unless the hub is configured with another image."""
MANAGER = "shoal-bundle"
"""Field manager of server-side apply."""
MANAGED_BY, SHOAL = "app.kubernetes.io/managed-by", "shoal"
VERSION, WORKER = "shoal.dev/bundle-version", "shoal.dev/worker"
"""Labels of every object of a bundle, together with the one above."""
REVISION = "shoal.dev/bundle-revision"
"""Annotation: digest of the applied object, by which a field that is no longer desired is noticed."""
APP = "app.kubernetes.io/name"

NAMESPACE = "shoal-system"
KUBECONFIG, JOINING = "kubeconfig", "/etc/shoal/hub"
VOLUME, DATA = "/var/lib/shoal", "/var/lib/shoal/worker"
"""The data directory is below the volume: a process may only change the mode of its own directories."""
PORT, USER = 6443, 65532
STORAGE = "10Gi"


@dataclass(frozen=True, slots=True)
class Plan:
    """What differs between Workers and between releases."""

    worker: str
    version: str = __version__
    image: str = ""
    kubeconfig: str = field(default="", repr=False)
    """For the hub, with which the worker joins."""

    @property
    def name(self) -> str:
        return f"shoal-worker-{self.worker}"

    @property
    def labels(self) -> dict[str, str]:
        return {MANAGED_BY: SHOAL, VERSION: label_of(self.version), WORKER: self.worker}


def image_of(version: str) -> str:
    return f"{IMAGE}:{label_of(version)}"


def label_of(version: str) -> str:
    """Returns the version as it may appear in a label or an image tag."""
    return version.replace("+", "_")


def selector(worker: str) -> str:
    """Selects the objects of a Worker's bundle, of any version."""
    return f"{MANAGED_BY}={SHOAL},{WORKER}={worker}"


def id_of(obj: Object) -> Id:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def bundle(plan: Plan) -> list[Object]:
    """Returns the objects in the order in which they are created."""
    made = [_namespace(plan), _account(plan), _policy(plan), _claim(plan), _secret(plan), _deployment(plan)]
    return [obj if obj["kind"] == "Secret" else _digested(obj) for obj in made]


def revision(objects: list[Object]) -> str:
    """Digest of a bundle without the Secret that the worker joins with."""
    return _digest([obj for obj in objects if obj["kind"] != "Secret"])


def _digested(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {REVISION: _digest(obj)}}}


def _digest(what: Any) -> str:
    return hashlib.sha256(orjson.dumps(what, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _metadata(plan: Plan) -> Object:
    return {"name": plan.name, "namespace": NAMESPACE, "labels": plan.labels}


def _namespace(plan: Plan) -> Object:
    strict = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("audit", "enforce", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {**plan.labels, **strict}},
    }


def _account(plan: Plan) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(plan),
        "automountServiceAccountToken": False,
    }


def _policy(plan: Plan) -> Object:
    """No ingress: the hub reaches the worker through the tunnel that the worker has dialled."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(plan),
        "spec": {"podSelector": {"matchLabels": _pods(plan)}, "policyTypes": ["Ingress"], "ingress": []},
    }


def _claim(plan: Plan) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(plan),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": STORAGE}}},
    }


def _secret(plan: Plan) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(plan),
        "type": "Opaque",
        "data": {KUBECONFIG: base64.b64encode(plan.kubeconfig.encode()).decode()},
    }


def _pods(plan: Plan) -> dict[str, str]:
    return {APP: "shoal-worker", WORKER: plan.worker}


def _deployment(plan: Plan) -> Object:
    """Recreate: a second pod on the same volume would find it locked."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(plan),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _pods(plan)},
            "template": {"metadata": {"labels": _pods(plan)}, "spec": _pod(plan)},
        },
    }


def _pod(plan: Plan) -> Object:
    return {
        "serviceAccountName": plan.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(plan)],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": plan.name}},
            {"name": "hub", "secret": {"secretName": plan.name, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def _container(plan: Plan) -> Object:
    flags = {
        "--name": plan.worker,
        "--hub-kubeconfig": f"{JOINING}/{KUBECONFIG}",
        "--data-dir": DATA,
        "--listen": f"0.0.0.0:{PORT}",
    }
    return {
        "name": "worker",
        "image": plan.image or image_of(plan.version),
        "imagePullPolicy": "IfNotPresent",
        "args": ["worker", *(word for flag in flags.items() for word in flag)],
        "ports": [{"name": "api", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": _probe("/readyz", 2, 150),
        "readinessProbe": _probe("/readyz", 5, 3),
        "livenessProbe": _probe("/livez", 10, 6),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": VOLUME},
            {"name": "hub", "mountPath": JOINING, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _probe(path: str, seconds: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "api", "scheme": "HTTPS"},
        "periodSeconds": seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def hub_kubeconfig(server: str, authority: str, token: str) -> str:
    """Returns the kubeconfig with which the worker joins. Without a token it only identifies the hub, which is enough
    for a worker that has joined.
    """
    user: Object = {"token": token} if token else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "hub",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                },
            }
        ],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "joining"}}],
        "current-context": "hub",
        "users": [{"name": "joining", "user": user}],
    }
    return yaml.safe_dump(config, sort_keys=False)
