"""Asks the hub to confirm that a cluster with `onWorkerLost: Move` is this worker's, after every lapse of its Lease.

`status.held` is the worker's promise to stop writing by itself. It is given before the first write, and withdrawn at
the hub before the fence is removed. The copy records it for a process that restarts.
"""

from __future__ import annotations

from typing import Any

from shoal.clock import rfc3339_micro
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.fence.decide import HELD, is_leaving
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.parts import Parts
from shoal.fleet.worker.status import change_status
from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import embedded, fleet, moving
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class Confirming:
    def __init__(self, parts: Parts, fence: Fence) -> None:
        self._hub, self._own, self._clock, self._root = parts.hub, parts.own, parts.clock, parts.root
        self._fence, self._worker = fence, parts.worker
        self.loop: Loop[Name] = Loop("fleet-confirming", parts.clock, self.reconcile)
        parts.bus.listen(self.loop.queue.add)
        parts.root.listen(self.loop.queue.add)

    def again(self) -> None:
        """Enqueues all copies: the Lease had expired."""
        for copy in self._root.copies():
            self.loop.queue.add((copy["metadata"]["namespace"], copy["metadata"]["name"]))

    async def reconcile(self, name: Name) -> None:
        copy = self._root.get(MANAGED_CLUSTERS, *name)
        if copy is None:
            return
        hosted = embedded.hosted_name(*name)
        noted = HELD in (copy["metadata"].get("annotations") or {})
        if moving.moves_when_lost(copy):
            if self._fence.hold(hosted).guarded and not self._fence.is_confirmed(hosted) and self._fence.is_live:
                await self._confirm(name, hosted, copy, noted)
        elif noted:
            await self._take_back(name, copy)

    async def _confirm(self, name: Name, hosted: str, copy: Object, noted: bool) -> None:
        epoch, lapses = mark_of(copy).epoch, self._fence.lapses
        if not noted:
            await self._note(name, copy, str(epoch))
        held = {"worker": self._worker, "epoch": epoch, "time": rfc3339_micro(self._clock.now())}

        def change(managed: Object) -> Object:
            if is_leaving(managed, self._worker):
                raise Later("it is to be moved away")
            if moving.held(managed) == held:
                raise Later("it has to be a change: that is what a compare-and-swap of the hub fails on")
            return {**fleet.status_of(managed), "held": held}

        await change_status(self._hub, self._worker, name, copy, change)
        if not self._fence.confirm(hosted, epoch, lapses):
            raise Later("the Lease has run out meanwhile")

    async def _take_back(self, name: Name, copy: Object) -> None:
        def change(managed: Object) -> Object | None:
            if moving.moves_when_lost(managed):
                raise Later("the hub wants it to move again")  # A message to this worker will follow.
            return {key: value for key, value in fleet.status_of(managed).items() if key != "held"}

        await change_status(self._hub, self._worker, name, copy, change)
        await self._note(name, copy, None)

    async def _note(self, name: Name, copy: Object, held: str | None) -> None:
        metadata = {"resourceVersion": copy["metadata"]["resourceVersion"], "annotations": {HELD: held}}
        await self._own.merge(MANAGED_CLUSTERS, name[1], {"metadata": metadata}, name[0])
