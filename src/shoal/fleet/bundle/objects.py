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

from shoal import __version__

Object = dict[str, Any]
ObjectId = tuple[str, str, str]
"""Kind, namespace and name."""

IMAGE_REPOSITORY = "ghcr.io/shoal/shoal"
"""Tagged with the release's own version, unless the hub is configured with another image."""
FIELD_MANAGER = "shoal-bundle"
"""Field manager of server-side apply."""
MANAGED_BY_LABEL, SHOAL = "app.kubernetes.io/managed-by", "shoal"
VERSION_LABEL, WORKER_LABEL = "shoal.dev/bundle-version", "shoal.dev/worker"
"""Labels of every object of a bundle, together with the one above."""
REVISION_ANNOTATION = "shoal.dev/bundle-revision"
"""Annotation: digest of the applied object, by which a field that is no longer desired is noticed."""
APP_LABEL = "app.kubernetes.io/name"

NAMESPACE = "shoal-system"
KUBECONFIG, HUB_MOUNT_PATH = "kubeconfig", "/etc/shoal/hub"
VOLUME_PATH, DATA_DIR = "/var/lib/shoal", "/var/lib/shoal/worker"
"""The data directory is below the volume: a process may only change the mode of its own directories."""
PORT, USER_ID = 6443, 65532
STORAGE_SIZE = "10Gi"


@dataclass(frozen=True, slots=True)
class BundleSpec:
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
        return {MANAGED_BY_LABEL: SHOAL, VERSION_LABEL: version_label(self.version), WORKER_LABEL: self.worker}


def image_of(version: str) -> str:
    return f"{IMAGE_REPOSITORY}:{version_label(version)}"


def version_label(version: str) -> str:
    """Returns the version as it may appear in a label or an image tag."""
    return version.replace("+", "_")


def bundle_selector(worker: str) -> str:
    """Selects the objects of a Worker's bundle, of any version."""
    return f"{MANAGED_BY_LABEL}={SHOAL},{WORKER_LABEL}={worker}"


def object_id(obj: Object) -> ObjectId:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def bundle_objects(bundle_spec: BundleSpec) -> list[Object]:
    """Returns the objects in the order in which they are created."""
    objects = [
        _namespace(bundle_spec),
        _service_account(bundle_spec),
        _network_policy(bundle_spec),
        _volume_claim(bundle_spec),
        _secret(bundle_spec),
        _deployment(bundle_spec),
    ]
    return [obj if obj["kind"] == "Secret" else _with_revision(obj) for obj in objects]


def bundle_revision(objects: list[Object]) -> str:
    """Digest of a bundle without the Secret that the worker joins with."""
    return _digest([obj for obj in objects if obj["kind"] != "Secret"])


def _with_revision(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {REVISION_ANNOTATION: _digest(obj)}}}


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _metadata(bundle_spec: BundleSpec) -> Object:
    return {"name": bundle_spec.name, "namespace": NAMESPACE, "labels": bundle_spec.labels}


def _namespace(bundle_spec: BundleSpec) -> Object:
    pod_security = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("audit", "enforce", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {**bundle_spec.labels, **pod_security}},
    }


def _service_account(bundle_spec: BundleSpec) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(bundle_spec),
        "automountServiceAccountToken": False,
    }


def _network_policy(bundle_spec: BundleSpec) -> Object:
    """No ingress: the hub reaches the worker through the tunnel that the worker has dialled."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(bundle_spec),
        "spec": {"podSelector": {"matchLabels": _pod_labels(bundle_spec)}, "policyTypes": ["Ingress"], "ingress": []},
    }


def _volume_claim(bundle_spec: BundleSpec) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(bundle_spec),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": STORAGE_SIZE}}},
    }


def _secret(bundle_spec: BundleSpec) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(bundle_spec),
        "type": "Opaque",
        "data": {KUBECONFIG: base64.b64encode(bundle_spec.kubeconfig.encode()).decode()},
    }


def _pod_labels(bundle_spec: BundleSpec) -> dict[str, str]:
    return {APP_LABEL: "shoal-worker", WORKER_LABEL: bundle_spec.worker}


def _deployment(bundle_spec: BundleSpec) -> Object:
    """Recreate: a second pod on the same volume would find it locked."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(bundle_spec),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _pod_labels(bundle_spec)},
            "template": {"metadata": {"labels": _pod_labels(bundle_spec)}, "spec": _pod_spec(bundle_spec)},
        },
    }


def _pod_spec(bundle_spec: BundleSpec) -> Object:
    return {
        "serviceAccountName": bundle_spec.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(bundle_spec)],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": bundle_spec.name}},
            {"name": "hub", "secret": {"secretName": bundle_spec.name, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def _container(bundle_spec: BundleSpec) -> Object:
    flags = {
        "--name": bundle_spec.worker,
        "--hub-kubeconfig": f"{HUB_MOUNT_PATH}/{KUBECONFIG}",
        "--data-dir": DATA_DIR,
        "--listen": f"0.0.0.0:{PORT}",
    }
    return {
        "name": "worker",
        "image": bundle_spec.image or image_of(bundle_spec.version),
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
            {"name": "data", "mountPath": VOLUME_PATH},
            {"name": "hub", "mountPath": HUB_MOUNT_PATH, "readOnly": True},
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
