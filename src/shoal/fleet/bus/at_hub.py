"""A worker's calls to the hub's API, whichever bus is used: kubeconfigs are Secrets and never go over the bus."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client
from shoal.fleet.bus.interface import Message, NameTaken
from shoal.fleet.bus.secret import is_left_over, is_of, kubeconfig_secret
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS, SECRETS
from shoal.kinds import fleet
from shoal.objects.errors import Forbidden, NotFound

Object = dict[str, Any]

TAKEN = "Secret {} is there already and is somebody else's; rename or delete it"


def status_body(message: Message, status: Object) -> Object:
    """Body of a status update: the rest of the object does not need to travel."""
    metadata = message.managed["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": fleet.API_VERSION, "kind": fleet.MANAGED_CLUSTER, "metadata": kept, "status": status}


async def hub_id(hub: Client) -> str:
    """Another store is another hub, whatever its address."""
    root = await hub.get(LOGICAL_CLUSTERS, "root")
    return str(root["metadata"]["uid"])


async def publish_kubeconfig(hub: Client, message: Message, kubeconfig: str) -> None:
    namespace, _ = message.name
    wanted = kubeconfig_secret(message.managed, kubeconfig)
    name = wanted["metadata"]["name"]
    try:
        found = await hub.get(SECRETS, name, namespace)
    except NotFound:
        await hub.create(SECRETS, wanted, namespace)
        return
    except Forbidden:
        # A worker may only read kubeconfig Secrets, and only those of its own ManagedClusters.
        await hub.get(MANAGED_CLUSTERS, message.name[1], namespace)
        raise NameTaken(TAKEN.format(name)) from None
    if is_left_over(found, message.managed):
        await hub.delete(SECRETS, name, namespace, uid=found["metadata"]["uid"])
        await hub.create(SECRETS, wanted, namespace)
    elif not is_of(found, message.mark.uid):
        raise NameTaken(TAKEN.format(name))
    elif found.get("data") != wanted["data"]:
        await hub.merge(SECRETS, name, {"data": wanted["data"]}, namespace)


async def withdraw_kubeconfig(hub: Client, message: Message) -> None:
    namespace, name = message.name
    secret_name = fleet.kubeconfig_secret(name)
    try:
        secret = await hub.get(SECRETS, secret_name, namespace)
        if is_of(secret, message.mark.uid):
            await hub.delete(SECRETS, secret_name, namespace, uid=secret["metadata"]["uid"])
    except (NotFound, Forbidden):
        pass  # If there is one, it belongs to another object.
