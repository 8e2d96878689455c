"""The splitter: objects of the hub that are assigned to no cluster become a leaf in each cluster that their policy
selects.

Deployments are split by default; other kinds when a Placement selects them. A kind is served once a cluster has been
imported that has it: until then this controller waits, and notices at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.fleet import logicalcluster
from shoal.kinds.workload import apiresource, placement, workloadcluster
from shoal.kinds.workload.leaf import is_root
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.objects.ownership import controller_name, is_controlled_by
from shoal.placement.cluster_info import ClusterInfo, cluster_info_of
from shoal.placement.policy import DEFAULT_POLICY, PlacementRule, matching_placements, resource_selectors_of
from shoal.placement.splitter.decide import FilteredClustersCache, compute_changes_with, depends_on_capacity
from shoal.placement.splitter.events import event_source, placed_message
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.placement.splitter.placeable import CRDS, KindNotPlaceable, PlaceableKind, discover_placeable
from shoal.placement.splitter.placement_status import PlacementMatch, status_of
from shoal.placement.splitter.status import root_status
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import LOW_RATE, NORMAL, EventRecorder
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]
ReconcileKey = tuple[str, Key]
"""A kind such as `Deployment.apps` and a root of it; or `PLACEMENT` and a Placement."""

CLUSTERS = GroupVersionResource(
    workloadcluster.GROUP, workloadcluster.VERSION, workloadcluster.PLURAL, namespaced=False
)
PLACEMENTS = GroupVersionResource(placement.GROUP, placement.VERSION, placement.PLURAL)
NEGOTIATED = GroupVersionResource(
    apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False
)
LOGICAL_CLUSTERS = GroupVersionResource(
    logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False
)
DEPLOYMENT = ("Deployment", "apps/v1")
PLACEMENT = placement.KIND
UNSERVED_SECONDS = 0.05
"""Between checks of a kind that was announced, until the hub serves it."""
UNREACHABLE_SECONDS = 1.0
"""Between checks while the hub does not answer."""
STATUS_DELAY_SECONDS, MAX_STATUS_DELAY_SECONDS = 0.1, 2.0
"""From when an object follows another Placement until their statuses are updated: longer, the more objects there
are.
"""
CONCURRENCY = 16
"""Each waits for the store most of the time, and the store commits many writes as one."""
CAPACITY_DELAY_SECONDS = 1.0
"""How soon added capacity is evaluated."""
STATUS_BATCH_SECONDS = 0.1
"""Clusters report one after another: reports within that time are aggregated once."""
EXPECTATION_TIMEOUT_SECONDS = 5.0
"""Own writes show up by themselves; this is for an informer that was lost meanwhile."""


def new_splitter_controllers(
    client: Client, clock: Clock, logical_cluster: str = "root"
) -> list[Controller[ReconcileKey]]:
    """`logical_cluster` is the one whose objects are split. If workloads run in it directly, none are."""
    return [SplitterReconciler(client, clock, logical_cluster).controller]


class _PlacedKind:
    """One placed kind, with its informer and state."""

    def __init__(
        self, client: Client, clock: Clock, placeable_kind: PlaceableKind, enqueue: Callable[[ReconcileKey], None]
    ) -> None:
        self.placeable = placeable_kind
        self.title = f"{placeable_kind.name}.{placeable_kind.resource.group}"
        self.informer = Informer(
            client, placeable_kind.resource, clock, indexers=(by_controller,), poll_until_served=UNSERVED_SECONDS
        )
        self.expectations: WriteExpectations[Key] = WriteExpectations(self.informer)
        self.roots: set[Key] = set()
        self.capacity_dependent_roots: set[Key] = set()
        """Roots for which added capacity somewhere may change something."""
        self.roots_by_conflicting_key: dict[Key, set[Key]] = {}
        """Roots by the objects that have the names of their leaves."""
        self._enqueue = enqueue
        self.informer.add_event_handler(self._on_object)

    def _on_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        owner = (self.placeable.resource.group, self.placeable.name)
        old_root, new_root = controller_name(old, *owner), controller_name(new, *owner)
        if new is not None and is_root(new) and not new_root:
            self.roots.add(key)
        else:
            self.roots.discard(key)
            self.capacity_dependent_roots.discard(key)
        affected = {(key[0], key[1], name) for name in (old_root, new_root) if name}
        if not (new_root if new is not None else old_root):
            affected.add(key)
        for root in affected.union(self.roots_by_conflicting_key.pop(key, ())):
            self._enqueue((self.title, root))

    def root(self, key: Key) -> Object | None:
        obj = self.informer.get(key)
        return obj and {**obj, "apiVersion": self.placeable.api_version, "kind": self.placeable.name}


class _NameConflicts:
    """Names that belong to other objects than the root's leaves."""

    def __init__(self, kind: _PlacedKind, key: Key, root: Object) -> None:
        self._kind, self._key, self._root = kind, key, root

    def __contains__(self, name: object) -> bool:
        obj = self._kind.informer.get((self._key[0], self._key[1], str(name)))
        return obj is not None and not is_controlled_by(obj, self._root)


