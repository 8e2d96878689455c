"""The bundle of a worker as files, for users who install it themselves: the same objects a hub applies."""

from __future__ import annotations

from typing import Any

import yaml

from shoal.fleet.bundle.objects import KUBECONFIG, NAMESPACE, Plan, bundle

JOIN_FILE = "hub.kubeconfig"


def objects(worker: str, image: str = "") -> list[dict[str, Any]]:
    """Returns all objects except the Secret with the join kubeconfig."""
    return [obj for obj in bundle(Plan(worker, image=image)) if obj["kind"] != "Secret"]


def secret_name(worker: str) -> str:
    return Plan(worker).name


def texts(worker: str, image: str = "") -> list[str]:
    return [_text(obj) for obj in objects(worker, image)]


def files(worker: str, image: str = "") -> dict[str, str]:
    """Returns files by name, for a directory for `kubectl apply -k`."""
    made = {f"{obj['kind'].lower()}.yaml": _text(obj) for obj in objects(worker, image)}
    plan = Plan(worker)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(made),
        "secretGenerator": [{"name": plan.name, "namespace": NAMESPACE, "files": [f"{KUBECONFIG}={JOIN_FILE}"]}],
        "generatorOptions": {"disableNameSuffixHash": True, "labels": plan.labels},
    }
    first = f"# First: shoal join-token create --name {worker} -o kubeconfig > {JOIN_FILE}\n"
    return {**made, "kustomization.yaml": first + _text(kustomization)}


def _text(obj: dict[str, Any]) -> str:
    return yaml.safe_dump(obj, sort_keys=False)
