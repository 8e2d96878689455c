"""ServiceAccount of core/v1, and the objects every namespace gets: the ServiceAccount `default` and the root CA
ConfigMap. Pure.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

DEFAULT_SERVICE_ACCOUNT = "default"
ENFORCE_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"
ROOT_CA_ANNOTATIONS = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


def default_service_account(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT_SERVICE_ACCOUNT, "namespace": namespace},
    }


def root_ca_config_map(namespace: str, ca_bundle: str) -> Object:
    metadata = {"name": ROOT_CA_CONFIG_MAP, "namespace": namespace, "annotations": ROOT_CA_ANNOTATIONS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": ca_bundle}}


def prune_secret_references(new: Object, old: Object | None = None) -> None:
    """Prunes `secrets[]` to their names. All secrets of an account are in its own namespace."""
    if new.get("secrets"):
        new["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in new["secrets"]]


def warn_service_account(obj: Object, old: Object | None) -> list[str]:
    if ENFORCE_MOUNTABLE_SECRETS not in (obj["metadata"].get("annotations") or {}):
        return []
    if old is not None and ENFORCE_MOUNTABLE_SECRETS in (old["metadata"].get("annotations") or {}):
        return []
    detail = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: {detail}"]
