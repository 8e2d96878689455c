"""The Secret at the hub with the kubeconfig of a ManagedCluster, which owns it. Pure."""

from __future__ import annotations

import base64
from typing import Any

from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


def kubeconfig_secret(managed: Object, kubeconfig: str) -> Object:
    metadata = managed["metadata"]
    owner = {
        "apiVersion": infrav1.API_VERSION,
        "kind": infrav1.MANAGED_CLUSTER,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": infrav1.kubeconfig_secret_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {infrav1.CLUSTER_NAME: metadata["name"]},
            "ownerReferences": [owner],
        },
        "type": infrav1.CLUSTER_SECRET,
        "data": {"value": base64.b64encode(kubeconfig.encode()).decode()},
    }


def is_owned_by(secret: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in secret["metadata"].get("ownerReferences") or ())


def is_owned_by_predecessor(secret: Object, managed: Object) -> bool:
    """True if it belongs to an earlier ManagedCluster of that name."""
    owners = secret["metadata"].get("ownerReferences") or ()
    return any(
        owner.get("kind") == infrav1.MANAGED_CLUSTER
        and owner.get("name") == managed["metadata"]["name"]
        and owner.get("uid") != managed["metadata"]["uid"]
        for owner in owners
    )
