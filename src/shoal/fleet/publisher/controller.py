"""Publishes the desired state of each ManagedCluster as the last message of its NATS subject.

It tracks what the stream holds by message headers, so that a hub that restarts, or a connection that is re-established,
publishes only what has changed. Every write names the sequence it follows: of two publishers one wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import subjects
from shoal.fleet.bus.cloudevents import BusEvent, encode_event, event_headers, version_from_headers
from shoal.fleet.bus.hub_api import hub_id
from shoal.fleet.bus.interface import Name
from shoal.fleet.bus.jetstream import JetStreamSession, NatsConnection, SequenceConflict
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.publisher.decide import OutgoingMessage, PublishedMessage, decide
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]

MAX_IN_FLIGHT = 32
"""Messages in flight: each waits for the server's acknowledgement."""


@dataclass(slots=True)
class BusState:
    """The messages of the stream, as one connection has seen them."""

    session: JetStreamSession
    hub: str
    messages: dict[Name, dict[str, PublishedMessage]] = field(default_factory=dict)
    has_synced: bool = False

    def observe(self, worker: str, name: Name, message: PublishedMessage) -> None:
        previous = self.messages.setdefault(name, {}).get(worker)
        if previous is None or previous.sequence < message.sequence:
            self.messages[name][worker] = message


class Publisher:
    def __init__(self, client: Client, clock: Clock, settings: BusSettings) -> None:
        self._client, self._clock = client, clock
        self._connection = NatsConnection(settings, clock, subjects.HUB_CONSUMER)
        self._state: BusState | None = None
        self.published = 0
        """Messages published since it was created."""
        self.controller: Controller[Name] = Controller("fleet-publisher", clock, self.reconcile, workers=MAX_IN_FLIGHT)
        self._managed = Informer(client, MANAGED_CLUSTERS, clock)
        self._managed.on_sync(self._enqueue_all)
        self.controller.watch(self._managed, self._on_managed_cluster)
        self.controller.sources.append(self._run)
        self._connection.on_failure = lambda error: self.controller.on_failure(self.controller.name, error)

    def _on_managed_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.controller.queue.add((key[1], key[2]))

    def _enqueue_all(self) -> None:
        if self._state is not None and self._state.has_synced:
            for name in {*self._state.messages, *((key[1], key[2]) for key in self._managed.objects)}:
                self.controller.queue.add(name)

    async def _run(self) -> None:
        await self._connection.run(self._follow_stream)

    async def _follow_stream(self, session: JetStreamSession) -> None:
        hub = await hub_id(self._client)
        for channel in (subjects.CLUSTERS, subjects.STATUS):
            await session.ensure_stream(subjects.stream_name(hub, channel), subjects.all_subjects(hub, channel))
        stream = subjects.stream_name(hub, subjects.CLUSTERS)
        everything = subjects.all_subjects(hub, subjects.CLUSTERS)
        consumer, pending = await session.consumer(stream, everything, headers_only=True)
        state = self._state = BusState(session, hub, has_synced=not pending)
        self._enqueue_all()
        async for delivered in session.follow(stream, consumer):
            target, version = subjects.parse_subject(delivered.subject), version_from_headers(delivered.headers)
            if target is not None and version is not None:
                state.observe(*target, PublishedMessage(*version, delivered.sequence))
                self.controller.queue.add(target[1])
            if not delivered.pending and not state.has_synced:
                state.has_synced = True
                self._enqueue_all()

    async def reconcile(self, name: Name) -> None:
        state = self._state
        if state is None or not state.has_synced or not self._managed.has_synced:
            return  # All keys are enqueued once it is.
        managed = self._managed.get(("", *name))
        messages = state.messages.get(name, {})
        decision = decide(managed, messages)
        for send in decision.messages:
            await self._send(state, name, send, managed)
        if decision.purge:
            last = max(each.sequence for each in messages.values())
            stream = subjects.stream_name(state.hub, subjects.CLUSTERS)
            await state.session.purge(stream, subjects.any_worker_subject(state.hub, subjects.CLUSTERS, name), last)
            stream = subjects.stream_name(state.hub, subjects.STATUS)
            await state.session.purge(stream, subjects.any_worker_subject(state.hub, subjects.STATUS, name))
            state.messages[name] = {worker: each for worker, each in messages.items() if each.sequence > last}
            if not state.messages[name]:
                del state.messages[name]

    async def _send(self, state: BusState, name: Name, outgoing: OutgoingMessage, managed: Object | None) -> None:
        event = BusEvent(
            outgoing.type, state.hub, outgoing.worker, name, outgoing.version, managed if outgoing.with_object else None
        )
        previous = state.messages.get(name, {}).get(outgoing.worker)
        text, sequence = encode_event(event, rfc3339_micro(self._clock.now())), previous.sequence if previous else 0
        try:
            sequence = await state.session.publish(event.subject, text, event_headers(event), expected=sequence)
        except SequenceConflict:
            await self._refresh(state, event)
            raise
        self.published += 1
        state.observe(outgoing.worker, name, PublishedMessage(outgoing.type, outgoing.version, sequence))

    async def _refresh(self, state: BusState, event: BusEvent) -> None:
        """Reads the last message from the stream: another publisher has published or purged."""
        last = await state.session.last_message(subjects.stream_name(state.hub, subjects.CLUSTERS), event.subject)
        messages = state.messages.setdefault(event.name, {})
        version = version_from_headers(last[0]) if last is not None else None
        if last is None or version is None:
            messages.pop(event.worker, None)
        else:
            messages[event.worker] = PublishedMessage(*version, last[1])
