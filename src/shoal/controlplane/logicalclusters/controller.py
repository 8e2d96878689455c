"""The LogicalCluster loop: everything in a cluster goes before the cluster does."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.logicalclusters.decide import is_terminating, order, without_finalizer
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.controller import Controller

Object = dict[str, Any]

CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)
NEEDED = {"list", "delete", "patch"}
TOGETHER = 64


def logical_cluster_controller(client: Client, clock: Clock) -> Controller:
    loop = LogicalClusterLoop(client)
    return Controller("logicalclusters", client, CLUSTERS, clock, is_terminating, loop.reconcile)


class LogicalClusterLoop:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key, seen: Object) -> float | None:
        name = key[2]
        inside = self._client.at(name)
        kinds = [kind for kind, verbs in await inside.discover() if verbs >= NEEDED]
        for kind in order(kinds):
            await self._purge(inside, kind)
        try:
            cluster = await self._client.get(CLUSTERS, name)
            await self._client.update(CLUSTERS, without_finalizer(cluster))
        except NotFound:
            pass
        return None

    async def _purge(self, inside: Client, kind: Kind) -> None:
        """Finalizers do not hold a cluster that is going: nobody is left inside to act on them."""
        try:
            found, _ = await inside.list_all(kind)
        except NotFound:
            return
        for start in range(0, len(found), TOGETHER):
            await asyncio.gather(*(self._remove(inside, kind, obj) for obj in found[start : start + TOGETHER]))

    async def _remove(self, inside: Client, kind: Kind, obj: Object) -> None:
        metadata = obj["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        try:
            if metadata.get("finalizers"):
                await inside.merge(kind, name, {"metadata": {"finalizers": None}}, namespace)
            left = await inside.delete(kind, name, namespace)
            if left.get("kind") == "Namespace":
                await inside.update(kind, {**left, "spec": {}}, "finalize")
            elif left.get("kind") != "Status":
                await inside.merge(kind, name, {"metadata": {"finalizers": None}}, namespace)
        except (NotFound, Conflict):
            pass
