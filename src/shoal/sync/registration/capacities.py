"""Reconciles the capacity in the status of each workload Cluster with its nodes and pods.

One cluster is written at most every few seconds. The capacity of a cluster that does not respond stays as it was.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.conditions import condition_is, get_condition
from shoal.runtime.loop import Loop
from shoal.sync.connecting import Reach, dials_in
from shoal.sync.following import Following
from shoal.sync.registration.capacity import Ledger, crosses_zero
from shoal.sync.reporting import update_status
from shoal.sync.resources import CLUSTERS, NODES, PODS

Object = dict[str, Any]

PACE_SECONDS = 3.0
FIELDS = ("capacity", "allocatable", "available")
RUNNING = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class Capacities:
    """Keys are names of workload Clusters."""

    def __init__(
        self, client: Client, clock: Clock, reach: Reach, *, only: str = "", mode: str = workload.PUSH
    ) -> None:
        """`only`: the single workload Cluster, in its own syncer; else all that the hub can reach."""
        self._client, self._clock, self._only, self._mode = client, clock, only, mode
        self.loop: Loop[str] = Loop("capacity", clock, self.reconcile)
        fields = f"metadata.name={only}" if only else ""
        self._clusters = Reflector(client, CLUSTERS, clock, self._cluster, fields=fields, shared=True)
        self._nodes = Following(clock, reach, NODES, self._nodes_listed, self._node)
        self._pods = Following(
            clock, reach, PODS, self._pods_listed, self._pod, refused=self._pods_refused, fields=RUNNING
        )
        self.loop.sources += [self._clusters.run, self._nodes.run, self._pods.run]
        self._ledgers: dict[str, Ledger] = {}
        self._written: dict[str, float] = {}

    def _cluster(self, key: Key, obj: Object | None) -> None:
        name = key[2]
        if obj is None:
            self._ledgers.pop(name, None)
            self._written.pop(name, None)
        if obj is None or not _answers(obj) or (not self._only and dials_in(obj, self._mode)):
            self._nodes.leave(name)
            self._pods.leave(name)
            return
        self._ledgers.setdefault(name, Ledger())
        self._nodes.follow(obj)
        self._pods.follow(obj)

    def _ledger(self, name: str) -> Ledger:
        self.loop.queue.add(name)
        return self._ledgers.setdefault(name, Ledger())

    def _nodes_listed(self, name: str, found: list[Object]) -> None:
        self._ledger(name).nodes_listed(found)

    def _node(self, name: str, event: str, obj: Object) -> None:
        self._ledger(name).node_changed(event, obj)

    def _pods_listed(self, name: str, found: list[Object]) -> None:
        self._ledger(name).pods_listed(found)

    def _pod(self, name: str, event: str, obj: Object) -> None:
        self._ledger(name).pod_changed(event, obj)

    def _pods_refused(self, name: str) -> None:
        ledger = self._ledger(name)
        ledger.pods, ledger.unreadable = None, True

    async def reconcile(self, name: str) -> float | None:
        """Returns when to come back for a postponed write."""
        ledger, cluster = self._ledgers.get(name), self._clusters.objects.get(("", "", name))
        if ledger is None or cluster is None or not ledger.known:
            return None
        totals, status = ledger.totals(), cluster.get("status") or {}
        if all(status.get(field) == totals.get(field) for field in FIELDS):
            return None
        left = self._written.get(name, -PACE_SECONDS) + PACE_SECONDS - self._clock.monotonic()
        if left > 0 and not crosses_zero(status, totals):
            return left
        uid = cluster["metadata"]["uid"]

        def changed(obj: Object) -> Object:
            had = obj.get("status") or {}
            if obj["metadata"]["uid"] != uid or all(had.get(field) == totals.get(field) for field in FIELDS):
                return obj
            return {**obj, "status": {**{key: had[key] for key in had if key not in FIELDS}, **totals}}

        await update_status(self._client, CLUSTERS, name, "", changed)
        self._written[name] = self._clock.monotonic()
        return None


def _answers(cluster: Object) -> bool:
    """By its heartbeat; if there is none, by the importer's condition."""
    if get_condition(cluster, workload.HEARTBEAT_HEALTHY) is None:
        return condition_is(cluster, workload.IMPORTER_READY)
    return condition_is(cluster, workload.HEARTBEAT_HEALTHY)
