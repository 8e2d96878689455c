"""Clients with which commands look into workload Clusters.

A hosted cluster is entered with a token that the hub issues to the asker, so a command shows what its user may see.
Other clusters are entered with the kubeconfig that the hub has for them, if the asker may read it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from shoal.client.kubeconfig import new_client, rest_config_of
from shoal.client.rest import Client
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1
from shoal.kinds.workload import workloadcluster
from shoal.sync.remote_cluster import kubeconfig_of

Object = dict[str, Any]

TOKEN_SECONDS = 3600


@dataclass(slots=True)
class ClusterClient:
    client: Client
    digest: str = ""
    """Of the kubeconfig it was made from; empty: it has a token of the asker."""
    renewal_time: float = 0.0
    """When such a token is replaced, by the monotonic clock."""


async def connect_cluster(hub: Client, cluster: Object, user_agent: str) -> Client:
    return (await connect_again(hub, cluster, user_agent, None)).client


async def connect_again(hub: Client, cluster: Object, user_agent: str, previous: ClusterClient | None) -> ClusterClient:
    """Returns the previous client while it is good, else a new one. The caller closes the one that is replaced."""
    origin = hosted_origin(cluster)
    if origin is not None:
        if previous is not None and not previous.digest and time.monotonic() < previous.renewal_time:
            return previous
        return ClusterClient(await _enter(hub, *origin), renewal_time=time.monotonic() + TOKEN_SECONDS / 2)
    kubeconfig = await kubeconfig_of(hub, cluster)
    if previous is not None and previous.digest == kubeconfig.digest:
        return previous
    client = kubeconfig.client(lambda config: new_client(rest_config_of(config, source="the kubeconfig"), user_agent))
    return ClusterClient(client, kubeconfig.digest)


def hosted_origin(cluster: Object) -> tuple[str, str] | None:
    """Returns namespace and name of the ManagedCluster that a workload Cluster was registered for."""
    label = (cluster["metadata"].get("labels") or {}).get(workloadcluster.MANAGED_CLUSTER_LABEL)
    reference = (cluster.get("spec") or {}).get("kubeconfigSecretRef") or {}
    namespace = str(reference.get("namespace") or "")
    name = infrav1.cluster_of_kubeconfig_secret(str(reference.get("name") or ""))
    is_origin = name and label == workloadcluster.managed_cluster_label_value(namespace, name)
    return (namespace, name) if is_origin else None


async def _enter(hub: Client, namespace: str, name: str) -> Client:
    path = hub.resource_path(MANAGED_CLUSTERS, name, namespace, "token")
    issued = await hub.request("POST", path, body={"spec": {"expirationSeconds": TOKEN_SECONDS}})
    return hub.below(infrav1.managed_cluster_path(namespace, name), issued["status"]["token"])
