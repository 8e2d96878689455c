"""The bus over NATS, worker side: desired state comes on one subject per cluster, reports go up.

The worker also uses the hub's API: to join, to renew its Lease, and to publish kubeconfigs, which never go over NATS.
"""

from __future__ import annotations

import logging

from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import at_hub, subjects
from shoal.fleet.bus.envelope import GONE, OF_HUB, STATUS, Event, decode, encode, headers
from shoal.fleet.bus.inbox import Inbox
from shoal.fleet.bus.interface import Message, Name, Report, Told
from shoal.fleet.bus.jetstream import Delivered, Link, Session
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.bus.traffic import LIST, RESUME, Traffic
from shoal.kinds import fleet

log = logging.getLogger("shoal.fleet")


class NatsBus:
    name = "fleet-bus"

    def __init__(
        self, hub: Client, worker: str, clock: Clock, settings: BusSettings, traffic: Traffic | None = None
    ) -> None:
        self._hub, self._worker, self._clock = hub, worker, clock
        self._traffic = traffic or Traffic(clock)
        self._link = Link(settings, clock, subjects.worker_consumer(worker))
        self._inbox = Inbox()
        self._followed = ""
        """Id of the hub that the cached messages are from."""

    @property
    def live(self) -> bool:
        return self._traffic.live

    def listen(self, told: Told) -> None:
        self._inbox.listen(told)

    def newest(self, name: Name) -> Message | None:
        return self._inbox.messages.get(name)

    async def hub_id(self) -> str:
        found = await at_hub.hub_id(self._hub)
        if self._followed and found != self._followed:
            self._link.restart()
        return found

    async def run(self) -> None:
        await self._link.run(self._follow)

    async def _follow(self, session: Session) -> None:
        hub = await at_hub.hub_id(self._hub)
        if hub != self._followed:
            self._inbox.clear()
        stream = subjects.stream_name(hub, subjects.CLUSTERS)
        # A link that comes back continues where it was; a process that starts has nothing and takes the last message of
        # each.
        consumer, _ = await session.consumer(
            stream,
            subjects.of_worker(hub, subjects.CLUSTERS, self._worker),
            subjects.worker_consumer(self._worker),
            anew=hub != self._followed,
        )
        kind, self._followed = RESUME if hub == self._followed else LIST, hub
        self._traffic.up(kind)
        try:
            self._inbox.tell_all()  # The last reports may have been lost.
            async for delivered in session.follow(stream, consumer):
                self._take(delivered)
                await delivered.acknowledge()
        finally:
            self._traffic.down()

    def _take(self, delivered: Delivered) -> None:
        try:
            event = decode(delivered.subject, delivered.data)
            if event.type not in OF_HUB:
                raise ValueError(f"a hub does not say {event.type}")
        except ValueError as error:
            log.warning("a message under %s is not believed: %s", delivered.subject, error)
            return
        self._traffic.messages_in += 1
        self._traffic.bytes_in += len(delivered.data)
        self._inbox.take(event)

    async def report(self, message: Message, report: Report) -> None:
        """If the hub is ahead of the message it drops the report, and this worker receives the newer message."""
        differs = report.status != fleet.status_of(message.managed)
        if report.kubeconfig and (differs or report.verify):
            await at_hub.publish_kubeconfig(self._hub, message, report.kubeconfig)
        if differs:
            await self._say(Event(STATUS, self._followed, self._worker, message.name, message.mark, report.status))

    async def acknowledge(self, message: Message) -> None:
        await at_hub.withdraw_kubeconfig(self._hub, message)
        await self._say(Event(GONE, self._followed, self._worker, message.name, message.mark))
        if self.newest(message.name) is message:
            self._inbox.messages.pop(message.name)
        log.info("%s: nothing is left of it; the hub was told", "/".join(message.name))

    async def _say(self, event: Event) -> None:
        text = encode(event, rfc3339_micro(self._clock.now()))
        self._traffic.messages_out += 1
        self._traffic.bytes_out += len(text)
        await self._link.session.publish(event.subject, text, headers(event))
