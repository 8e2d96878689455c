"""Pull mode: the syncer of one cluster in its own process, in the cluster or anywhere. The same Syncer with other
clients.

On the hub it sees only objects of its cluster. The hub lists the kinds to sync in the workload Cluster's status.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds import workload
from shoal.kinds.apiresource import parse_resource
from shoal.objects.errors import ShoalError, StatusError
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import Recorder
from shoal.sync.discovery import discover
from shoal.sync.reporting import Reporter
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.heartbeats import EVERY_SECONDS
from shoal.sync.syncer.hub import Hub, Synced
from shoal.sync.syncer.hubwrites import HubWrites
from shoal.sync.syncer.syncer import Sides, Syncer

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

RETRY_SECONDS = 1.0


class PullSyncer:
    """Has one key, the name of its workload Cluster. `new_local_client` creates a client of the cluster."""

    def __init__(self, name: str, hub: Client, local: Callable[[], Client], clock: Clock) -> None:
        self.name = f"syncer of {name}"
        self._cluster_name, self._client, self._local, self._clock = name, hub, local, clock
        self._recorder = Recorder(lambda cluster: hub, clock)
        self._writes = HubWrites(hub, self._recorder, name)
        self._reporter = Reporter(hub, clock, workload.PULL)
        self._hub = Hub(hub, clock, only=name)
        self._hub.listed = self._again
        self._loop: Loop[str] = Loop(self.name, clock, self._reconcile, workers=1)
        self._clusters = Reflector(hub, CLUSTERS, clock, self._changed, fields=f"metadata.name={name}")
        self._loop.sources += [self._clusters.run, self._recorder.run, self._beat]
        self._syncer: Syncer | None = None
        self._task: asyncio.Task[None] | None = None
        self._kinds: dict[str, Synced] = {}
        self.started = asyncio.Event()
        """Syncing has begun."""

    async def run(self) -> None:
        try:
            await self._loop.run()
        finally:
            self._hub.close()
            await self._stop()

    def _changed(self, key: Key, obj: Object | None) -> None:
        self._again()

    def _again(self) -> None:
        self._loop.queue.add(self._cluster_name)

    async def _beat(self) -> None:
        """Sends heartbeats only; conditions are written when they change."""
        while True:
            syncer, pause = self._syncer, EVERY_SECONDS
            if syncer is not None:
                try:
                    now = rfc3339(self._clock.now())
                    await self._reporter.cluster(syncer.name, syncer.uid, syncer.conditions(), heartbeat=now)
                except ShoalError as error:
                    log.info("%s: the hub does not take its heartbeat: %s", self.name, error)
                    pause = RETRY_SECONDS
                self._again()  # checks again which hub this is
                await self._clock.sleep(pause)
            else:
                await self.started.wait()

    async def _reconcile(self, name: str) -> None:
        cluster = self._clusters.objects.get(("", "", name))
        if cluster is None:
            if self._clusters.synced:
                log.warning("%s: the hub has no such workload Cluster; everything stays as it is", self.name)
                await self._stop()
            return
        identity = await self._writes.identity()
        syncer = self._syncer
        if syncer is None or syncer.uid != cluster["metadata"]["uid"] or syncer.hub_id != identity:
            syncer = await self._start(cluster, identity)
        syncer.mind(cluster)
        wanted = (cluster.get("status") or {}).get("syncedResources")
        try:
            kinds = await self._find(wanted or [])
        except (StatusError, Unreachable) as error:
            raise Later(str(error)) from None
        for synced in set(self._kinds.values()) - set(kinds.values()):
            self._hub.remove(synced)
        for synced in kinds.values():
            self._hub.add(synced)
        self._kinds = kinds
        syncer.set_kinds(kinds.values(), complete=wanted is not None and len(kinds) == len(wanted))

    async def _find(self, resources: list[str]) -> dict[str, Synced]:
        """Discovers the resources on the hub. Those it does not serve yet are retried."""
        kinds: dict[str, Synced] = {}
        for resource in resources:
            if resource in self._kinds:
                kinds[resource] = self._kinds[resource]
                continue
            found = await discover(self._client, *parse_resource(resource))
            if found is None:
                self._loop.queue.add_after(self._cluster_name, RETRY_SECONDS)
                continue
            has_status, namespaced = "status" in found.subresources, bool(found.resource["namespaced"])
            kinds[resource] = Synced(found.api, found.resource["kind"], has_status, namespaced)
        return kinds

    async def _start(self, cluster: Object, identity: str) -> Syncer:
        await self._stop()
        sides = Sides(
            *(self._hub, self._writes, identity, self._local(), self._reporter),
            denied=lambda: None,
            tells_kinds=False,
        )
        syncer = self._syncer = Syncer(cluster, sides, self._clock)
        self._task = asyncio.create_task(syncer.run(), name=self.name)
        self._task.add_done_callback(self._ended)
        self.started.set()
        return syncer

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A syncer ends only when stopped; any other end is a fault, and it is restarted."""
        if task is self._task:
            self._syncer, self._task = None, None
            if not task.cancelled():
                log.error("%s ended", self.name, exc_info=task.exception())
            self._loop.queue.add_after(self._cluster_name, RETRY_SECONDS)

    async def _stop(self) -> None:
        task, self._syncer, self._task = self._task, None, None
        self.started.clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
