"""The bundle of a worker as files, for users who install it themselves: the same objects a hub applies."""

from __future__ import annotations

from typing import Any

import yaml

from shoal.fleet.bundle.objects import KUBECONFIG, NAMESPACE, BundleSpec, bundle_objects

JOIN_KUBECONFIG_FILE = "hub.kubeconfig"


def installable_objects(worker: str, image: str = "") -> list[dict[str, Any]]:
    """Returns all objects except the Secret with the join kubeconfig."""
    return [obj for obj in bundle_objects(BundleSpec(worker, image=image)) if obj["kind"] != "Secret"]


def secret_name(worker: str) -> str:
    return BundleSpec(worker).name


def bundle_yaml(worker: str, image: str = "") -> list[str]:
    return [_to_yaml(obj) for obj in installable_objects(worker, image)]


def bundle_files(worker: str, image: str = "") -> dict[str, str]:
    """Returns files by name, for a directory for `kubectl apply -k`."""
    documents = {f"{obj['kind'].lower()}.yaml": _to_yaml(obj) for obj in installable_objects(worker, image)}
    plan = BundleSpec(worker)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(documents),
        "secretGenerator": [
            {"name": plan.name, "namespace": NAMESPACE, "files": [f"{KUBECONFIG}={JOIN_KUBECONFIG_FILE}"]}
        ],
        "generatorOptions": {"disableNameSuffixHash": True, "labels": plan.labels},
    }
    header = f"# First: shoal join-token create --name {worker} -o kubeconfig > {JOIN_KUBECONFIG_FILE}\n"
    return {**documents, "kustomization.yaml": header + _to_yaml(kustomization)}


def _to_yaml(obj: dict[str, Any]) -> str:
    return yaml.safe_dump(obj, sort_keys=False)
