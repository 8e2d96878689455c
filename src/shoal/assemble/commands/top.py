"""`shoal top`: the fleet in numbers, polled.

The hub is read at every poll. Nodes and their prices are in the clusters: each is read again only after a while, over
connections that stay open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.assemble.commands.cluster_clients import ClusterClient, connect_again
from shoal.assemble.commands.plan_nodes import machine_deployments_by_owner
from shoal.capi.conditions import TRUE, conditions_of
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from shoal.capi.providers.kind.creation_steps import progress_text
from shoal.capi.providers.kind.status import CREATING, IMAGES_LOADED, claim_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.fit.resources import CPU, parse_amounts
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.kinds.workload import workloadcluster
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Forbidden, NotFound, StatusError, Unauthorized
from shoal.provision.preview import PreviewSnapshot, node_prices
from shoal.provision.state import NODE_CLAIMS, NODE_OVERLAYS, NODE_POOLS, NODES
from shoal.sync.remote_cluster import NoKubeconfig
from shoal.sync.resources import CLUSTERS

__all__ = ["ClusterRow", "FleetPoller", "FleetSummary"]

Object = dict[str, Any]
USER_AGENT = "shoal-top"
MAX_CONCURRENT = 8
NODES_MAX_AGE_SECONDS = 10.0
"""How long the node counts of a cluster are reused."""
PLACED_KINDS = (GroupVersionResource("apps", "v1", "deployments"), GroupVersionResource("apps", "v1", "statefulsets"))


@dataclass(slots=True)
class ClusterRow:
    """A workload Cluster."""

    name: str
    worker: str = ""
    """The worker that hosts it; empty: none of this fleet."""
    phase: str = ""
    replicas: int = 0
    ready_replicas: int = 0
    nodes: int | None = None
    """None: unknown."""
    ready_nodes: int | None = None
    cpu: int | None = None
    """Percent of the allocatable CPU that pods request."""
    cost: float | None = None
    """Per hour."""
    problem: str = ""


@dataclass(slots=True)
class WorkerRow:
    name: str
    phase: str
    clusters: int
    capacity: int
    location: str = ""


@dataclass(slots=True)
class KindClusterRow:
    """A KINDCluster."""

    name: str
    """With its namespace."""
    cluster: str
    """The name of its kind cluster."""
    phase: str
    activity: str
    """The step of its creation, or why it or its images are not ready; empty: there is nothing to tell."""


@dataclass(slots=True)
class FleetSummary:
    workers: list[WorkerRow] = field(default_factory=list)
    clusters: list[ClusterRow] = field(default_factory=list)
    kind_clusters: list[KindClusterRow] = field(default_factory=list)
    waiting: int = 0
    """ManagedClusters without a Worker."""
    replicas: int = 0
    ready_replicas: int = 0
    nodes: int = 0
    cost: float = 0.0
    """Per hour, of all nodes with a price."""


@dataclass(slots=True)
class _ClusterConnection:
    cluster_client: ClusterClient
    polled_at: float = float("-inf")
    node_row: ClusterRow | None = None


class FleetPoller:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._connections: dict[str, _ClusterConnection] = {}

    async def poll(self) -> FleetSummary:
        client = self._client
        workers, managed_clusters, clusters = await asyncio.gather(
            client.list_all(WORKERS), client.list_all(MANAGED_CLUSTERS), client.list_all(CLUSTERS)
        )
        leaves = [leaf for kind in PLACED_KINDS for leaf in await self._leaves(kind)]
        summary = FleetSummary()
        managed_by_key = {
            (cluster_row["metadata"]["namespace"], cluster_row["metadata"]["name"]): cluster_row
            for cluster_row in managed_clusters[0]
        }
        summary.workers = [_worker_row(cluster_row, managed_by_key.values()) for cluster_row in workers[0]]
        summary.waiting = sum(not infrav1.assigned_worker(cluster_row) for cluster_row in managed_clusters[0])
        machines = await machine_deployments_by_owner(client)
        limit = asyncio.Semaphore(MAX_CONCURRENT)

        async def cluster_row(cluster: Object) -> ClusterRow:
            row = _cluster_row(cluster, managed_by_key, leaves)
            async with limit:
                await self._fill_nodes(cluster, row, machines)
            return row

        summary.clusters = list(await asyncio.gather(*map(cluster_row, clusters[0])))
        summary.clusters.sort(key=lambda row: row.name)
        summary.kind_clusters = await self._kind_clusters()
        await self._close_connections({row.name for row in summary.clusters})
        summary.replicas = sum(row.replicas for row in summary.clusters)
        summary.ready_replicas = sum(row.ready_replicas for row in summary.clusters)
        summary.nodes = sum(row.nodes or 0 for row in summary.clusters)
        summary.cost = sum(row.cost or 0.0 for row in summary.clusters)
        return summary

    async def close(self) -> None:
        await self._close_connections(set())

    async def _leaves(self, kind: GroupVersionResource) -> list[Object]:
        try:
            return (await self._client.list_all(kind, labels=workloadcluster.CLUSTER_LABEL))[0]
        except NotFound:
            return []  # the hub has not discovered this kind in any cluster yet

    async def _kind_clusters(self) -> list[KindClusterRow]:
        try:
            objects, _ = await self._client.list_all(KIND_CLUSTERS)
        except (NotFound, Forbidden):
            return []
        return sorted(map(kind_cluster_row, objects), key=lambda row: row.name)

    async def _fill_nodes(self, cluster: Object, row: ClusterRow, machines: dict[str, list[Object]]) -> None:
        """Fills in the columns of the cluster's nodes."""
        if row.phase != "Ready":
            return
        try:
            connection = await self._connect(cluster, row.name)
            if connection.node_row is None or time.monotonic() - connection.polled_at > NODES_MAX_AGE_SECONDS:
                connection.node_row = await _read_nodes(
                    connection.cluster_client.client, _machines_of(cluster, machines)
                )
                connection.polled_at = time.monotonic()
        except (StatusError, Unreachable, NoKubeconfig) as error:
            row.problem = str(error)
            if isinstance(error, Unauthorized) and (failed := self._connections.pop(row.name, None)) is not None:
                await failed.cluster_client.client.close()  # The cluster was created again.
            return
        row.nodes, row.ready_nodes, row.cost = (
            connection.node_row.nodes,
            connection.node_row.ready_nodes,
            connection.node_row.cost,
        )

    async def _connect(self, cluster: Object, name: str) -> _ClusterConnection:
        connection = self._connections.get(name)
        previous = connection.cluster_client if connection is not None else None
        cluster_client = await connect_again(self._client, cluster, USER_AGENT, previous)
        if connection is not None and cluster_client is previous:
            return connection
        if previous is not None:
            await previous.client.close()
        self._connections[name] = _ClusterConnection(cluster_client)
        return self._connections[name]

    async def _close_connections(self, keep: set[str]) -> None:
        for name in self._connections.keys() - keep:
            await self._connections.pop(name).cluster_client.client.close()


