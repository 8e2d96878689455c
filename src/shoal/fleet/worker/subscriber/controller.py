"""Keeps a copy of every ManagedCluster assigned to this worker in the worker's own root.

The copy is deleted when the hub's object is being deleted; when it and everything it stands for is gone, the hub gets
an acknowledgement. An assignment that is no longer visible is not a deletion: the copy stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus, BusMessage, Name
from shoal.fleet.resources import MANAGED_CLUSTERS, NAMESPACES
from shoal.fleet.worker.informers import WorkerInformers
from shoal.fleet.worker.registration.controller import WorkerRegistration
from shoal.fleet.worker.subscriber import last_message
from shoal.fleet.worker.subscriber.decide import CopyAction, decide
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]


class HubSubscriber:
    def __init__(
        self,
        own: Client,
        clock: Clock,
        bus: Bus,
        informers: WorkerInformers,
        registration: WorkerRegistration,
        save_after: float | None = last_message.CALM_SECONDS,
    ) -> None:
        """`save_after`: seconds without a new message after which it is saved; None: the bus needs no saved
        messages.
        """
        self._own, self._clock, self._bus, self._registration = own, clock, bus, registration
        self._save_after = save_after
        self._unsaved: dict[Name, tuple[int, float]] = {}
        """The revision of each message that is not saved yet, and when it was received."""
        self.controller: Controller[Name] = Controller("fleet-subscriber", clock, self.reconcile)
        self.controller.sources.append(self._run_bus)
        bus.add_event_handler(self.controller.queue.add)
        informers.add_event_handler(self.controller.queue.add)

    async def _run_bus(self) -> None:
        await self._registration.joined.wait()
        await self._bus.run()

    async def reconcile(self, name: Name) -> float | None:
        message = self._bus.latest(name)
        if message is None:
            self._unsaved.pop(name, None)
            return None
        if not self._registration.joined.is_set():
            raise RequeueError("the worker has not joined the hub")
        copy = await self._get_copy(name)
        decision = decide(message, copy, self._registration.hub_id)
        match decision.action:
            case CopyAction.NOTHING if copy is not None:
                return await self._save_message(message, copy)
            case CopyAction.CREATE:
                assert decision.copy is not None
                await self._create(name, decision.copy)
            case CopyAction.UPDATE:
                assert decision.copy is not None
                await self._own.merge_patch(MANAGED_CLUSTERS, name[1], decision.copy, name[0])
            case CopyAction.DELETE:
                assert copy is not None
                await self._registration.verify_hub()
                await self._own.delete(MANAGED_CLUSTERS, name[1], name[0], uid=copy["metadata"]["uid"])
            case CopyAction.ACKNOWLEDGE:
                await self._bus.acknowledge(message)
        return None

    async def _save_message(self, message: BusMessage, copy: Object) -> float | None:
        """Saves the message if it is due; otherwise returns when it will be."""
        patch = last_message.save_patch(message, copy, self._registration.hub_id)
        if patch is None or self._save_after is None:
            self._unsaved.pop(message.name, None)
            return None
        now, revision = self._clock.monotonic(), message.version.revision
        known_revision, since = self._unsaved.get(message.name, (0, now))
        if known_revision != revision:
            since = now
        self._unsaved[message.name] = revision, since
        remaining = since + self._save_after - now
        if remaining > 0:
            return remaining
        await self._own.merge_patch(MANAGED_CLUSTERS, message.name[1], patch, message.name[0])
        return None

    async def _get_copy(self, name: Name) -> Object | None:
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


def message_loader(own: Client) -> Callable[[str], Awaitable[list[BusMessage]]]:
    """Returns a function that loads the saved messages of a hub from this worker's own root."""

    async def load_messages(hub: str) -> list[BusMessage]:
        copies, _ = await own.list_all(MANAGED_CLUSTERS)
        messages = (last_message.saved_message(copy, hub) for copy in copies)
        return [message for message in messages if message is not None]

    return load_messages
