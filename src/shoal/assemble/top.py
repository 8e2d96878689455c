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

from shoal.assemble.plan_nodes import machines_by_owner
from shoal.client.kubeconfig import client_to, endpoint_of
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.fit.resources import CPU, amounts
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet, workload
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound, StatusError
from shoal.provision.preview import Snapshot, prices
from shoal.provision.view import CLAIMS, NODES, OVERLAYS, POOLS
from shoal.sync.connecting import NoKubeconfig, kubeconfig_of
from shoal.sync.resources import CLUSTERS

__all__ = ["Fleet", "Row", "Top"]

Object = dict[str, Any]
AGENT = "shoal-top"
AT_ONCE = 8
NODES_SECONDS = 10.0
"""How long the node counts of a cluster are reused."""
PLACED = (Kind("apps", "v1", "deployments"), Kind("apps", "v1", "statefulsets"))


@dataclass(slots=True)
class Row:
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
class Fleet:
    workers: list[WorkerRow] = field(default_factory=list)
    clusters: list[Row] = field(default_factory=list)
    waiting: int = 0
    """ManagedClusters without a Worker."""
    replicas: int = 0
    ready_replicas: int = 0
    nodes: int = 0
    cost: float = 0.0
    """Per hour, of all nodes with a price."""


@dataclass(slots=True)
class _Inside:
    client: Client
    digest: str
    seen: float = float("-inf")
    row: Row | None = None


class Top:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._inside: dict[str, _Inside] = {}

    async def look(self) -> Fleet:
        client = self._client
        workers, managed, clusters = await asyncio.gather(
            client.list_all(WORKERS), client.list_all(MANAGED_CLUSTERS), client.list_all(CLUSTERS)
        )
        leaves = [leaf for kind in PLACED for leaf in await self._leaves(kind)]
        found = Fleet()
        hosted = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in managed[0]}
        found.workers = [_worker(one, hosted.values()) for one in workers[0]]
        found.waiting = sum(not fleet.assigned_worker(one) for one in managed[0])
        machines = await machines_by_owner(client)
        room = asyncio.Semaphore(AT_ONCE)

        async def one(cluster: Object) -> Row:
            row = _row(cluster, hosted, leaves)
            async with room:
                await self._nodes(cluster, row, machines)
            return row

        found.clusters = list(await asyncio.gather(*map(one, clusters[0])))
        found.clusters.sort(key=lambda row: row.name)
        await self._forget({row.name for row in found.clusters})
        found.replicas = sum(row.replicas for row in found.clusters)
        found.ready_replicas = sum(row.ready_replicas for row in found.clusters)
        found.nodes = sum(row.nodes or 0 for row in found.clusters)
        found.cost = sum(row.cost or 0.0 for row in found.clusters)
        return found

    async def close(self) -> None:
        await self._forget(set())

    async def _leaves(self, kind: Kind) -> list[Object]:
        try:
            return (await self._client.list_all(kind, labels=workload.ASSIGNED))[0]
        except NotFound:
            return []  # the hub has not discovered this kind in any cluster yet

    async def _nodes(self, cluster: Object, row: Row, machines: dict[str, list[Object]]) -> None:
        """Fills in the columns of the cluster's nodes."""
        if row.phase != "Ready":
            return
        try:
            there = await self._reach(cluster, row.name)
            if there.row is None or time.monotonic() - there.seen > NODES_SECONDS:
                there.row = await _look(there.client, _machines_of(cluster, machines))
                there.seen = time.monotonic()
        except (StatusError, Unreachable, NoKubeconfig) as error:
            row.problem = str(error)
            return
        row.nodes, row.ready_nodes, row.cost = there.row.nodes, there.row.ready_nodes, there.row.cost

    async def _reach(self, cluster: Object, name: str) -> _Inside:
        known = self._inside.get(name)
        kubeconfig = await kubeconfig_of(self._client, cluster)
        if known is not None and known.digest == kubeconfig.digest:
            return known
        if known is not None:
            await known.client.close()
        client = kubeconfig.client(lambda config: client_to(endpoint_of(config, where="the kubeconfig"), AGENT))
        self._inside[name] = _Inside(client, kubeconfig.digest)
        return self._inside[name]

    async def _forget(self, all_but: set[str]) -> None:
        for name in self._inside.keys() - all_but:
            await self._inside.pop(name).client.close()


async def _look(inside: Client, machines: list[Object]) -> Row:
    nodes, _ = await inside.list_all(NODES)
    lists: list[list[Object]] = []
    for kind in (CLAIMS, POOLS, OVERLAYS):
        try:
            lists.append((await inside.list_all(kind))[0])
        except StatusError:
            lists.append([])  # no nodes are bought for this cluster
    claims, pools, overlays = lists
    # A NodeClaim without its node yet is paid for, so it is counted.
    known, _ = prices(Snapshot(nodes, (), claims, pools, {}, overlays, deployments=machines))
    ready = sum(condition_is(node, "Ready") for node in nodes)
    return Row("", nodes=len(nodes), ready_nodes=ready, cost=sum(known.values()) if known else None)


def _machines_of(cluster: Object, machines: dict[str, list[Object]]) -> list[Object]:
    labels = cluster["metadata"].get("labels") or {}
    return machines.get(labels.get(workload.MANAGED) or labels.get(workload.CLUSTER_API) or "") or []


def _worker(obj: Object, managed: Iterable[Object]) -> WorkerRow:
    name = obj["metadata"]["name"]
    has = sum(fleet.assigned_worker(one) == name for one in managed)
    phase = str(fleet.status_of(obj).get("phase") or fleet.PENDING)
    return WorkerRow(name, phase, has, fleet.capacity_of(obj), str(fleet.spec_of(obj).get("location") or ""))


def _row(cluster: Object, hosted: dict[tuple[str, str], Object], leaves: Iterable[Object]) -> Row:
    name, status = cluster["metadata"]["name"], cluster.get("status") or {}
    row = Row(name, phase="Ready" if workload.is_ready(cluster) else "NotReady")
    label = (cluster["metadata"].get("labels") or {}).get(workload.MANAGED)
    for key in workload.managed_by_name(name):
        if key in hosted and workload.managed_value(*key) == label:
            row.worker = fleet.assigned_worker(hosted[key])
    for leaf in leaves:
        if workload.assigned_to(leaf) == name:
            row.replicas += int((leaf.get("spec") or {}).get("replicas") or 0)
            row.ready_replicas += int((leaf.get("status") or {}).get("readyReplicas") or 0)
    have, left = amounts(status.get("allocatable")).get(CPU, 0), amounts(status.get("available")).get(CPU)
    if have and left is not None:
        row.cpu = round(100 * (have - left) / have)
    return row
