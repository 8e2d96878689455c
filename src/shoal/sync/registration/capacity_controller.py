"""Reconciles the capacity in the status of each workload Cluster with its nodes and pods.

One cluster is written at most every few seconds. The capacity of a cluster that does not respond stays as it was.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.objects.conditions import condition_is, get_condition
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer
from shoal.sync.cluster_status import update_status
from shoal.sync.registration.capacity import ClusterCapacity, crosses_zero
from shoal.sync.remote_cluster import ConnectFunc, is_pull_mode
from shoal.sync.remote_watches import RemoteWatches
from shoal.sync.resources import CLUSTERS, NODE_POOLS, NODES, PODS

Object = dict[str, Any]

MIN_WRITE_INTERVAL = 3.0
FIELDS = ("capacity", "allocatable", "available", *workloadcluster.ROOM_FIELDS)
RUNNING_PODS = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class CapacityReconciler:
    """Keys are names of workload Clusters."""

    def __init__(
        self, client: Client, clock: Clock, connect: ConnectFunc, *, only: str = "", mode: str = workloadcluster.PUSH
    ) -> None:
        """`only`: the single workload Cluster, in its own syncer; else all that the hub can reach."""
        self._client, self._clock, self._only, self._mode = client, clock, only, mode
        self.controller: Controller[str] = Controller("capacity", clock, self.reconcile)
        fields = f"metadata.name={only}" if only else ""
        self._clusters = Informer(client, CLUSTERS, clock, fields=fields)
        self._nodes = RemoteWatches(clock, connect, NODES, self._on_node_list, self._on_node)
        self._pods = RemoteWatches(
            clock, connect, PODS, self._on_pod_list, self._on_pod, on_refused=self._on_pods_refused, fields=RUNNING_PODS
        )
        self._pools = RemoteWatches(
            clock,
            connect,
            NODE_POOLS,
            lambda name, objects: self._capacity_of(name).set_pools(objects),
            lambda name, event, obj: self._capacity_of(name).on_pool(event, obj),
            on_refused=lambda name: self._capacity_of(name).set_pools([]),
        )
        self._watches = (self._nodes, self._pods, self._pools)
        self.controller.watch(self._clusters, self._on_cluster)
        self.controller.sources += [watches.run for watches in self._watches]
        self._capacities: dict[str, ClusterCapacity] = {}
        self._written_at: dict[str, float] = {}

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        name = key[2]
        if new is None:
            self._capacities.pop(name, None)
            self._written_at.pop(name, None)
        if new is None or not _responds(new) or (not self._only and is_pull_mode(new, self._mode)):
            for watches in self._watches:
                watches.stop(name)
            return
        self._capacities.setdefault(name, ClusterCapacity())
        for watches in self._watches:
            watches.start(new)

    def _capacity_of(self, name: str) -> ClusterCapacity:
        self.controller.queue.add(name)
        return self._capacities.setdefault(name, ClusterCapacity())

    def _on_node_list(self, name: str, objects: list[Object]) -> None:
        self._capacity_of(name).set_nodes(objects)

    def _on_node(self, name: str, event: str, obj: Object) -> None:
        self._capacity_of(name).on_node(event, obj)

    def _on_pod_list(self, name: str, objects: list[Object]) -> None:
        self._capacity_of(name).set_pods(objects)

    def _on_pod(self, name: str, event: str, obj: Object) -> None:
        self._capacity_of(name).on_pod(event, obj)

    def _on_pods_refused(self, name: str) -> None:
        capacity = self._capacity_of(name)
        capacity.pods, capacity.pods_unreadable = None, True

    async def reconcile(self, name: str) -> float | None:
        """Returns when to come back for a postponed write."""
        capacity, cluster = self._capacities.get(name), self._clusters.get(("", "", name))
        if capacity is None or cluster is None or not capacity.is_known:
            return None
        totals, status = capacity.totals(), cluster.get("status") or {}
        if all(status.get(field) == totals.get(field) for field in FIELDS):
            return None
        remaining = self._written_at.get(name, -MIN_WRITE_INTERVAL) + MIN_WRITE_INTERVAL - self._clock.monotonic()
        if remaining > 0 and not crosses_zero(status, totals):
            return remaining
        uid = cluster["metadata"]["uid"]

        def mutate(obj: Object) -> Object:
            had = obj.get("status") or {}
            if obj["metadata"]["uid"] != uid or all(had.get(field) == totals.get(field) for field in FIELDS):
                return obj
            return {**obj, "status": {**{key: had[key] for key in had if key not in FIELDS}, **totals}}

        await update_status(self._client, CLUSTERS, name, "", mutate)
        self._written_at[name] = self._clock.monotonic()
        return None


def _responds(cluster: Object) -> bool:
    """By its heartbeat; if there is none, by the importer's condition."""
    if get_condition(cluster, workloadcluster.HEARTBEAT_HEALTHY) is None:
        return condition_is(cluster, workloadcluster.IMPORTER_READY)
    return condition_is(cluster, workloadcluster.HEARTBEAT_HEALTHY)
