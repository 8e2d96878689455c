"""Reads which object a kind cluster was created for: its Nodes carry the uid in a label."""

from __future__ import annotations

import asyncio

from shoal.client.kubeconfig import KubeconfigError, new_client, parse, rest_config_of
from shoal.client.rest import GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.kinds.clusterapi import capi, kindcluster
from shoal.objects.errors import StatusError

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
TIMEOUT = 5.0
_SOURCE = "kind's kubeconfig"


async def owner_uid_of(kubeconfig: str) -> str | None:
    """The uid, empty if no Node has one. None: the API does not respond, or there are no Nodes yet."""
    try:
        client = new_client(rest_config_of(parse(kubeconfig, _SOURCE), source=_SOURCE), "shoal-kind")
    except KubeconfigError:
        return None
    try:
        async with asyncio.timeout(TIMEOUT):
            nodes, _ = await client.list_all(NODES)
    except (StatusError, Unreachable, TimeoutError):
        return None
    finally:
        await client.close()
    if not nodes:
        return None
    return max(capi.labels_of(node).get(kindcluster.OWNER_NODE_LABEL, "") for node in nodes)
