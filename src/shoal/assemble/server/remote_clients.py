"""Clients for the clusters that kubeconfigs in the API name.

A kubeconfig from the API may reference no file of this machine and no program. One that names this very server needs no
socket: hosted clusters are called through this server, with the same credentials. A worker writes the kubeconfig of a
ManagedCluster; whatever host it names, the hub connects to its own path of that ManagedCluster.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from shoal.client.egress import EgressPolicy
from shoal.client.fencing import IsLeader, fence_client
from shoal.client.kubeconfig import KubeconfigError, new_client, rest_config_of
from shoal.client.path_prefix import PathPrefixTransport
from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.sync.remote_cluster import HOSTED_PATH, NewClient

USER_AGENT = "shoal-syncer"


def connector_for(
    url: str,
    transport: Transport,
    agent: str = USER_AGENT,
    lease_check: IsLeader | None = None,
    egress: EgressPolicy | None = None,
) -> NewClient:
    """For a process whose own server is at `url` and is called through `transport`. Other servers are written to only
    while `lease_check` returns True, and connected to if `egress` allows their addresses.
    """

    def connect(kubeconfig: dict[str, Any]) -> Client:
        endpoint = rest_config_of(kubeconfig, source="the kubeconfig")
        hosted_path = str(kubeconfig.get(HOSTED_PATH) or "")
        if hosted_path:
            if urlsplit(endpoint.server).path.rstrip("/") != hosted_path:
                raise KubeconfigError(
                    f"the kubeconfig of a ManagedCluster must name its path at the hub, {hosted_path}"
                )
            return Client(PathPrefixTransport(transport, hosted_path), endpoint.token, agent)
        path = endpoint.server.removeprefix(url)
        if path != endpoint.server and (not path or path.startswith("/")):
            return Client(PathPrefixTransport(transport, path.rstrip("/")), endpoint.token, agent)
        return fence_client(new_client(endpoint, agent, egress=egress), lease_check)

    return connect
