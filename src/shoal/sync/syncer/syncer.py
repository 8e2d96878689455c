"""The syncer of one workload Cluster: applies the objects assigned to it, repairs drift, and copies their status back.

It is given two clients and does not know where it runs. While the cluster does not respond, keys are deferred: nothing
is retried and nothing is concluded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.objects.conditions import condition_is
from shoal.objects.errors import ShoalError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_namespace
from shoal.sync.cluster_status import ClusterStatusWriter
from shoal.sync.conditions import SyncCondition
from shoal.sync.syncer import status
from shoal.sync.syncer.autoscalers import by_scale_target, scaled_objects
from shoal.sync.syncer.decide import is_from_hub, source_of
from shoal.sync.syncer.deps import SyncerDeps
from shoal.sync.syncer.event_mirror import EventMirror
from shoal.sync.syncer.health import ClusterHealth
from shoal.sync.syncer.hub_informers import HubInformers, SyncedResource, SyncKey
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.name_mapping import NameMapping, by_source
from shoal.sync.syncer.namespaces import NamespaceMapper
from shoal.sync.syncer.object_sync import ObjectSyncer
from shoal.sync.syncer.pod_mirror import PodMirror
from shoal.sync.syncer.references import DependencyRef, references_of
from shoal.sync.syncer.unschedulable_pods import UnschedulablePods

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

WORKERS = 8
REQUEST_TIMEOUT = 15.0
DEFERRED_DELAY = 0.2
WATCH_RETRY_SECONDS = 5.0
"""After a watch of the cluster failed unexpectedly."""


@dataclass(frozen=True, slots=True)
class SyncerConfig:
    """Both sides of a syncer, and its callbacks."""

    hub: HubInformers
    hub_writer: HubWriter
    hub_id: str
    client: Client
    """Client of the cluster; closed with the syncer."""
    status_writer: ClusterStatusWriter
    on_unauthorized: Callable[[], None]
    """Called when the cluster rejects the credentials."""
    reports_resources: bool = True
    """False: another component writes syncedResources."""


class Syncer:
    def __init__(self, cluster: Object, config: SyncerConfig, clock: Clock) -> None:
        self.name, self.uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        self.hub_id = config.hub_id
        self._client, self._hub, self._clock = config.client, config.hub, clock
        self._status_writer, self._reports_resources = config.status_writer, config.reports_resources
        self._controller: Controller[SyncKey | str] = Controller(f"syncer {self.name}", clock, self._reconcile, WORKERS)
        self._health = ClusterHealth(
            clock,
            self._probe,
            on_reachable=self._on_reachable,
            on_unreachable=self._stop_watches,
            on_change=self.request_report,
            on_unauthorized=config.on_unauthorized,
            was_healthy=condition_is(cluster, workloadcluster.HEARTBEAT_HEALTHY),
        )
        self._namespaces = NamespaceMapper(config.client, clock, self.name, config.hub_id)
        self._downstream: dict[SyncedResource, Informer] = {}
        self._watches: dict[SyncedResource, asyncio.Task[None]] = {}
        self._names = NameMapping(config.hub_id, self._downstream)
        self._status = status.SyncerStatus(self.request_report)
        deps = SyncerDeps(
            cluster=self.name,
            hub_id=config.hub_id,
            clock=clock,
            client=config.client,
            hub=config.hub,
            hub_writer=config.hub_writer,
            namespaces=self._namespaces,
            downstream=self._downstream,
            names=self._names,
            status=self._status,
            queue=self._controller.queue,
        )
        self._object_syncer = ObjectSyncer(deps)
        self._object_syncer.guard.is_stopped = condition_is(cluster, status.DELETIONS_HELD)
        self._unschedulable_pods = UnschedulablePods(deps)
        self._event_mirror, self._pod_mirror = EventMirror(deps), PodMirror(deps)
        self._mirrored_kinds: frozenset[str] = frozenset()
        self._side_watches: list[asyncio.Task[None]] = []
        """Watches of namespaces, pods and mirrors, while the cluster responds."""
        self._resources_complete = False
        self._readiness = status.SyncerReadiness(clock, condition_is(cluster, workloadcluster.SYNCER_READY))
        self._deferred: set[SyncKey | str] = set()
        self._report_needed = asyncio.Event()
        self.configure(cluster)

    # --- lifecycle ---

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._controller.run())
                group.create_task(self._health.run())
                group.create_task(self._report())
                self._hub.attach(self.name, self._controller.queue.add)
        finally:
            self._hub.detach(self.name)
            self._stop_watches()
            await self._client.close()

    def configure(self, cluster: Object) -> None:
        """Applies the workload Cluster's settings for deletions, adoption and mirroring."""
        mirrored_kinds = frozenset(
            what for what in ("events", "pods") if workloadcluster.mirrors_resource(cluster, what)
        )
        if mirrored_kinds != self._mirrored_kinds:
            self._mirrored_kinds = mirrored_kinds
            self._status.not_mirrored.update("pods", "")
            self._stop_watches()
            if self._health.is_reachable:
                self._start_watches()
        annotations = cluster["metadata"].get("annotations") or {}
        allow_deletions, adopted_hub = (
            annotations.get(workloadcluster.ALLOW_DELETIONS_ANNOTATION) == "true",
            annotations.get(workloadcluster.ADOPT_FROM_ANNOTATION, ""),
        )
        object_syncer = self._object_syncer
        changed = (allow_deletions, adopted_hub) != (object_syncer.guard.is_confirmed, object_syncer.adopted_hub)
        object_syncer.guard.is_confirmed, object_syncer.adopted_hub = allow_deletions, adopted_hub
        if changed:
            for sync_key in [
                *self._status.held_deletions.keys(),
                *self._status.foreign_copies.keys(),
                *self._hub.all_keys_for(self.name),
            ]:
                self._controller.queue.add(sync_key)

    def set_resources(self, resources: Iterable[SyncedResource], complete: bool) -> None:
        """Sets the synced resources; `complete` if no more are expected for now."""
        self._resources_complete = self._object_syncer.are_resources_complete = complete
        desired = set(resources)
        for resource in [current for current in self._downstream if current not in desired]:
            del self._downstream[resource]
            if resource in self._watches:
                self._watches.pop(resource).cancel()
        for resource in desired - set(self._downstream):
            self._downstream[resource] = self._new_informer(resource)
        if self._health.is_reachable:
            self._start_watches()
        for sync_key in self._hub.leaving_keys(self.name):
            if sync_key.resource not in desired:
                self._controller.queue.add(sync_key)
        self.request_report()

    def _new_informer(self, resource: SyncedResource) -> Informer:
        def handle_object(key: Key, old: Object | None, new: Object | None) -> None:
            name = self._names.hub_name_of(key, new or old)
            sync_key = SyncKey(resource, self._namespaces.hub_name(key[1]) if key[1] else "", name)
            self._on_downstream_object(sync_key, new)
            self._controller.queue.add(sync_key)
            for scaled, copy in scaled_objects(self._downstream, key, old, new):
                scaled_name = self._names.hub_name_of(key, copy)
                self._controller.queue.add(SyncKey(scaled, sync_key.namespace, scaled_name))
            if new is None:
                # The name is free: for objects that wait for it, and for dependencies of that name.
                for each in {sync_key._replace(name=key[2]), *self._names.pop_waiters(resource, key)}:
                    self._controller.queue.add(each)
                if key[1]:
                    self._controller.queue.add(sync_key.namespace)

        def handle_sync() -> None:
            for sync_key in self._hub.keys_for(self.name, resource):
                self._controller.queue.add(sync_key)
            self._unschedulable_pods.mark_all()
            self.request_report()

        informer = Informer(
            self._client,
            resource.gvr,
            self._clock,
            labels=workloadcluster.CLUSTER_LABEL,
            indexers=(by_source, by_namespace, by_scale_target),
            resumable=True,
        )
        informer.add_event_handler(handle_object)
        informer.on_sync(handle_sync)
        return informer

    def _on_downstream_object(self, sync_key: SyncKey, copy: Object | None) -> None:
        """Updates the references of a downstream object, and whether it belongs to another hub or registration."""
        api = sync_key.resource.api
        is_own = copy is not None and is_from_hub(copy, self.hub_id)
        refs = references_of(copy, api.plural, api.group) if copy is not None and is_own else frozenset()
        refs = frozenset(DependencyRef(ref.plural, sync_key.namespace, ref.name) for ref in refs)
        for ref in self._object_syncer.references.set_references(self.name, sync_key, api.group_resource, refs):
            needed = self._hub.key_for(ref)
            if needed is not None:
                self._controller.queue.add(needed)
        title = ""
        if copy is not None and (origin := source_of(copy)[0]):
            if not is_own:
                title = f"{sync_key.title} of hub {origin}"
            elif workloadcluster.assigned_cluster(copy) != self.name:
                title = f"{sync_key.title} made for {workloadcluster.assigned_cluster(copy)}"
        self._status.foreign_copies.update(sync_key, title)

    async def _probe(self) -> None:
        await self._client.get_path("/readyz")

    def _on_reachable(self) -> None:
        self._start_watches()
        for key in self._deferred:
            self._controller.queue.add_after(key, DEFERRED_DELAY)
        self._deferred.clear()
        if self._readiness.not_ready_since is not None:
            self.request_report()

    def _start_watches(self) -> None:
        """A watch resumes where it was interrupted."""
        if not self._side_watches:
            mirror_runs = {"events": self._event_mirror.run, "pods": self._pod_mirror.run}
            mirrors = (run for what, run in mirror_runs.items() if what in self._mirrored_kinds)
            for run in (self._namespaces.informer.run, self._unschedulable_pods.run, *mirrors):
                self._side_watches.append(asyncio.create_task(self._run_logged(run), name=f"syncer {self.name}"))
        for resource, informer in self._downstream.items():
            if resource not in self._watches:
                name = f"syncer {self.name} {resource.api.group_resource}"
                self._watches[resource] = asyncio.create_task(self._watch(informer), name=name)

    async def _watch(self, informer: Informer) -> None:
        await self._namespaces.informer.wait_for_sync()
        await self._run_logged(informer.run)

    async def _run_logged(self, run: Callable[[], Awaitable[None]]) -> None:
        """A watch that fails is run again. It stops none of the others."""
        while True:
            try:
                await run()
            except Exception:
                log.exception("watch of a workload Cluster failed")
            await self._clock.sleep(WATCH_RETRY_SECONDS)

    def _stop_watches(self) -> None:
        for watch in self._side_watches:
            watch.cancel()
        self._side_watches.clear()
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()

    # --- status ---

    def request_report(self) -> None:
        self._report_needed.set()

    async def _report(self) -> None:
        while True:
            await self._report_needed.wait()
            self._report_needed.clear()
            try:
                resource = sorted(resource.api.group_resource for resource in self._downstream)
                reports = self._resources_complete and self._reports_resources
                await self._status_writer.update(self.name, self.uid, self.conditions(), resource if reports else None)
            except ShoalError as error:
                log.info("syncer %s: cannot write status: %s", self.name, error)
                await self._clock.sleep(1.0)
                self._report_needed.set()

    def conditions(self) -> list[SyncCondition]:
        unsynced = [
            resource.api.group_resource for resource, informer in self._downstream.items() if not informer.has_synced
        ]
        unsynced += self._hub.unsynced_resources(set(self._downstream))
        return [
            *status.heartbeat_conditions(self._health.status),
            *self._readiness.conditions(self._resources_complete, unsynced),
            *self._status.conditions(self.hub_id),
        ]

    # --- reconcile ---

    async def _reconcile(self, key: SyncKey | str) -> None:
        if not self._health.is_reachable:
            self._deferred.add(key)
            return
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                if isinstance(key, SyncKey):
                    await self._object_syncer.sync(key)
                    self._pod_mirror.request_compare()
                elif not self._is_namespace_used(key):
                    await self._namespaces.remove_empty(key)
        except (Unreachable, TimeoutError):
            self._deferred.add(key)
            self._health.probe_now()

    def _is_namespace_used(self, namespace: str) -> bool:
        if not self._hub.has_synced():
            raise RequeueError("informers of the hub have not synced yet")
        copies = (key for informer in self._downstream.values() for key in informer.objects)
        here = any(self._namespaces.hub_name(key[1]) == namespace for key in copies if key[1])
        return here or self._hub.has_objects_in(self.name, namespace)
