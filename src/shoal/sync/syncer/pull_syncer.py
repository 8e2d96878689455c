"""Pull mode: the syncer of one cluster in its own process, in the cluster or anywhere. The same Syncer with other
clients.

On the hub it sees only objects of its cluster. The hub lists the kinds to sync in the workload Cluster's status.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import parse_resource
from shoal.objects.errors import ShoalError, StatusError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.informer import Informer
from shoal.sync.cluster_status import ClusterStatusWriter
from shoal.sync.discovery import discover_resource
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.heartbeats import INTERVAL_SECONDS
from shoal.sync.syncer.hub_informers import HubInformers, SyncedResource
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.syncer import Syncer, SyncerConfig

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

RETRY_SECONDS = 1.0


class PullSyncer:
    """Has one key, the name of its workload Cluster. `new_local_client` creates a client of the cluster."""

    def __init__(self, name: str, hub: Client, new_local_client: Callable[[], Client], clock: Clock) -> None:
        self.name = f"syncer of {name}"
        self._cluster_name, self._client, self._new_local_client, self._clock = name, hub, new_local_client, clock
        self._recorder = EventRecorder(lambda cluster: hub, clock)
        self._hub_writer = HubWriter(hub, self._recorder, name)
        self._status_writer = ClusterStatusWriter(hub, clock, workloadcluster.PULL)
        self._hub = HubInformers(hub, clock, only=name)
        self._hub.on_sync = self._enqueue
        self._controller: Controller[str] = Controller(self.name, clock, self._reconcile, workers=1)
        self._clusters = Informer(hub, CLUSTERS, clock, fields=f"metadata.name={name}")
        self._controller.watch(self._clusters, self._handle_cluster)
        self._controller.sources += [self._recorder.run, self._send_heartbeats]
        self._syncer: Syncer | None = None
        self._task: asyncio.Task[None] | None = None
        self._resources: dict[str, SyncedResource] = {}
        self.started = asyncio.Event()
        """Syncing has begun."""

    async def run(self) -> None:
        try:
            await self._controller.run()
        finally:
            self._hub.close()
            await self._stop()

    def _handle_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._enqueue()

    def _enqueue(self) -> None:
        self._controller.queue.add(self._cluster_name)

    async def _send_heartbeats(self) -> None:
        """Sends heartbeats only; conditions are written when they change."""
        while True:
            syncer, delay = self._syncer, INTERVAL_SECONDS
            if syncer is not None:
                try:
                    now = rfc3339(self._clock.now())
                    await self._status_writer.update(syncer.name, syncer.uid, syncer.conditions(), heartbeat=now)
                except ShoalError as error:
                    log.info("%s: cannot send the heartbeat to the hub: %s", self.name, error)
                    delay = RETRY_SECONDS
                self._enqueue()  # checks again which hub this is
                await self._clock.sleep(delay)
            else:
                await self.started.wait()

    async def _reconcile(self, name: str) -> None:
        cluster = self._clusters.get(("", "", name))
        if cluster is None:
            if self._clusters.has_synced:
                log.warning("%s: workload Cluster not found on the hub; nothing is changed", self.name)
                await self._stop()
            return
        identity = await self._hub_writer.hub_uid()
        syncer = self._syncer
        if syncer is None or syncer.uid != cluster["metadata"]["uid"] or syncer.hub_id != identity:
            syncer = await self._start(cluster, identity)
        syncer.configure(cluster)
        desired = (cluster.get("status") or {}).get("syncedResources")
        try:
            by_name = await self._discover_resources(desired or [])
        except (StatusError, Unreachable) as error:
            raise RequeueError(str(error)) from None
        for resource in set(self._resources.values()) - set(by_name.values()):
            self._hub.remove_resource(resource)
        for resource in by_name.values():
            self._hub.add_resource(resource)
        self._resources = by_name
        syncer.set_resources(by_name.values(), complete=desired is not None and len(by_name) == len(desired))

    async def _discover_resources(self, resources: list[str]) -> dict[str, SyncedResource]:
        """Discovers the resources on the hub. Those it does not serve yet are retried."""
        by_name: dict[str, SyncedResource] = {}
        for resource in resources:
            if resource in self._resources:
                by_name[resource] = self._resources[resource]
                continue
            discovered = await discover_resource(self._client, *parse_resource(resource))
            if discovered is None:
                self._controller.queue.add_after(self._cluster_name, RETRY_SECONDS)
                continue
            has_status, namespaced = "status" in discovered.subresources, bool(discovered.resource["namespaced"])
            by_name[resource] = SyncedResource(discovered.api, discovered.resource["kind"], has_status, namespaced)
        return by_name

    async def _start(self, cluster: Object, identity: str) -> Syncer:
        await self._stop()
        config = SyncerConfig(
            hub=self._hub,
            hub_writer=self._hub_writer,
            hub_id=identity,
            client=self._new_local_client(),
            status_writer=self._status_writer,
            on_unauthorized=lambda: None,
            reports_resources=False,
        )
        syncer = self._syncer = Syncer(cluster, config, self._clock)
        self._task = asyncio.create_task(syncer.run(), name=self.name)
        self._task.add_done_callback(self._on_syncer_exit)
        self.started.set()
        return syncer

    def _on_syncer_exit(self, task: asyncio.Task[None]) -> None:
        """A syncer ends only when stopped; any other end is a fault, and it is restarted."""
        if task is self._task:
            self._syncer, self._task = None, None
            self.started.clear()
            if not task.cancelled():
                log.error("%s ended unexpectedly", self.name, exc_info=task.exception())
            self._controller.queue.add_after(self._cluster_name, RETRY_SECONDS)

    async def _stop(self) -> None:
        task, self._syncer, self._task = self._task, None, None
        self.started.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
