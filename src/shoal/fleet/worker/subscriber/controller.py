"""The subscriber: every ManagedCluster the hub gave to this worker has a copy in the worker's own root.

The copy goes when the hub's object is being deleted; when it has gone, and with it all it stood for, the hub is told.
An assignment that is no longer seen is not a deletion: the copy stays.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus, Name
from shoal.fleet.resources import MANAGED_CLUSTERS, NAMESPACES
from shoal.fleet.worker.own import OwnRoot
from shoal.fleet.worker.registration.controller import Registration
from shoal.fleet.worker.subscriber.decide import Step, decide
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class Subscriber:
    def __init__(self, own: Client, clock: Clock, bus: Bus, root: OwnRoot, registration: Registration) -> None:
        self._own, self._bus, self._registration = own, bus, registration
        self.loop: Loop[Name] = Loop("fleet-subscriber", clock, self.reconcile)
        self.loop.sources.append(self._listen)
        bus.listen(self.loop.queue.add)
        root.listen(self.loop.queue.add)

    async def _listen(self) -> None:
        await self._registration.joined.wait()
        await self._bus.run()

    async def reconcile(self, name: Name) -> None:
        message = self._bus.newest(name)
        if message is None:
            return
        if not self._registration.joined.is_set():
            raise Later("the hub has not let this worker join")
        copy = await self._copy(name)
        decision = decide(message, copy, self._registration.hub)
        match decision.step:
            case Step.CREATE:
                assert decision.copy is not None
                await self._create(name, decision.copy)
            case Step.UPDATE:
                assert decision.copy is not None
                await self._own.merge(MANAGED_CLUSTERS, name[1], decision.copy, name[0])
            case Step.DELETE:
                assert copy is not None
                await self._registration.check_hub()
                await self._own.delete(MANAGED_CLUSTERS, name[1], name[0], uid=copy["metadata"]["uid"])
            case Step.ACKNOWLEDGE:
                await self._bus.acknowledge(message)

    async def _copy(self, name: Name) -> Object | None:
        try:
            return await self._own.get(MANAGED_CLUSTERS, name[1], name[0])
        except NotFound:
            return None

    async def _create(self, name: Name, copy: Object) -> None:
        try:
            await self._own.create(MANAGED_CLUSTERS, copy, name[0])
        except NotFound:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name[0]}}
            with suppress(AlreadyExists):
                await self._own.create(NAMESPACES, namespace)
            await self._own.create(MANAGED_CLUSTERS, copy, name[0])
