"""Manages the syncers: starts, reconfigures and stops one for each workload Cluster with a kubeconfig."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.apiresource import AVAILABLE, COMPATIBLE, is_settled
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition
from shoal.sync.connecting import Connect, NoKubeconfig, kubeconfig_of
from shoal.sync.reporting import Reporter
from shoal.sync.resources import CLUSTERS, IMPORTS
from shoal.sync.syncer.heartbeats import Heartbeats
from shoal.sync.syncer.hub import Hub, Synced
from shoal.sync.syncer.hubkinds import HubKinds, synced_as
from shoal.sync.syncer.hubwrites import HubWrites
from shoal.sync.syncer.keeping import Keeping
from shoal.sync.syncer.syncer import Sides, Syncer
from shoal.sync.syncer.unmirroring import Unmirroring

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

AGAIN_SECONDS = 30.0
"""Between checks for a kubeconfig that was replaced in its Secret."""
MISSING_SECONDS = 2.0
"""Between retries of a missing or unreadable kubeconfig."""


@dataclass(frozen=True, slots=True)
class Running:
    syncer: Syncer
    digest: str
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class HubSide:
    """Components that all syncers of a process share."""

    hub: Hub
    kinds: HubKinds
    keeping: Keeping
    writes: HubWrites


class Syncers:
    """Keys are names of workload Clusters."""

    def __init__(
        self, client: Client, clock: Clock, connect: Connect, side: HubSide, reporter: Reporter, mode: str
    ) -> None:
        """`mode` is the sync mode of Clusters that set none."""
        self._client, self._clock, self._connect, self._reporter = client, clock, connect, reporter
        self._side, self._mode = side, mode
        self._heartbeats = Heartbeats(clock, lambda name: self._loop.queue.add(name))
        self._unmirroring = Unmirroring(client, clock, lambda name: self._loop.queue.add(name))
        self.name = "syncers"
        self._loop: Loop[str] = Loop(self.name, clock, self.reconcile)
        side.hub.listed = self._hub_listed
        self._clusters = Reflector(client, CLUSTERS, clock, self._cluster, listed=self._listed)
        self._imports = Reflector(client, IMPORTS, clock, self._import)
        self._loop.sources += [self._clusters.run, self._imports.run, self._tick, self._heartbeats.run]
        self._loop.sources.append(self._unmirroring.run)
        self._running: dict[str, Running] = {}
        self._locations: dict[str, str] = {}
        self._missing: set[str] = set()
        """Clusters without a usable kubeconfig."""
        self._seen: dict[str, str] = {}
        """Uids of clusters whose imports are known."""

    async def run(self) -> None:
        try:
            await self._loop.run()
        finally:
            for name in list(self._running):
                await self._stop(name)

    def _cluster(self, key: Key, obj: Object | None) -> None:
        elsewhere = obj is not None and workload.sync_mode(obj, self._mode) != workload.PUSH
        self._side.keeping.set_elsewhere(key[2], elsewhere)
        self._heartbeats.saw(key[2], obj if elsewhere else None)
        self._loop.queue.add(key[2])

    def _listed(self) -> None:
        self._side.keeping.clusters_known = True
        self._unmirroring.clusters_known.set()

    def _hub_listed(self) -> None:
        """Syncers may have been waiting for this list."""
        for running in self._running.values():
            running.syncer.report_soon()

    def _import(self, key: Key, obj: Object | None) -> None:
        location = self._locations.pop(key[2], "") if obj is None else obj["spec"]["location"]
        if obj is not None:
            self._locations[key[2]] = location
        self._loop.queue.add(location)

    async def _tick(self) -> None:
        turns = 0
        while True:
            await self._clock.sleep(MISSING_SECONDS)
            turns += 1
            everybody = turns * MISSING_SECONDS % AGAIN_SECONDS == 0
            for name in [*self._running] if everybody else [*self._missing]:
                self._loop.queue.add(name)

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.objects.get(("", "", name))
        if cluster is None:
            if self._clusters.synced:
                await self._gone(name)
            return
        await self._unmirroring.mind(name, cluster)
        if workload.sync_mode(cluster, self._mode) != workload.PUSH:
            await self._stop(name)
            await self._tell_elsewhere(cluster)
            return
        try:
            kubeconfig = await kubeconfig_of(self._client, cluster)
            running = self._running.get(name)
            uid = cluster["metadata"]["uid"]
            if running is None or running.digest != kubeconfig.digest or running.syncer.uid != uid:
                await self._stop(name)
                running = await self._start(cluster, kubeconfig.client(self._connect), kubeconfig.digest)
        except NoKubeconfig as error:
            self._missing.add(name)
            await self._stop(name)
            broken = Condition(workload.HEARTBEAT_HEALTHY, "False", "InvalidKubeConfig", str(error))
            await self._reporter.cluster(name, cluster["metadata"]["uid"], [broken])
            return
        self._missing.discard(name)
        running.syncer.mind(cluster)
        await self._side.kinds.started.wait()
        running.syncer.set_kinds(self._kinds(name), await self._is_complete(cluster))

    async def _tell_elsewhere(self, cluster: Object) -> None:
        """The syncer runs in another process: writes the kinds it must sync and checks its heartbeat."""
        self._missing.discard(cluster["metadata"]["name"])
        await self._side.kinds.started.wait()
        name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        complete = await self._is_complete(cluster)
        synced = sorted(each.api.group_resource for each in self._kinds(name))
        expected = workload.sync_mode(cluster, self._mode) == workload.PULL
        beats = self._heartbeats.judge(name, expected)
        await self._reporter.cluster(name, uid, beats, synced if complete else None)

    async def _is_complete(self, cluster: Object) -> bool:
        return condition_is(cluster, workload.IMPORTER_READY) and await self._has_seen_imports(cluster)

    async def _has_seen_imports(self, cluster: Object) -> bool:
        """The importer is done, but this watch of its imports may lag."""
        name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        if self._seen.get(name) == uid:
            return True
        found, _ = await self._client.list_all(IMPORTS)
        for offered in found:
            if offered["spec"]["location"] != name:
                continue
            seen = self._imports.objects.get(("", "", offered["metadata"]["name"]))
            if seen is None or not is_settled(seen):
                raise Later("the imports are not seen yet")
        self._seen[name] = uid
        return True

    def _kinds(self, name: str) -> list[Synced]:
        found = {synced.api: synced for synced in self._side.kinds.basic}
        for offered in self._imports.objects.values():
            usable = condition_is(offered, COMPATIBLE) and condition_is(offered, AVAILABLE)
            synced = synced_as(offered) if usable and offered["spec"]["location"] == name else None
            if synced is not None:
                found[synced.api] = synced
        return list(found.values())

    async def _gone(self, name: str) -> None:
        """The workload Cluster was deleted: its downstream objects stay, and no finalizer waits for them."""
        self._missing.discard(name)
        self._seen.pop(name, None)
        await self._stop(name)
        try:
            await self._client.get(CLUSTERS, name)
        except NotFound as error:
            if (error.kind, error.name) != (CLUSTERS.plural, name):
                raise
            await self._unmirroring.mind(name, None)
            self._side.keeping.release_all(name)
            return
        raise Later("a workload Cluster of that name has just come")

    async def _start(self, cluster: Object, client: Client, digest: str) -> Running:
        name = cluster["metadata"]["name"]
        side = self._side
        identity = await side.writes.identity()
        sides = Sides(
            *(side.hub, side.writes, identity, client, self._reporter),
            denied=lambda: self._loop.queue.add(name),
        )
        syncer = Syncer(cluster, sides, self._clock)
        task = asyncio.create_task(syncer.run(), name=f"syncer {name}")
        running = self._running[name] = Running(syncer, digest, task)
        task.add_done_callback(lambda done: self._ended(name, done))
        return running

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """A syncer ends only when stopped; any other end is a fault, and it is restarted."""
        running = self._running.get(name)
        if running is not None and running.task is task:
            del self._running[name]
            if not task.cancelled():
                log.error("syncer %s ended", name, exc_info=task.exception())
                self._loop.queue.add_after(name, MISSING_SECONDS)

    async def _stop(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
