"""The Secret at the hub with the kubeconfig of a ManagedCluster, which owns it. Pure."""

from __future__ import annotations

import base64
from typing import Any

from shoal.kinds import fleet

Object = dict[str, Any]


def kubeconfig_secret(managed: Object, kubeconfig: str) -> Object:
    metadata = managed["metadata"]
    owner = {
        "apiVersion": fleet.API_VERSION,
        "kind": fleet.MANAGED_CLUSTER,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": fleet.kubeconfig_secret(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {fleet.CLUSTER_NAME: metadata["name"]},
            "ownerReferences": [owner],
        },
        "type": fleet.CLUSTER_SECRET,
        "data": {"value": base64.b64encode(kubeconfig.encode()).decode()},
    }


def is_of(secret: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in secret["metadata"].get("ownerReferences") or ())


def is_left_over(secret: Object, managed: Object) -> bool:
    """True if it belongs to an earlier ManagedCluster of that name."""
    owners = secret["metadata"].get("ownerReferences") or ()
    return any(
        owner.get("kind") == fleet.MANAGED_CLUSTER
        and owner.get("name") == managed["metadata"]["name"]
        and owner.get("uid") != managed["metadata"]["uid"]
        for owner in owners
    )
