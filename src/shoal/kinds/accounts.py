"""ServiceAccount of core/v1, and the objects every namespace gets: the ServiceAccount `default` and the root CA
ConfigMap. Pure.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

ACCOUNT = "default"
MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
ROOT_CA = "kube-root-ca.crt"
DESCRIPTION = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


def default_account(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}}


def root_ca(namespace: str, authority: str) -> Object:
    metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": DESCRIPTION}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": authority}}


def only_names(new: Object, old: Object | None = None) -> None:
    """Prunes `secrets[]` to their names. All secrets of an account are in its own namespace."""
    if new.get("secrets"):
        new["secrets"] = [{"name": each["name"]} if each.get("name") else {} for each in new["secrets"]]


def warn_account(obj: Object, old: Object | None) -> list[str]:
    if MOUNTABLE not in (obj["metadata"].get("annotations") or {}):
        return []
    if old is not None and MOUNTABLE in (old["metadata"].get("annotations") or {}):
        return []
    why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{MOUNTABLE}]: {why}"]
