"""The bus over NATS, worker side: desired state comes on one subject per cluster, reports go up.

The worker also uses the hub's API: to join, to renew its Lease, and to publish kubeconfigs, which never go over NATS.
"""

from __future__ import annotations

import logging

from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus import hub_api, subjects
from shoal.fleet.bus.cloudevents import (
    DELETED_ACK,
    HUB_TYPES,
    STATUS,
    BusEvent,
    decode_event,
    encode_event,
    event_headers,
)
from shoal.fleet.bus.interface import BusMessage, MessageHandler, Name, StatusReport
from shoal.fleet.bus.jetstream import DeliveredMessage, JetStreamSession, NatsConnection
from shoal.fleet.bus.link_metrics import LIST, RESUME, LinkMetrics
from shoal.fleet.bus.message_cache import MessageCache
from shoal.fleet.bus.settings import BusSettings
from shoal.kinds.fleet import infrav1

log = logging.getLogger("shoal.fleet")


class NatsBus:
    name = "fleet-bus"

    def __init__(
        self, hub: Client, worker: str, clock: Clock, settings: BusSettings, metrics: LinkMetrics | None = None
    ) -> None:
        self._hub, self._worker, self._clock = hub, worker, clock
        self._metrics = metrics or LinkMetrics(clock)
        self._connection = NatsConnection(settings, clock, subjects.worker_consumer(worker))
        self._cache = MessageCache()
        self._hub_id = ""
        """Id of the hub that the cached messages are from."""

    @property
    def is_live(self) -> bool:
        return self._metrics.is_live

    def lag_seconds(self) -> float:
        return self._metrics.lag_seconds()

    def add_event_handler(self, handler: MessageHandler) -> None:
        self._cache.add_event_handler(handler)

    def latest(self, name: Name) -> BusMessage | None:
        return self._cache.messages.get(name)

    async def hub_id(self) -> str:
        hub_id = await hub_api.hub_id(self._hub)
        if self._hub_id and hub_id != self._hub_id:
            self._connection.reconnect()
        return hub_id

    async def run(self) -> None:
        await self._connection.run(self._follow_stream)

    async def _follow_stream(self, session: JetStreamSession) -> None:
        hub_id = await hub_api.hub_id(self._hub)
        if hub_id != self._hub_id:
            self._cache.clear()
        stream = subjects.stream_name(hub_id, subjects.CLUSTERS)
        # A link that comes back continues where it was; a process that starts has nothing and takes the last message of
        # each.
        consumer, _ = await session.consumer(
            stream,
            subjects.worker_subjects(hub_id, subjects.CLUSTERS, self._worker),
            subjects.worker_consumer(self._worker),
            recreate=hub_id != self._hub_id,
        )
        resync_kind, self._hub_id = RESUME if hub_id == self._hub_id else LIST, hub_id
        self._metrics.mark_up(resync_kind)
        try:
            self._cache.notify_all()  # The last reports may have been lost.
            async for delivered in session.follow(stream, consumer):
                self._apply(delivered)
                await delivered.acknowledge()
        finally:
            self._metrics.mark_down()

    def _apply(self, delivered: DeliveredMessage) -> None:
        try:
            event = decode_event(delivered.subject, delivered.data)
            if event.type not in HUB_TYPES:
                raise ValueError(f"unexpected event type {event.type} from a hub")
        except ValueError as error:
            log.warning("ignoring message with subject %s: %s", delivered.subject, error)
            return
        self._metrics.messages_in += 1
        self._metrics.bytes_in += len(delivered.data)
        self._cache.apply(event)

    async def report(self, message: BusMessage, report: StatusReport) -> None:
        """If the hub is ahead of the message it drops the report, and this worker receives the newer message."""
        differs = report.status != infrav1.status_of(message.managed)
        if report.kubeconfig and (differs or report.verify_kubeconfig):
            await hub_api.publish_kubeconfig(self._hub, message, report.kubeconfig)
        if differs:
            await self._publish(
                BusEvent(STATUS, self._hub_id, self._worker, message.name, message.version, report.status)
            )

    async def acknowledge(self, message: BusMessage) -> None:
        await hub_api.delete_kubeconfig(self._hub, message)
        await self._publish(BusEvent(DELETED_ACK, self._hub_id, self._worker, message.name, message.version))
        if self.latest(message.name) is message:
            self._cache.messages.pop(message.name)
        log.info("%s: deleted; deletion reported to the hub", "/".join(message.name))

    async def _publish(self, event: BusEvent) -> None:
        text = encode_event(event, rfc3339_micro(self._clock.now()))
        self._metrics.messages_out += 1
        self._metrics.bytes_out += len(text)
        await self._connection.session.publish(event.subject, text, event_headers(event))
