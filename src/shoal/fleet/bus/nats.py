"""The bus over NATS, on the worker's side: levels come down one subject each, what the worker says goes up.

The worker has the hub's API as well: by that it joins, beats, and publishes kubeconfigs, which never travel here.
"""

from __future__ import annotations

import logging

from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import at_hub, subjects
from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.envelope import GONE, OF_HUB, RELEASED, STATUS, Event, decode, encode, headers
from shoal.fleet.bus.interface import Mark, Message, Name, Report, Told
from shoal.fleet.bus.jetstream import Delivered, Link, Session
from shoal.fleet.bus.settings import BusSettings
from shoal.kinds import fleet

log = logging.getLogger("shoal.fleet")


class NatsBus:
    name = "fleet-bus"

    def __init__(self, hub: Client, worker: str, clock: Clock, settings: BusSettings) -> None:
        self._hub, self._worker, self._clock = hub, worker, clock
        self._link = Link(settings, clock, subjects.worker_consumer(worker))
        self._listeners: list[Told] = []
        self._messages: dict[Name, Message] = {}
        self._marks: dict[Name, Mark] = {}
        self._followed = ""
        """The hub all of that is of."""

    def listen(self, told: Told) -> None:
        self._listeners.append(told)

    def newest(self, name: Name) -> Message | None:
        return self._messages.get(name)

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
            self._messages.clear()
            self._marks.clear()
        stream = subjects.stream_name(hub, subjects.CLUSTERS)
        # A link that comes back goes on where it was; a process that starts has nothing, and takes the last of each.
        consumer, _ = await session.consumer(
            stream,
            subjects.of_worker(hub, subjects.CLUSTERS, self._worker),
            subjects.worker_consumer(self._worker),
            anew=hub != self._followed,
        )
        self._followed = hub
        for name in list(self._messages):
            self._tell(name)  # what was said last may not have come through
        async for delivered in session.follow(stream, consumer):
            self._take(delivered)
            await delivered.acknowledge()

    def _take(self, delivered: Delivered) -> None:
        try:
            event = decode(delivered.subject, delivered.data)
            if event.type not in OF_HUB:
                raise ValueError(f"a hub does not say {event.type}")
        except ValueError as error:
            log.warning("a message under %s is not believed: %s", delivered.subject, error)
            return
        name = event.name
        if is_stale(self._marks.get(name), event.mark):
            return
        self._marks[name] = event.mark
        if event.type == RELEASED:
            self._messages.pop(name, None)
        else:
            self._messages[name] = event.message()
        self._tell(name)

    def _tell(self, name: Name) -> None:
        for told in self._listeners:
            told(name)

    async def report(self, message: Message, report: Report) -> None:
        """Where the hub is further than the message it drops the report, and this worker is told of the newer one."""
        if report.kubeconfig:
            await at_hub.publish_kubeconfig(self._hub, message, report.kubeconfig)
        if report.status != fleet.status_of(message.managed):
            await self._say(Event(STATUS, self._followed, self._worker, message.name, message.mark, report.status))

    async def acknowledge(self, message: Message) -> None:
        await at_hub.withdraw_kubeconfig(self._hub, message)
        await self._say(Event(GONE, self._followed, self._worker, message.name, message.mark))
        if self.newest(message.name) is message:
            del self._messages[message.name]
        log.info("%s: nothing is left of it; the hub was told", "/".join(message.name))

    async def _say(self, event: Event) -> None:
        text = encode(event, rfc3339_micro(self._clock.now()))
        await self._link.session.publish(event.subject, text, headers(event))
