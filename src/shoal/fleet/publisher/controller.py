"""Publishes the desired state of each ManagedCluster as the last message of its NATS subject.

It tracks what the stream holds by message headers, so that a hub that restarts, or a connection that is re-established,
publishes only what has changed. Every write names the sequence it follows: of two publishers one wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import subjects
from shoal.fleet.bus.at_hub import hub_id
from shoal.fleet.bus.envelope import Event, encode, headers, of_headers
from shoal.fleet.bus.interface import Name
from shoal.fleet.bus.jetstream import Link, Overtaken, Session
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.publisher.decide import Held, Send, decide
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.runtime.loop import Loop

Object = dict[str, Any]

AT_ONCE = 32
"""Messages in flight: each waits for the server's acknowledgement."""


@dataclass(slots=True)
class Known:
    """The messages of the stream, as one connection has seen them."""

    session: Session
    hub: str
    held: dict[Name, dict[str, Held]] = field(default_factory=dict)
    complete: bool = False

    def take(self, worker: str, name: Name, found: Held) -> None:
        before = self.held.setdefault(name, {}).get(worker)
        if before is None or before.sequence < found.sequence:
            self.held[name][worker] = found


class Publisher:
    def __init__(self, client: Client, clock: Clock, settings: BusSettings) -> None:
        self._client, self._clock = client, clock
        self._link = Link(settings, clock, subjects.HUB)
        self._known: Known | None = None
        self.published = 0
        """Messages published since it was created."""
        self.loop: Loop[Name] = Loop("fleet-publisher", clock, self.reconcile, workers=AT_ONCE)
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, self._changed, listed=self._look_at_all, shared=True)
        self.loop.sources += [self._managed.run, self._run]

    def _changed(self, key: Key, managed: Object | None) -> None:
        self.loop.queue.add((key[1], key[2]))

    def _look_at_all(self) -> None:
        if self._known is not None and self._known.complete:
            for name in {*self._known.held, *((key[1], key[2]) for key in self._managed.objects)}:
                self.loop.queue.add(name)

    async def _run(self) -> None:
        await self._link.run(self._follow)

    async def _follow(self, session: Session) -> None:
        hub = await hub_id(self._client)
        for channel in (subjects.CLUSTERS, subjects.STATUS):
            await session.ensure_stream(subjects.stream_name(hub, channel), subjects.of_all(hub, channel))
        stream = subjects.stream_name(hub, subjects.CLUSTERS)
        everything = subjects.of_all(hub, subjects.CLUSTERS)
        consumer, pending = await session.consumer(stream, everything, headers_only=True)
        known = self._known = Known(session, hub, complete=not pending)
        self._look_at_all()
        async for delivered in session.follow(stream, consumer):
            where, found = subjects.split(delivered.subject), of_headers(delivered.headers)
            if where is not None and found is not None:
                known.take(*where, Held(*found, delivered.sequence))
                self.loop.queue.add(where[1])
            if not delivered.pending and not known.complete:
                known.complete = True
                self._look_at_all()

    async def reconcile(self, name: Name) -> None:
        known = self._known
        if known is None or not known.complete or not self._managed.synced:
            return  # All keys are enqueued once it is.
        managed = self._managed.objects.get(("", *name))
        held = known.held.get(name, {})
        decision = decide(managed, held)
        for send in decision.sends:
            await self._send(known, name, send, managed)
        if decision.forget:
            last = max(each.sequence for each in held.values())
            stream = subjects.stream_name(known.hub, subjects.CLUSTERS)
            await known.session.purge(stream, subjects.of_any_worker(known.hub, subjects.CLUSTERS, name), last)
            stream = subjects.stream_name(known.hub, subjects.STATUS)
            await known.session.purge(stream, subjects.of_any_worker(known.hub, subjects.STATUS, name))
            known.held[name] = {worker: each for worker, each in held.items() if each.sequence > last}
            if not known.held[name]:
                del known.held[name]

    async def _send(self, known: Known, name: Name, send: Send, managed: Object | None) -> None:
        event = Event(send.type, known.hub, send.worker, name, send.mark, managed if send.with_object else None)
        before = known.held.get(name, {}).get(send.worker)
        text, sequence = encode(event, rfc3339_micro(self._clock.now())), before.sequence if before else 0
        try:
            sequence = await known.session.publish(event.subject, text, headers(event), expected=sequence)
        except Overtaken:
            await self._look_again(known, event)
            raise
        self.published += 1
        known.take(send.worker, name, Held(send.type, send.mark, sequence))

    async def _look_again(self, known: Known, event: Event) -> None:
        """Reads the last message from the stream: another publisher has published or purged."""
        found = await known.session.last(subjects.stream_name(known.hub, subjects.CLUSTERS), event.subject)
        held = known.held.setdefault(event.name, {})
        about = of_headers(found[0]) if found is not None else None
        if found is None or about is None:
            held.pop(event.worker, None)
        else:
            held[event.worker] = Held(*about, found[1])
