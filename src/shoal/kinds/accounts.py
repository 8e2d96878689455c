"""What every namespace is given: the ServiceAccount `default` and the ConfigMap with the root certificate. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

ACCOUNT = "default"
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
