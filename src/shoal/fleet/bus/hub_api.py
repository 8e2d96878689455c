"""A worker's calls to the hub's API, whichever bus is used: kubeconfigs are Secrets and never go over the bus."""

from __future__ import annotations

import base64
from typing import Any

from shoal.client.rest import Client
from shoal.fleet.bus.interface import BusMessage, KubeconfigSecretConflict
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS, SECRETS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import Forbidden, NotFound


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


Object = dict[str, Any]

SECRET_CONFLICT = "Secret {} already exists and does not belong to this ManagedCluster; rename or delete it"


def status_body(message: BusMessage, status: Object) -> Object:
    """Body of a status update: the rest of the object does not need to travel."""
    metadata = message.managed["metadata"]
    identity = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": infrav1.API_VERSION, "kind": infrav1.MANAGED_CLUSTER, "metadata": identity, "status": status}


async def hub_id(hub: Client) -> str:
    """Another store is another hub, whatever its address."""
    root = await hub.get(LOGICAL_CLUSTERS, "root")
    return str(root["metadata"]["uid"])


async def publish_kubeconfig(hub: Client, message: BusMessage, kubeconfig: str) -> None:
    namespace, _ = message.name
    desired = kubeconfig_secret(message.managed, kubeconfig)
    name = desired["metadata"]["name"]
    try:
        existing = await hub.get(SECRETS, name, namespace)
    except NotFound:
        await hub.create(SECRETS, desired, namespace)
        return
    except Forbidden:
        # A worker may only read kubeconfig Secrets, and only those of its own ManagedClusters.
        await hub.get(MANAGED_CLUSTERS, message.name[1], namespace)
        raise KubeconfigSecretConflict(SECRET_CONFLICT.format(name)) from None
    if is_owned_by_predecessor(existing, message.managed):
        await hub.delete(SECRETS, name, namespace, uid=existing["metadata"]["uid"])
        await hub.create(SECRETS, desired, namespace)
    elif not is_owned_by(existing, message.version.uid):
        raise KubeconfigSecretConflict(SECRET_CONFLICT.format(name))
    elif existing.get("data") != desired["data"]:
        await hub.merge_patch(SECRETS, name, {"data": desired["data"]}, namespace)


async def delete_kubeconfig(hub: Client, message: BusMessage) -> None:
    namespace, name = message.name
    secret_name = infrav1.kubeconfig_secret_name(name)
    try:
        secret = await hub.get(SECRETS, secret_name, namespace)
        if is_owned_by(secret, message.version.uid):
            await hub.delete(SECRETS, secret_name, namespace, uid=secret["metadata"]["uid"])
    except (NotFound, Forbidden):
        pass  # If there is one, it belongs to another object.
