"""Clients for the clusters that kubeconfigs in the API name.

A kubeconfig from the API may reference no file of this machine and no program. One that names this very server needs no
socket: hosted clusters of in-process workers are called directly, with the same credentials.
"""

from __future__ import annotations

from typing import Any

from shoal.client.fencing import IsLeader, fence_client
from shoal.client.kubeconfig import new_client, rest_config_of
from shoal.client.path_prefix import PathPrefixTransport
from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.sync.remote_cluster import NewClient

USER_AGENT = "shoal-syncer"


def connector_for(
    url: str, transport: Transport, agent: str = USER_AGENT, lease_check: IsLeader | None = None
) -> NewClient:
    """For a process whose own server is at `url` and is called through `transport`. Other servers are written to only
    while `lease_check` returns True.
    """

    def connect(kubeconfig: dict[str, Any]) -> Client:
        endpoint = rest_config_of(kubeconfig, source="the kubeconfig")
        path = endpoint.server.removeprefix(url)
        if path != endpoint.server and (not path or path.startswith("/")):
            return Client(PathPrefixTransport(transport, path.rstrip("/")), endpoint.token, agent)
        return fence_client(new_client(endpoint, agent), lease_check)

    return connect
