"""Keeps a copy of every ManagedCluster assigned to this worker in the worker's own root.

The copy is deleted when the hub's object is being deleted; when it and everything it stands for is gone, the hub gets
an acknowledgement. An assignment that is no longer visible is not a deletion: the copy stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus, Message, Name
from shoal.fleet.resources import MANAGED_CLUSTERS, NAMESPACES
from shoal.fleet.worker.own import OwnRoot
from shoal.fleet.worker.registration.controller import Registration
from shoal.fleet.worker.subscriber import memory
from shoal.fleet.worker.subscriber.decide import Step, decide
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class Subscriber:
    def __init__(
        self,
        own: Client,
        clock: Clock,
        bus: Bus,
        root: OwnRoot,
        registration: Registration,
        remember_after: float | None = memory.CALM_SECONDS,
    ) -> None:
        """`save_after`: seconds without a new message after which it is saved; None: the bus needs no saved
        messages.
        """
        self._own, self._clock, self._bus, self._registration = own, clock, bus, registration
        self._remember_after = remember_after
        self._heard: dict[Name, tuple[int, float]] = {}
        """The revision of each message that is not saved yet, and when it was received."""
        self.loop: Loop[Name] = Loop("fleet-subscriber", clock, self.reconcile)
        self.loop.sources.append(self._listen)
        bus.listen(self.loop.queue.add)
        root.listen(self.loop.queue.add)

    async def _listen(self) -> None:
        await self._registration.joined.wait()
        await self._bus.run()

    async def reconcile(self, name: Name) -> float | None:
        message = self._bus.newest(name)
        if message is None:
            self._heard.pop(name, None)
            return None
        if not self._registration.joined.is_set():
            raise Later("the hub has not let this worker join")
        copy = await self._copy(name)
        decision = decide(message, copy, self._registration.hub)
        match decision.step:
            case Step.NOTHING if copy is not None:
                return await self._remember(message, copy)
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
        return None

    async def _remember(self, message: Message, copy: Object) -> float | None:
        """Saves the message if it is due; otherwise returns when it will be."""
        patch = memory.remembering(message, copy, self._registration.hub)
        if patch is None or self._remember_after is None:
            self._heard.pop(message.name, None)
            return None
        now, revision = self._clock.monotonic(), message.mark.revision
        known, since = self._heard.get(message.name, (0, now))
        if known != revision:
            since = now
        self._heard[message.name] = revision, since
        left = since + self._remember_after - now
        if left > 0:
            return left
        await self._own.merge(MANAGED_CLUSTERS, message.name[1], patch, message.name[0])
        return None

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


def recalling(own: Client) -> Callable[[str], Awaitable[list[Message]]]:
    """Returns a function that loads the saved messages of a hub from this worker's own root."""

    async def recall(hub: str) -> list[Message]:
        copies, _ = await own.list_all(MANAGED_CLUSTERS)
        found = (memory.recalled(copy, hub) for copy in copies)
        return [message for message in found if message is not None]

    return recall