class SplitterReconciler:
    def __init__(self, client: Client, clock: Clock, logical_cluster: str) -> None:
        self._client, self._clock, self._logical_cluster = client.in_cluster(logical_cluster), clock, logical_cluster
        self._is_hub: bool | None = None
        self._kinds: dict[str, _PlacedKind] = {}
        self._kind_errors: dict[tuple[str, str], Exception | None] = {}
        """Requested kinds and apiVersions; the error says why one is not placed."""
        self._kinds_changed = asyncio.Event()
        self._clusters_by_name: dict[str, ClusterInfo] = {}
        self._filtered = FilteredClustersCache(self._clusters_by_name)
        self._placement_rules: dict[Key, PlacementRule] = {}
        self._matches: dict[ReconcileKey, PlacementMatch] = {}
        """Roots by key: the Placement they follow, and the others that select them."""
        self._status_due: dict[ReconcileKey, float] = {}
        """When a changed status is written."""
        self._clusters = Informer(self._client, CLUSTERS, clock)
        self._placements = Informer(self._client, PLACEMENTS, clock)
        self.controller: Controller[ReconcileKey] = Controller("splitter", clock, self.reconcile, CONCURRENCY)
        for kind in (NEGOTIATED, CRDS):
            self.controller.watch(Informer(self._client, kind, clock), self._on_kind_change)
        self.controller.watch(self._clusters, self._on_cluster)
        self.controller.watch(self._placements, self._on_placement)
        for informer in (self._clusters, self._placements):
            informer.on_sync(self._enqueue_all)
        self._recorder = EventRecorder(lambda _: self._client, clock, LOW_RATE)
        self.controller.sources += [self._run_kinds, self._recorder.run]

    def _on_kind_change(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._kinds_changed.set()

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        previous = self._clusters_by_name.pop(key[2], None)
        current = cluster_info_of(new) if new is not None else None
        if current is not None:
            self._clusters_by_name[key[2]] = current
        if current == previous:
            return
        self._filtered.clear()
        if current is not None and previous is not None and replace(previous, free=current.free) == current:
            self._enqueue_capacity_dependent()
        else:
            self._enqueue_roots()

    def _enqueue_capacity_dependent(self) -> None:
        """Free capacity changes with every pod of every cluster: only roots that it may help are reconciled, and not at
        every change.
        """
        for kind in self._kinds.values():
            for root in kind.capacity_dependent_roots:
                self.controller.queue.add_after((kind.title, root), CAPACITY_DELAY_SECONDS)

    def _on_placement(self, key: Key, old: Object | None, new: Object | None) -> None:
        previous = self._placement_rules.get(key)
        if previous is not None and new is not None and previous.placement.get("spec") == new.get("spec"):
            previous.placement = new
        else:
            self._placement_rules.pop(key, None)
            if new is not None:
                self._placement_rules[key] = PlacementRule(new)
                self._kinds_changed.set()
            self._filtered.clear()
            self._enqueue_roots(key[1])
        self.controller.queue.add((PLACEMENT, key))

    def _enqueue_all(self) -> None:
        """Before the sync their keys were dropped."""
        self._enqueue_roots()
        for key in self._placement_rules:
            self.controller.queue.add((PLACEMENT, key))

    def _enqueue_roots(self, namespace: str = "") -> None:
        for kind in self._kinds.values():
            for root in kind.roots:
                if not namespace or root[1] == namespace:
                    self.controller.queue.add((kind.title, root))

    async def _run_kinds(self) -> None:
        """Runs an informer for every requested kind once it is served. Earlier requests would only fail."""
        running: set[str] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                for title in self._kinds.keys() - running:
                    running.add(title)
                    group.create_task(self._kinds[title].informer.run())
                await self._kinds_changed.wait()
                self._kinds_changed.clear()
                try:
                    await self._discover_kinds()
                except BaseException:
                    self._kinds_changed.set()  # Kinds are discovered again when the controller runs again.
                    raise
                for key in self._placement_rules:
                    self.controller.queue.add((PLACEMENT, key))

    async def _discover_kinds(self) -> None:
        selected = (one for each in self._placement_rules.values() for one in resource_selectors_of(each.placement))
        requested = {(one["kind"], one.get("apiVersion", "")) for one in selected}
        for name, api_version in sorted({DEPLOYMENT, *requested}):
            if self._kind_errors.get((name, api_version), NotFound) is None:
                continue
            try:
                placeable_kind = await discover_placeable(self._client, name, api_version)
            except KindNotPlaceable as error:
                self._kind_errors[name, api_version] = error
                continue
            except (StatusError, Unreachable) as error:
                self._kinds_changed.set()
                await self._clock.sleep(UNREACHABLE_SECONDS if isinstance(error, Unreachable) else UNSERVED_SECONDS)
                continue
            self._kind_errors[name, api_version] = None
            kind = _PlacedKind(self._client, self._clock, placeable_kind, self.controller.queue.add)
            self._kinds.setdefault(kind.title, kind)

    async def reconcile(self, reconcile_key: ReconcileKey) -> float | None:
        title, key = reconcile_key
        if not self._clusters.has_synced or not self._placements.has_synced or not await self._is_splitting():
            return None
        if title == PLACEMENT:
            await self._update_placement_status(key)
            return None
        kind = self._kinds[title]
        if not kind.informer.has_synced:
            return None  # All are enqueued after the sync.
        root = kind.root(key)
        if root is None:
            kind.expectations.forget(key)
            self._status_due.pop(reconcile_key, None)
            self._set_match(reconcile_key, PlacementMatch())
            return None
        if not kind.expectations.satisfied(key):
            return EXPECTATION_TIMEOUT_SECONDS
        leaves = kind.informer.by_index(by_controller, (key[0], key[1], root["metadata"]["uid"]))
        matching = matching_placements(self._placement_rules.values(), root) if is_root(root) else []
        if not is_root(root) or (not matching and (root["kind"], root["apiVersion"]) != DEPLOYMENT):
            await self._delete(kind, key, leaves)  # It was assigned to one cluster, or is no longer placed.
            self._set_match(reconcile_key, PlacementMatch())
            return None
        if "deletionTimestamp" in root["metadata"]:
            return None  # The garbage collector deletes the leaves.
        return await self._reconcile_root(kind, key, root, leaves, matching)

    async def _reconcile_root(
        self, kind: _PlacedKind, key: Key, root: Object, leaves: list[Object], matching: list[PlacementRule]
    ) -> float | None:
        now = self._clock.now()
        reconcile_key = (kind.title, key)
        try:
            policy, interpreter = matching[0].policy if matching else DEFAULT_POLICY, kind.placeable.interpreter
            filtered = self._filtered.of(policy, root, interpreter, now)
            leaf_changes = compute_changes_with(
                root, leaves, _NameConflicts(kind, key, root), filtered, now, interpreter
            )
        except StatusError as error:
            self._set_match(reconcile_key, PlacementMatch.of_rules(matching, str(error)))
            return None  # Existing leaves stay until the Placement is valid.
        self._set_match(reconcile_key, PlacementMatch.of_rules(matching))
        if leaf_changes.is_expired:
            await self._delete(kind, key, [root])
            return None
        (
            kind.capacity_dependent_roots.add
            if depends_on_capacity(leaf_changes, policy)
            else kind.capacity_dependent_roots.discard
        )(key)
        for name in leaf_changes.conflicting_names:
            kind.roots_by_conflicting_key.setdefault((key[0], key[1], name), set()).add(key)
        await self._apply_changes(kind, key, leaf_changes)
        if message := placed_message(leaf_changes):
            self._recorder.record(event_source(root), "", root, NORMAL, "Placed", message)
        status = root_status(root, leaf_changes, len(self._clusters_by_name), rfc3339(now))
        if status is None or not kind.placeable.has_status or status == root.get("status"):
            self._status_due.pop(reconcile_key, None)
            return leaf_changes.requeue_after
        due = self._status_due.setdefault(
            reconcile_key, self._clock.monotonic() + (STATUS_BATCH_SECONDS if root.get("status") else 0.0)
        )
        delay = due - self._clock.monotonic()
        if delay > 0:
            return delay
        del self._status_due[reconcile_key]
        updated = await self._client.update(
            kind.placeable.resource, {**root, "status": status}, "status", metadata_only=True
        )
        kind.expectations.expect(key, updated)
        return leaf_changes.requeue_after

    def _set_match(self, reconcile_key: ReconcileKey, match: PlacementMatch) -> None:
        previous = self._matches.pop(reconcile_key, PlacementMatch())
        if match != PlacementMatch():
            self._matches[reconcile_key] = match
        if previous != match:
            cluster, namespace, _ = reconcile_key[1]
            delay = min(STATUS_DELAY_SECONDS + len(self._matches) / 500, MAX_STATUS_DELAY_SECONDS)
            for name in {*previous.names, *match.names}:
                self.controller.queue.add_after((PLACEMENT, (cluster, namespace, name)), delay)

    async def _update_placement_status(self, key: Key) -> None:
        rule = self._placement_rules.get(key)
        if rule is None:
            return
        obj = rule.placement
        matches = {
            f"{task[0].partition('.')[0]} {task[1][2]}": following
            for task, following in self._matches.items()
            if task[1][1] == key[1] and key[2] in following.names
        }
        errors = [self._kind_errors.get((one["kind"], one.get("apiVersion", ""))) for one in resource_selectors_of(obj)]
        status = status_of(obj, matches, [error for error in errors if error is not None], rfc3339(self._clock.now()))
        if status != obj.get("status"):
            await self._client.update(PLACEMENTS, {**obj, "status": status}, "status")

    async def _is_splitting(self) -> bool:
        """A hub runs no workloads itself. Elsewhere a Deployment becomes pods and is not split."""
        if self._is_hub is None:
            cluster = await self._client.in_cluster("root").get(LOGICAL_CLUSTERS, self._logical_cluster)
            self._is_hub = (cluster.get("spec") or {}).get("profile", "hub") == "hub"
        return self._is_hub

    async def _apply_changes(self, kind: _PlacedKind, key: Key, leaf_changes: LeafChanges) -> None:
        resource = kind.placeable.resource
        # The store commits them as one, and a failure requeues the root.
        operations = [self._client.create(resource, leaf, key[1], metadata_only=True) for leaf in leaf_changes.create]
        operations += [self._client.update(resource, leaf, metadata_only=True) for leaf in leaf_changes.update]
        results = await asyncio.gather(*operations, return_exceptions=True)
        for result in results:
            if not isinstance(result, BaseException):
                kind.expectations.expect(key, result)
        for result in results:
            if isinstance(result, AlreadyExists):
                raise RequeueError(f"{kind.placeable.name} {result.name} already exists") from None
            if isinstance(result, BaseException):
                raise result
        orphaned = [leaf for leaf in leaf_changes.orphaned if await self._is_cluster_gone(leaf)]
        await self._delete(kind, key, [*leaf_changes.delete, *orphaned])

    async def _is_cluster_gone(self, leaf: Object) -> bool:
        """Returns whether the server says that the leaf's cluster does not exist, by name."""
        name = workloadcluster.assigned_cluster(leaf)
        try:
            await self._client.get(CLUSTERS, name)
        except NotFound as error:
            return error.name == name
        return False

    async def _delete(self, kind: _PlacedKind, key: Key, leaves: list[Object]) -> None:
        for leaf in leaves:
            metadata = leaf["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            try:
                resource = kind.placeable.resource
                await self._client.delete(resource, metadata["name"], key[1], uid=metadata["uid"], cascade=True)
            except NotFound:
                continue
