"""Writes the reports that workers send over NATS to the hub, impersonating the reporting worker.

So the API's own authorization decides: a worker that was expelled, or reports on another worker's cluster, changes
nothing. A message is acknowledged when it is written or dropped; a hub that is killed before gets it again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.bus import subjects
from shoal.fleet.bus.cloudevents import DELETED_ACK, STATUS, BusEvent, decode_event
from shoal.fleet.bus.hub_api import hub_id
from shoal.fleet.bus.interface import Name, message_of
from shoal.fleet.bus.jetstream import DeliveredMessage, JetStreamSession, NatsConnection
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.errors import BadRequest, Forbidden, Invalid, NotFound
from shoal.runtime.controller import Controller

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportDecision:
    write: Object | None = None
    subresource: str = ""
    drop_reason: str = ""
    """Why it changes nothing."""


def decide_report(event: BusEvent, managed: Object | None) -> ReportDecision:
    if managed is None:
        return ReportDecision(drop_reason="ManagedCluster not found")
    if infrav1.assigned_worker(managed) != event.worker:
        return ReportDecision(drop_reason="ManagedCluster is not assigned to this worker")
    version = message_of(managed).version
    if (event.version.uid, event.version.epoch) != (version.uid, version.epoch):
        return ReportDecision(drop_reason="the report is for an earlier uid or epoch of the ManagedCluster")
    if event.type == DELETED_ACK:
        if not infrav1.is_deleting(managed):
            return ReportDecision(drop_reason="ManagedCluster is not being deleted")
        return (
            ReportDecision(infrav1.without_finalizer(managed)) if infrav1.has_finalizer(managed) else ReportDecision()
        )
    if event.type != STATUS:
        return ReportDecision(drop_reason=f"unexpected event type {event.type} from a worker")
    if event.version.revision != version.revision:
        # The worker receives the newer version and reports on that, as after a Conflict of the API.
        return ReportDecision(
            drop_reason=f"the report is for revision {event.version.revision}, the current one is {version.revision}"
        )
    if event.data == infrav1.status_of(managed):
        return ReportDecision()
    return ReportDecision({**managed, "status": event.data}, "status")


log = logging.getLogger("shoal.fleet")

ReportKey = tuple[str, Name]
"""Worker and ManagedCluster."""
MAX_CONCURRENT_WRITES = 8


class StatusReceiver:
    def __init__(self, client: Client, clock: Clock, settings: BusSettings) -> None:
        self._client = client
        self._connection = NatsConnection(settings, clock, subjects.HUB_CONSUMER)
        self._pending: dict[ReportKey, tuple[BusEvent, DeliveredMessage]] = {}
        self.controller: Controller[ReportKey] = Controller(
            "fleet-receiver", clock, self.reconcile, workers=MAX_CONCURRENT_WRITES
        )
        self.controller.sources.append(self._run)

    async def _run(self) -> None:
        await self._connection.run(self._follow_stream)

    async def _follow_stream(self, session: JetStreamSession) -> None:
        hub = await hub_id(self._client)
        stream, everything = subjects.stream_name(hub, subjects.STATUS), subjects.all_subjects(hub, subjects.STATUS)
        await session.ensure_stream(stream, everything)
        consumer, _ = await session.consumer(stream, everything, subjects.HUB_CONSUMER)
        async for delivered in session.follow(stream, consumer):
            try:
                event = decode_event(delivered.subject, delivered.data)
                if worker_join.name_error(event.worker):
                    raise ValueError("invalid worker name")
            except ValueError as error:
                log.warning("ignoring message with subject %s: %s", delivered.subject, error)
                await delivered.acknowledge()
                continue
            key = (event.worker, event.name)
            self._pending[key] = (event, delivered)
            self.controller.queue.add(key)

    async def reconcile(self, key: ReportKey) -> None:
        pending = self._pending.get(key)
        if pending is None:
            return
        event, delivered = pending
        await self._write(event)
        if self._pending.get(key) is pending:
            del self._pending[key]
        await delivered.acknowledge()

    async def _write(self, event: BusEvent) -> None:
        namespace, name = event.name
        try:
            managed = await self._client.get(MANAGED_CLUSTERS, name, namespace)
        except NotFound:
            managed = None
        decision = decide_report(event, managed)
        if decision.drop_reason:
            log.info(
                "dropping report of worker %s about %s/%s: %s", event.worker, namespace, name, decision.drop_reason
            )
        if decision.write is None:
            return
        worker_client = self._client.impersonate(worker_join.user_name(event.worker), worker_join.WORKERS_GROUP)
        try:
            await worker_client.update(MANAGED_CLUSTERS, decision.write, decision.subresource, metadata_only=True)
        except (Forbidden, Invalid, BadRequest, NotFound) as error:
            log.warning("report of worker %s about %s/%s was rejected: %s", event.worker, namespace, name, error)