async def _read_nodes(inside: Client, machines: list[Object]) -> ClusterRow:
    nodes, _ = await inside.list_all(NODES)
    lists: list[list[Object]] = []
    for kind in (NODE_CLAIMS, NODE_POOLS, NODE_OVERLAYS):
        try:
            lists.append((await inside.list_all(kind))[0])
        except StatusError:
            lists.append([])  # no nodes are bought for this cluster
    claims, pools, overlays = lists
    # A NodeClaim without its node yet is paid for, so it is counted.
    prices, _ = node_prices(PreviewSnapshot(nodes, (), claims, pools, {}, overlays, deployments=machines))
    ready = sum(condition_is(node, "Ready") for node in nodes)
    return ClusterRow("", nodes=len(nodes), ready_nodes=ready, cost=sum(prices.values()) if prices else None)


def _machines_of(cluster: Object, machines: dict[str, list[Object]]) -> list[Object]:
    labels = cluster["metadata"].get("labels") or {}
    return (
        machines.get(
            labels.get(workloadcluster.MANAGED_CLUSTER_LABEL) or labels.get(workloadcluster.CAPI_CLUSTER_LABEL) or ""
        )
        or []
    )


def _worker_row(obj: Object, managed_clusters: Iterable[Object]) -> WorkerRow:
    name = obj["metadata"]["name"]
    hosted_count = sum(infrav1.assigned_worker(one) == name for one in managed_clusters)
    phase = str(infrav1.status_of(obj).get("phase") or infrav1.PENDING)
    return WorkerRow(
        name, phase, hosted_count, infrav1.capacity_of(obj), str(infrav1.spec_of(obj).get("location") or "")
    )


def kind_cluster_row(obj: Object) -> KindClusterRow:
    metadata, conditions = obj["metadata"], conditions_of(obj)
    ready, images = conditions.get("Ready"), conditions.get(IMAGES_LOADED)
    activity = ""
    if (claim_of(obj) or {}).get("state") == CREATING:
        activity = progress_text(obj)
    elif ready is not None and ready.status != TRUE:
        activity = ready.reason
    elif images is not None and images.status != TRUE:
        activity = images.reason
    phase = str((obj.get("status") or {}).get("phase") or "Pending")
    return KindClusterRow(
        f"{metadata['namespace']}/{metadata['name']}", str(obj["spec"]["clusterName"]), phase, activity
    )


def _cluster_row(
    cluster: Object, managed_by_key: dict[tuple[str, str], Object], leaves: Iterable[Object]
) -> ClusterRow:
    name, status = cluster["metadata"]["name"], cluster.get("status") or {}
    row = ClusterRow(name, phase="Ready" if workloadcluster.is_ready(cluster) else "NotReady")
    label = (cluster["metadata"].get("labels") or {}).get(workloadcluster.MANAGED_CLUSTER_LABEL)
    for key in workloadcluster.candidate_managed_clusters(name):
        if key in managed_by_key and workloadcluster.managed_cluster_label_value(*key) == label:
            row.worker = infrav1.assigned_worker(managed_by_key[key])
    for leaf in leaves:
        if workloadcluster.assigned_cluster(leaf) == name:
            row.replicas += int((leaf.get("spec") or {}).get("replicas") or 0)
            row.ready_replicas += int((leaf.get("status") or {}).get("readyReplicas") or 0)
    allocatable, available = (
        parse_amounts(status.get("allocatable")).get(CPU, 0),
        parse_amounts(status.get("available")).get(CPU),
    )
    if allocatable and available is not None:
        row.cpu = round(100 * (allocatable - available) / allocatable)
    return row
