"""Manages the syncers: starts, reconfigures and stops one for each workload Cluster with a kubeconfig."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import is_negotiated
from shoal.kinds.workload.served_apis import import_refusal
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.cluster_status import ClusterStatusWriter
from shoal.sync.conditions import SyncCondition
from shoal.sync.remote_cluster import KubeconfigText, NewClient, NoKubeconfig, kubeconfig_of
from shoal.sync.resources import CLUSTERS, IMPORTS
from shoal.sync.syncer.assignment_check import by_location
from shoal.sync.syncer.finalizer_cleanup import FinalizerCleanup
from shoal.sync.syncer.heartbeats import SyncerHeartbeats
from shoal.sync.syncer.hub_informers import HubInformers, SyncedResource
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.mirror_cleanup import MirrorCleanup
from shoal.sync.syncer.synced_resources import SyncedResourceTracker, synced_resource_of
from shoal.sync.syncer.syncer import Syncer, SyncerConfig

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

RESYNC_SECONDS = 30.0
"""Between checks for a kubeconfig that was replaced in its Secret."""
RETRY_SECONDS = 2.0
"""Between retries of a missing or unreadable kubeconfig."""


@dataclass(frozen=True, slots=True)
class RunningSyncer:
    syncer: Syncer
    digest: str
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class HubComponents:
    """Components that all syncers of a process share."""

    hub: HubInformers
    resources: SyncedResourceTracker
    finalizer_cleanup: FinalizerCleanup
    hub_writer: HubWriter


class SyncerManager:
    """Keys are names of workload Clusters."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        new_client: NewClient,
        components: HubComponents,
        status_writer: ClusterStatusWriter,
        mode: str,
    ) -> None:
        """`mode` is the sync mode of Clusters that set none."""
        self._client, self._clock, self._new_client, self._status_writer = client, clock, new_client, status_writer
        self._components, self._mode = components, mode
        self._heartbeats = SyncerHeartbeats(clock, lambda name: self._controller.queue.add(name))
        self._clusters = Informer(client, CLUSTERS, clock)
        self._imports = Informer(client, IMPORTS, clock, indexers=(by_location,))
        self._mirror_cleanup = MirrorCleanup(
            client, clock, self._clusters, lambda name: self._controller.queue.add(name)
        )
        self.name = "syncers"
        self._controller: Controller[str] = Controller(self.name, clock, self.reconcile)
        components.hub.on_sync = self._on_hub_synced
        self._controller.watch(self._clusters, self._on_cluster)
        self._clusters.on_sync(self._on_clusters_synced)
        self._controller.watch(self._imports, self._on_import)
        self._controller.sources += [self._resync, self._heartbeats.run, self._mirror_cleanup.run]
        self._running: dict[str, RunningSyncer] = {}
        self._without_kubeconfig: set[str] = set()
        """Clusters without a usable kubeconfig."""
        self._imports_seen: dict[str, str] = {}
        """Uids of clusters whose imports are known."""

    async def run(self) -> None:
        try:
            await self._controller.run()
        finally:
            for name in list(self._running):
                await self._stop(name)

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        is_remote = new is not None and workloadcluster.sync_mode(new, self._mode) != workloadcluster.PUSH
        self._components.finalizer_cleanup.set_remote(key[2], is_remote)
        self._heartbeats.observe(key[2], new if is_remote else None)
        self._controller.queue.add(key[2])

    def _on_clusters_synced(self) -> None:
        self._components.finalizer_cleanup.have_clusters_synced = True

    def _on_hub_synced(self) -> None:
        """Syncers may have been waiting for this list."""
        for running in self._running.values():
            running.syncer.request_report()

    def _on_import(self, key: Key, old: Object | None, new: Object | None) -> None:
        import_ = new or old
        if import_ is not None:
            self._controller.queue.add(import_["spec"]["location"])

    async def _resync(self) -> None:
        ticks = 0
        while True:
            await self._clock.sleep(RETRY_SECONDS)
            ticks += 1
            is_resync = ticks * RETRY_SECONDS % RESYNC_SECONDS == 0
            for name in [*self._running] if is_resync else [*self._without_kubeconfig]:
                self._controller.queue.add(name)

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.get(("", "", name))
        if cluster is None:
            if self._clusters.has_synced:
                await self._handle_deleted(name)
            return
        await self._mirror_cleanup.reconcile(name, cluster)
        if workloadcluster.sync_mode(cluster, self._mode) != workloadcluster.PUSH:
            await self._stop(name)
            await self._report_remote_syncer(cluster)
            return
        try:
            kubeconfig = await kubeconfig_of(self._client, cluster)
            running = self._running.get(name)
            uid = cluster["metadata"]["uid"]
            if running is None or running.digest != kubeconfig.digest or running.syncer.uid != uid:
                await self._stop(name)
                running = await self._start(cluster, kubeconfig)
        except NoKubeconfig as error:
            self._without_kubeconfig.add(name)
            await self._stop(name)
            condition = SyncCondition(workloadcluster.HEARTBEAT_HEALTHY, "False", "InvalidKubeConfig", str(error))
            await self._status_writer.update(name, cluster["metadata"]["uid"], [condition])
            return
        self._without_kubeconfig.discard(name)
        running.syncer.configure(cluster)
        await self._components.resources.ready.wait()
        running.syncer.set_resources(self._resources_for(name), await self._is_complete(cluster))

    async def _report_remote_syncer(self, cluster: Object) -> None:
        """The syncer runs in another process: writes the kinds it must sync and checks its heartbeat."""
        self._without_kubeconfig.discard(cluster["metadata"]["name"])
        await self._components.resources.ready.wait()
        name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        complete = await self._is_complete(cluster)
        resource = sorted(each.api.group_resource for each in self._resources_for(name))
        expected = workloadcluster.sync_mode(cluster, self._mode) == workloadcluster.PULL
        conditions = self._heartbeats.conditions(name, expected)
        await self._status_writer.update(name, uid, conditions, resource if complete else None)

    async def _is_complete(self, cluster: Object) -> bool:
        return condition_is(cluster, workloadcluster.IMPORTER_READY) and await self._has_seen_imports(cluster)

    async def _has_seen_imports(self, cluster: Object) -> bool:
        """The importer is done, but this watch of its imports may lag."""
        name, uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        if self._imports_seen.get(name) == uid:
            return True
        imports, _ = await self._client.list_all(IMPORTS)
        for import_ in imports:
            if import_["spec"]["location"] != name:
                continue
            cached = self._imports.get(("", "", import_["metadata"]["name"]))
            if cached is None or not is_negotiated(cached):
                raise RequeueError("informer of APIResourceImports has not caught up yet")
        self._imports_seen[name] = uid
        return True

    def _resources_for(self, name: str) -> list[SyncedResource]:
        by_api = {resource.api: resource for resource in self._components.resources.base_resources}
        for import_ in self._imports.by_index(by_location, name):
            resource = synced_resource_of(import_) if import_refusal(import_) is None else None
            if resource is not None:
                by_api[resource.api] = resource
        return list(by_api.values())

    async def _handle_deleted(self, name: str) -> None:
        """The workload Cluster was deleted: its downstream objects stay, and no finalizer waits for them."""
        self._without_kubeconfig.discard(name)
        self._imports_seen.pop(name, None)
        await self._stop(name)
        try:
            await self._client.get(CLUSTERS, name)
        except NotFound as error:
            if (error.kind, error.name) != (CLUSTERS.resource, name):
                raise
            await self._mirror_cleanup.reconcile(name, None)
            self._components.finalizer_cleanup.release_all(name)
            return
        raise RequeueError("a workload Cluster with this name was created concurrently")

    async def _start(self, cluster: Object, kubeconfig: KubeconfigText) -> RunningSyncer:
        name = cluster["metadata"]["name"]
        components = self._components
        identity = await components.hub_writer.hub_uid()
        config = SyncerConfig(
            hub=components.hub,
            hub_writer=components.hub_writer,
            hub_id=identity,
            client=kubeconfig.client(self._new_client),
            status_writer=self._status_writer,
            on_unauthorized=lambda: self._controller.queue.add(name),
        )
        syncer = Syncer(cluster, config, self._clock)
        task = asyncio.create_task(syncer.run(), name=f"syncer {name}")
        running = self._running[name] = RunningSyncer(syncer, kubeconfig.digest, task)
        task.add_done_callback(lambda done: self._on_syncer_exit(name, done))
        return running

    def _on_syncer_exit(self, name: str, task: asyncio.Task[None]) -> None:
        """A syncer ends only when stopped; any other end is a fault, and it is restarted."""
        running = self._running.get(name)
        if running is not None and running.task is task:
            del self._running[name]
            if not task.cancelled():
                log.error("syncer of workload Cluster %s ended unexpectedly", name, exc_info=task.exception())
            self._controller.queue.add_after(name, RETRY_SECONDS)

    async def _stop(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
