"""The bus over the Kubernetes API itself: the worker watches the ManagedClusters given to it, and writes their status.

The hub's side needs no publisher: its store orders the messages and keeps them, its watch resumes where it was cut.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus import at_hub
from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import Message, Name, Report, Told, message_of
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds import fleet
from shoal.objects.errors import NotFound

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]


class WatchBus:
    name = "fleet-bus"

    def __init__(self, hub: Client, worker: str, clock: Clock) -> None:
        self._hub = hub
        self._messages: dict[Name, Message] = {}
        self._listeners: list[Told] = []
        selector = f"status.assignedWorker={worker}"
        self._reflector = Reflector(hub, MANAGED_CLUSTERS, clock, self._changed, fields=selector)

    def listen(self, told: Told) -> None:
        self._listeners.append(told)

    async def run(self) -> None:
        await self._reflector.run()

    def newest(self, name: Name) -> Message | None:
        return self._messages.get(name)

    def _changed(self, key: Key, managed: Object | None) -> None:
        name = (key[1], key[2])
        if managed is None:
            # Gone from the hub, or given to another worker: neither asks this one to delete anything.
            self._messages.pop(name, None)
        else:
            message, known = message_of(managed), self._messages.get(name)
            if is_stale(known.mark if known is not None else None, message.mark):
                return
            self._messages[name] = message
        for told in self._listeners:
            told(name)

    async def hub_id(self) -> str:
        return await at_hub.hub_id(self._hub)

    async def report(self, message: Message, report: Report) -> None:
        if report.kubeconfig:
            await at_hub.publish_kubeconfig(self._hub, message, report.kubeconfig)
        if report.status != fleet.status_of(message.managed):
            body = {**message.managed, "status": report.status}
            await self._hub.update(MANAGED_CLUSTERS, body, "status")

    async def acknowledge(self, message: Message) -> None:
        namespace, name = message.name
        await at_hub.withdraw_kubeconfig(self._hub, message)
        try:
            if fleet.has_finalizer(message.managed):
                await self._hub.update(MANAGED_CLUSTERS, fleet.without_finalizer(message.managed))
        except NotFound:
            pass
        log.info("%s/%s: nothing is left of it; the hub was told", namespace, name)
