"""Writes the reports that workers send over NATS to the hub, impersonating the reporting worker.

So the API's own authorization decides: a worker that was expelled, or reports on another worker's cluster, changes
nothing. A message is acknowledged when it is written or dropped; a hub that is killed before gets it again.
"""

from __future__ import annotations

import logging

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus import subjects
from shoal.fleet.bus.at_hub import hub_id
from shoal.fleet.bus.envelope import Event, decode
from shoal.fleet.bus.interface import Name
from shoal.fleet.bus.jetstream import Delivered, Link, Session
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.receiver.decide import verdict
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds import joining
from shoal.objects.errors import BadRequest, Forbidden, Invalid, NotFound
from shoal.runtime.loop import Loop

log = logging.getLogger("shoal.fleet")

Key = tuple[str, Name]
"""Worker and ManagedCluster."""
AT_ONCE = 8


class Receiver:
    def __init__(self, client: Client, clock: Clock, settings: BusSettings) -> None:
        self._client = client
        self._link = Link(settings, clock, subjects.HUB)
        self._waiting: dict[Key, tuple[Event, Delivered]] = {}
        self.loop: Loop[Key] = Loop("fleet-receiver", clock, self.reconcile, workers=AT_ONCE)
        self.loop.sources.append(self._run)

    async def _run(self) -> None:
        await self._link.run(self._follow)

    async def _follow(self, session: Session) -> None:
        hub = await hub_id(self._client)
        stream, everything = subjects.stream_name(hub, subjects.STATUS), subjects.of_all(hub, subjects.STATUS)
        await session.ensure_stream(stream, everything)
        consumer, _ = await session.consumer(stream, everything, subjects.HUB)
        async for delivered in session.follow(stream, consumer):
            try:
                event = decode(delivered.subject, delivered.data)
                if joining.wrong_name(event.worker):
                    raise ValueError("no worker has such a name")
            except ValueError as error:
                log.warning("a message under %s is not believed: %s", delivered.subject, error)
                await delivered.acknowledge()
                continue
            key = (event.worker, event.name)
            self._waiting[key] = (event, delivered)
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        found = self._waiting.get(key)
        if found is None:
            return
        event, delivered = found
        await self._write(event)
        if self._waiting.get(key) is found:
            del self._waiting[key]
        await delivered.acknowledge()

    async def _write(self, event: Event) -> None:
        namespace, name = event.name
        try:
            managed = await self._client.get(MANAGED_CLUSTERS, name, namespace)
        except NotFound:
            managed = None
        said = verdict(event, managed)
        if said.dropped:
            log.info("worker %s about %s/%s: dropped: %s", event.worker, namespace, name, said.dropped)
        if said.write is None:
            return
        worker = self._client.as_user(joining.user_name(event.worker), joining.GROUP)
        try:
            await worker.update(MANAGED_CLUSTERS, said.write, said.subresource, brief=True)
        except (Forbidden, Invalid, BadRequest, NotFound) as error:
            log.warning("worker %s about %s/%s: refused: %s", event.worker, namespace, name, error)
