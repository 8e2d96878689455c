"""The hub side of syncers: one watch per kind, whose objects are dispatched to the clusters they are assigned to.

Objects are indexed by the finalizers they have or should have (`syncer_finalizer`), so that a downstream object in
a formerly assigned cluster is not forgotten. They are also indexed by the objects that reference them, so that
dependencies of pods are synced too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.client.reflector import Key, Transform, strip_managed_fields
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import GVR
from shoal.objects.errors import StatusError
from shoal.runtime.informer import Informer
from shoal.sync.syncer.dependency_status import dependency_annotations
from shoal.sync.syncer.references import DependencyRef, ReferenceIndex, is_dependency_kind, references_of

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

RETRY_SECONDS = 1.0


class SyncedResource(NamedTuple):
    """A kind whose objects are synced."""

    api: GVR
    kind: str
    has_status: bool
    namespaced: bool = True

    @property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(*self.api, self.namespaced)


class SyncKey(NamedTuple):
    """Identifies an object on the hub, and its downstream object in any cluster."""

    resource: SyncedResource
    namespace: str
    name: str

    @property
    def title(self) -> str:
        qualified_name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.api.group_resource} {qualified_name}"


SyncKeyHandler = Callable[[SyncKey], None]


class HubInformers:
    def __init__(self, client: Client, clock: Clock, only: str = "") -> None:
        """`only`: the single cluster whose objects are visible and watched."""
        self._client, self._clock, self._only = client, clock, only
        self._informers: dict[SyncedResource, list[Informer]] = {}
        self._tasks: dict[SyncedResource, asyncio.Task[None]] = {}
        self._dependency_resources: dict[str, SyncedResource] = {}
        """Kinds of objects that others reference, by plural."""
        self._finalizers_by_key: dict[SyncKey, frozenset[str]] = {}
        self._keys_by_finalizer: dict[str, dict[SyncKey, None]] = {}
        """The same, by finalizer."""
        self._leaving_keys: dict[str, set[SyncKey]] = {}
        self._handlers: dict[str, SyncKeyHandler] = {}
        self.references: ReferenceIndex[SyncKey] = ReferenceIndex()
        self.on_unclaimed_finalizer: Callable[[SyncKey, str], None] = lambda work, finalizer: None
        """Called for objects with the finalizer of a cluster that no syncer here handles."""
        self.on_reference: Callable[[DependencyRef], None] = lambda ref: None
        """Called when an object gains or loses a reference, or a referenced object changes."""
        self.on_assigned: Callable[[SyncKey, Object | None], None] = lambda work, obj: None
        """Called when an object that is assigned to a cluster changes, and when it is not assigned or gone; with the
        object as far as it is visible.
        """
        self.on_sync: Callable[[], None] = lambda: None
        """Called after each complete list."""

    # --- handlers ---

    def attach(self, cluster: str, handler: SyncKeyHandler) -> None:
        """From now on `handler` receives the objects that are or were assigned to the cluster, or are dependencies
        there; first all existing ones.
        """
        finalizer = workloadcluster.syncer_finalizer(cluster)
        self._handlers[finalizer] = handler
        for sync_key in [*self._keys_with_finalizer(finalizer), *self._dependencies_in(cluster)]:
            handler(sync_key)

    def detach(self, cluster: str) -> None:
        self._handlers.pop(workloadcluster.syncer_finalizer(cluster), None)

    def keys_for(self, cluster: str, resource: SyncedResource) -> list[SyncKey]:
        keys = [*self._keys_with_finalizer(workloadcluster.syncer_finalizer(cluster)), *self._dependencies_in(cluster)]
        return [sync_key for sync_key in keys if sync_key.resource == resource]

    def all_keys_for(self, cluster: str) -> list[SyncKey]:
        return self._keys_with_finalizer(workloadcluster.syncer_finalizer(cluster))

    def known_keys(self) -> list[SyncKey]:
        """Objects that are or were assigned to any cluster."""
        return list(self._finalizers_by_key)

    def leaving_keys(self, cluster: str) -> list[SyncKey]:
        """Objects whose downstream object must be deleted there."""
        return list(self._leaving_keys.get(workloadcluster.syncer_finalizer(cluster), ()))

    def leaving_count(self, cluster: str) -> int:
        return len(self._leaving_keys.get(workloadcluster.syncer_finalizer(cluster), ()))

    def has_objects_in(self, cluster: str, namespace: str) -> bool:
        """Whether any known object in that namespace is or was assigned to the cluster."""
        return any(
            sync_key.namespace == namespace
            for sync_key in self._keys_by_finalizer.get(workloadcluster.syncer_finalizer(cluster), ())
        )

    def has_synced(self, kinds: set[str] | None = None) -> bool:
        """Whether all objects of the kinds (all by default) are known; False for a kind that is not served."""
        informers = {resource.api.group_resource: of_kind for resource, of_kind in self._informers.items()}
        if kinds is not None and not kinds <= informers.keys():
            return False
        return all(
            each.has_synced for name, of_kind in informers.items() if kinds is None or name in kinds for each in of_kind
        )

    def unsynced_resources(self, kinds: set[SyncedResource]) -> list[str]:
        """Kinds whose objects on the hub are not known yet."""
        unsynced = (
            resource for resource in kinds if not all(each.has_synced for each in self._informers.get(resource, ()))
        )
        return sorted(resource.api.group_resource for resource in unsynced)

    def _keys_with_finalizer(self, finalizer: str) -> list[SyncKey]:
        return list(self._keys_by_finalizer.get(finalizer, ()))

    def _dependencies_in(self, cluster: str) -> list[SyncKey]:
        keys = (self.key_for(ref) for ref in self.references.references_in(cluster))
        return [sync_key for sync_key in keys if sync_key is not None]

    def key_for(self, ref: DependencyRef) -> SyncKey | None:
        """None: objects of that kind are not synced."""
        resource = self._dependency_resources.get(ref.plural)
        return SyncKey(resource, ref.namespace, ref.name) if resource is not None else None

    # --- watches ---

    def add_resource(self, resource: SyncedResource) -> None:
        """Watches the kind. After `close` it is watched again when it is added again."""
        if resource in self._informers:
            self._start(resource)
            return
        is_dependency = is_dependency_kind(resource.api.plural, resource.api.group)
        if is_dependency:
            self._dependency_resources[resource.api.plural] = resource
        label = workloadcluster.CLUSTER_LABEL
        if not self._only and is_dependency:
            informers = [self._new_informer(resource, "", _strip_unassigned)]
        elif not self._only:
            informers = [self._new_informer(resource, label)]
        else:
            informers = [self._new_informer(resource, f"{label}={self._only}")]
            if is_dependency:
                labels = f"{workloadcluster.dependency_label(self._only)},{label}!={self._only}"
                informers.append(self._new_informer(resource, labels))
        self._informers[resource] = informers
        self._start(resource)

    def _new_informer(
        self, resource: SyncedResource, labels: str, transform: Transform = strip_managed_fields
    ) -> Informer:
        def handle_object(key: Key, old: Object | None, new: Object | None) -> None:
            sync_key = SyncKey(resource, key[1], key[2])
            # What one informer of the kind drops may have moved to the other.
            self._handle_object(sync_key, new if new is not None else self.get_cached(sync_key))

        informer = Informer(self._client, resource.gvr, self._clock, labels=labels, transform=transform)
        informer.add_event_handler(handle_object)
        informer.on_sync(lambda: self.on_sync())
        return informer

    def _start(self, resource: SyncedResource) -> None:
        if resource not in self._tasks:
            name = f"hub {resource.api.group_resource}"
            self._tasks[resource] = asyncio.create_task(self._watch(resource), name=name)

    def remove_resource(self, resource: SyncedResource) -> None:
        self._informers.pop(resource, None)
        if self._dependency_resources.get(resource.api.plural) == resource:
            del self._dependency_resources[resource.api.plural]
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
        for sync_key in [sync_key for sync_key in self._finalizers_by_key if sync_key.resource == resource]:
            self._set_targets(sync_key, frozenset(), leaving=False)

    def close(self) -> None:
        """Stops all watches."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _watch(self, resource: SyncedResource) -> None:
        informers = self._informers[resource]
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    if not self._only and not is_dependency_kind(resource.api.plural, resource.api.group):
                        group.create_task(self._find_unlabelled(resource))
                    for informer in informers:
                        group.create_task(informer.run())
            except* Exception:
                log.exception("watch of %s on the hub failed", resource.api.group_resource)
            await self._clock.sleep(RETRY_SECONDS)

    async def _find_unlabelled(self, resource: SyncedResource) -> None:
        """Finds objects whose label was removed while no process watched; the labelled watch does not show them."""
        while True:
            try:
                objects, _ = await self._client.list_all(resource.gvr, labels=f"!{workloadcluster.CLUSTER_LABEL}")
            except (StatusError, Unreachable) as error:
                log.info("cannot list objects on the hub: %s; retrying in %.0f s", error, RETRY_SECONDS)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            for obj in objects:
                if workloadcluster.syncer_finalizers(obj):
                    self._handle_object(
                        SyncKey(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), obj
                    )
            return

    def _handle_object(self, sync_key: SyncKey, obj: Object | None) -> None:
        targets: frozenset[str] = frozenset()
        assigned, is_deleting = "", False
        if obj is not None:
            targets = frozenset(workloadcluster.syncer_finalizers(obj))
            assigned, is_deleting = workloadcluster.assigned_cluster(obj), "deletionTimestamp" in obj["metadata"]
            if assigned:
                targets |= {workloadcluster.syncer_finalizer(assigned)}
        previous = self._set_targets(
            sync_key, targets, is_deleting, workloadcluster.syncer_finalizer(assigned) if assigned else ""
        )
        if previous or targets:
            self.on_assigned(sync_key, obj)
        self._update_references(sync_key, obj, assigned)
        for finalizer in previous | targets:
            handler = self._handlers.get(finalizer)
            if handler is not None:
                handler(sync_key)
            elif obj is None or finalizer in (obj["metadata"].get("finalizers") or ()):
                self.on_unclaimed_finalizer(sync_key, finalizer)
        if sync_key.resource.api.plural in self._dependency_resources and is_dependency_kind(
            sync_key.resource.api.plural, sync_key.resource.api.group
        ):
            self._on_dependency(sync_key, obj)

    def _set_targets(
        self, sync_key: SyncKey, targets: frozenset[str], leaving: bool, assigned: str = ""
    ) -> frozenset[str]:
        """Returns the previous finalizers."""
        previous = self._finalizers_by_key.pop(sync_key, frozenset())
        for finalizer in previous - targets:
            del self._keys_by_finalizer[finalizer][sync_key]
            self._leaving_keys.get(finalizer, set()).discard(sync_key)
            if not self._keys_by_finalizer[finalizer]:
                del self._keys_by_finalizer[finalizer]
                self._leaving_keys.pop(finalizer, None)
        for finalizer in targets:
            self._keys_by_finalizer.setdefault(finalizer, {})[sync_key] = None
            if leaving or finalizer != assigned:
                self._leaving_keys.setdefault(finalizer, set()).add(sync_key)
            else:
                self._leaving_keys.get(finalizer, set()).discard(sync_key)
        if targets:
            self._finalizers_by_key[sync_key] = targets
        return previous

    # --- references ---

    def _update_references(self, sync_key: SyncKey, obj: Object | None, assigned: str) -> None:
        api = sync_key.resource.api
        refs = references_of(obj, api.plural, api.group) if obj is not None and assigned else frozenset()
        for cluster in {assigned, *self.references.clusters_of_referrer(sync_key)} - {""}:
            desired = refs if cluster == assigned else frozenset()
            for ref in self.references.set_references(cluster, sync_key, api.group_resource, desired):
                self._notify_dependency(ref, cluster)

    def _on_dependency(self, sync_key: SyncKey, obj: Object | None) -> None:
        """A referenced object has changed. A referenced ServiceAccount references others in turn."""
        ref = DependencyRef(sync_key.resource.api.plural, sync_key.namespace, sync_key.name)
        for cluster in list(self.references.clusters_of(ref)):
            self._update_transitive_references(ref, sync_key, obj, cluster)
            self._notify_dependency(ref, cluster)
        if obj is not None and any(
            key.startswith((workloadcluster.DEPENDENCY_LABEL_PREFIX, workloadcluster.DEPENDENCY_STATUS_PREFIX))
            for field in ("labels", "annotations")
            for key in obj["metadata"].get(field) or ()
        ):
            self.on_reference(ref)

    def _update_transitive_references(
        self, ref: DependencyRef, sync_key: SyncKey, obj: Object | None, cluster: str
    ) -> None:
        if obj is not None and workloadcluster.assigned_cluster(obj) == cluster:
            return  # it is assigned to the cluster itself
        api = sync_key.resource.api
        is_needed = obj is not None and self.references.referrer_kinds(cluster, ref)
        refs = references_of(obj, api.plural, api.group) if is_needed and obj is not None else frozenset()
        for other in self.references.set_references(cluster, sync_key, api.group_resource, refs):
            self._notify_dependency(other, cluster)

    def _notify_dependency(self, ref: DependencyRef, cluster: str) -> None:
        sync_key = self.key_for(ref)
        if sync_key is not None:
            if ref.plural == "serviceaccounts":
                self._update_transitive_references(ref, sync_key, self.get_cached(sync_key), cluster)
            handler = self._handlers.get(workloadcluster.syncer_finalizer(cluster))
            if handler is not None:
                handler(sync_key)
        self.on_reference(ref)

    def get_cached(self, sync_key: SyncKey) -> Object | None:
        for informer in self._informers.get(sync_key.resource, ()):
            obj = informer.get(("", sync_key.namespace, sync_key.name))
            if obj is not None:
                return obj
        return None

    def get_full(self, sync_key: SyncKey) -> Object | None:
        """The whole object if it is cached; None means nothing."""
        obj = self.get_cached(sync_key)
        return None if obj is None or PARTIAL in obj else obj


PARTIAL = "shoal.dev/slim"


def _strip_unassigned(obj: Object) -> Object:
    """Reduces objects that are watched only because others may reference them."""
    metadata = obj["metadata"]
    if workloadcluster.assigned_cluster(obj) or workloadcluster.syncer_finalizers(obj):
        return strip_managed_fields(obj)
    identity = {
        key: metadata[key] for key in ("name", "namespace", "uid", "labels", "resourceVersion") if key in metadata
    }
    partial: Object = {PARTIAL: True, "metadata": identity}
    if annotations := dependency_annotations(obj):
        identity["annotations"], partial["status"] = annotations, obj.get("status") or {}
    if obj.get("imagePullSecrets"):
        partial["imagePullSecrets"] = obj["imagePullSecrets"]
    return partial
