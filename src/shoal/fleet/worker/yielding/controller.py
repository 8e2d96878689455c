"""Hands over: a cluster that the hub has assigned to another worker is closed here, and deleted when that worker has
restored it.

It is deleted below the API, so that no finalizer acts on what now belongs to the other worker. Silence of the hub about
a cluster is no reason; a later epoch with another worker is. The copy records that, and the hub is told by removing
this worker from `status.formerWorkers`: until then the hub keeps the ManagedCluster.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.data import Data
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.parts import Parts
from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.fleet.worker.yielding.decide import LEFT, Verdict, has_left, verdict, without
from shoal.kinds import embedded, fleet
from shoal.objects.errors import Forbidden, NotFound
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

LOOK_SECONDS = 2.0
SELDOM_SECONDS = 60.0


class Yielding:
    def __init__(self, parts: Parts, data: Data, fence: Fence) -> None:
        self._hub, self._own, self._bus, self._root = parts.hub, parts.own, parts.bus, parts.root
        self._registration = parts.registration
        self._data, self._fence, self._worker = data, fence, parts.worker
        self._awaited: set[Name] = set()
        """ManagedClusters for which the hub waits for the confirmation that nothing is left here."""
        parts.registration.on_awaited = self._await
        self.loop: Loop[Name] = Loop("fleet-yielding", parts.clock, self.reconcile)
        parts.bus.listen(self.loop.queue.add)
        parts.root.listen(self.loop.queue.add)

    async def reconcile(self, name: Name) -> float | None:
        if not self._root.synced:
            raise Later("the worker's own root has not been listed yet")
        copy, message = self._root.get(MANAGED_CLUSTERS, *name), self._bus.newest(name)
        hosted = embedded.hosted_name(*name)
        if copy is None:
            if message is None and name in self._awaited and not self._data.contents(hosted).entries:
                await self._say_gone(name, None)
                self._awaited.discard(name)
            return None
        if message is not None:  # The hub has it assigned to this worker.
            self._fence.open(hosted, self.loop.name)
            return None
        if not self._registration.joined.is_set():
            raise Later("the hub has not let this worker join")
        if has_left(copy):
            await self._leave(name, hosted, copy)
            return None
        try:
            managed = await self._hub.get(MANAGED_CLUSTERS, name[1], name[0])
        except (NotFound, Forbidden):
            return SELDOM_SECONDS  # That is no information.
        found = verdict(managed, copy, self._worker)
        if found is Verdict.OURS:
            return SELDOM_SECONDS
        holder = fleet.assigned_worker(managed)
        self._fence.close(hosted, self.loop.name, f"the hub has given it to worker {holder}")
        if found is Verdict.CLOSE:
            return LOOK_SECONDS
        await self._registration.check_hub()
        note = {"resourceVersion": copy["metadata"]["resourceVersion"], "annotations": {LEFT: str(mark_of(copy).epoch)}}
        copy = await self._own.merge(MANAGED_CLUSTERS, name[1], {"metadata": note}, name[0])
        await self._leave(name, hosted, copy)
        return None

    async def _leave(self, name: Name, hosted: str, copy: Object) -> None:
        self._fence.close(hosted, self.loop.name, "the hub has given it to another worker")
        await self._say_gone(name, copy)
        if self._bus.newest(name) is not None:
            raise Later("the hub has given it back")
        await self._data.replace(hosted, {})
        self._fence.open(hosted, self.loop.name)
        log.info("%s/%s: another worker has it; nothing of it is here any more", *name)

    async def _say_gone(self, name: Name, copy: Object | None) -> None:
        try:
            managed = await self._hub.get(MANAGED_CLUSTERS, name[1], name[0])
            told = without(managed, self._worker, copy)
            if told is not None:
                await self._hub.update(MANAGED_CLUSTERS, told, "status")
        except (NotFound, Forbidden):
            return  # The hub does not wait for it.

    def _await(self, name: Name) -> None:
        self._awaited.add(name)
        self.loop.queue.add(name)
