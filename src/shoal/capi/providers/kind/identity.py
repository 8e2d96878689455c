"""Reads which object a kind cluster was created for: its Nodes carry the uid in a label."""

from __future__ import annotations

import asyncio

from shoal.client.kubeconfig import KubeconfigError, client_to, endpoint_of, parse
from shoal.client.requests import Kind
from shoal.client.transport import Unreachable
from shoal.kinds import capi, kindcluster
from shoal.objects.errors import StatusError

NODES = Kind("", "v1", "nodes", namespaced=False)
SECONDS = 5.0
_WHERE = "kind's kubeconfig"


async def marker_of(kubeconfig: str) -> str | None:
    """The uid, empty if no Node has one. None: the API does not respond, or there are no Nodes yet."""
    try:
        client = client_to(endpoint_of(parse(kubeconfig, _WHERE), where=_WHERE), "shoal-kind")
    except KubeconfigError:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            nodes, _ = await client.list_all(NODES)
    except (StatusError, Unreachable, TimeoutError):
        return None
    finally:
        await client.close()
    if not nodes:
        return None
    return max(capi.labels_of(node).get(kindcluster.MARKER, "") for node in nodes)
