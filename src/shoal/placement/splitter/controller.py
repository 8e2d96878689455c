"""The splitter: objects of the hub that are assigned to no cluster become a leaf in each cluster that their policy
selects.

Deployments are split by default; other kinds when a Placement selects them. A kind is served once a cluster has been
imported that has it: until then this controller waits, and notices at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.fleet import logicalcluster
from shoal.kinds.workload import apiresource, placement
from shoal.kinds.workload.followers import FOLLOW_LABEL, FOLLOWER_KINDS
from shoal.kinds.workload.leaf import is_root
from shoal.objects.errors import NotFound, StatusError
from shoal.placement.interpreter import shares_by_cluster
from shoal.placement.policy import (
    DEFAULT_POLICY,
    PlacementPolicy,
    PlacementRule,
    kind_and_version,
    matching_placements,
    resource_selectors_of,
)
from shoal.placement.splitter.cluster_infos import ClusterInfos, location_of
from shoal.placement.splitter.decide import FilteredClustersCache, compute_changes_with, depends_on_capacity
from shoal.placement.splitter.events import (
    CLUSTER_PLACEMENTS,
    PLACEMENTS,
    event_source,
    match_of,
    placed_message,
    warnings_of,
)
from shoal.placement.splitter.followers import (
    Leader,
    Leaders,
    following_policy,
    leader_of,
    left_behind_message,
    left_behind_reason,
    term_keys,
)
from shoal.placement.splitter.leaf_writer import LeafWriter
from shoal.placement.splitter.placeable import CRDS, KindNotPlaceable, discover_placeable
from shoal.placement.splitter.placed_kind import UNSERVED_SECONDS, NameConflicts, PlacedKind
from shoal.placement.splitter.placement_matches import PlacementMatches
from shoal.placement.splitter.placement_status import PlacementMatch, status_of
from shoal.placement.splitter.status import root_status
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import LOW_RATE, NORMAL, WARNING, EventRecorder
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]
ReconcileKey = tuple[str, Key]
"""A kind such as `Deployment.apps` and a root of it; or `PLACEMENT` and a Placement, without a namespace a
ClusterPlacement.
"""

NEGOTIATED = GroupVersionResource(
    apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False
)
LOGICAL_CLUSTERS = GroupVersionResource(
    logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False
)
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
DEPLOYMENT = ("Deployment", "apps/v1")
PLACEMENT = placement.KIND
UNREACHABLE_SECONDS = 1.0
"""Between checks while the hub does not answer."""
CONCURRENCY = 16
"""Each waits for the store most of the time, and the store commits many writes as one."""
UNKNOWN_LEADERS_SECONDS = 0.2
"""Between checks whether it is known what an object follows."""
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


class SplitterReconciler:
    def __init__(self, client: Client, clock: Clock, logical_cluster: str) -> None:
        self._client, self._clock, self._logical_cluster = client.in_cluster(logical_cluster), clock, logical_cluster
        self._is_hub: bool | None = None
        self._kinds: dict[str, PlacedKind] = {}
        self._kind_errors: dict[tuple[str, str, bool], Exception | None] = {}
        """Requested kinds and apiVersions, and whether by a Placement and not by a ClusterPlacement; the error says why
        one is not placed.
        """
        self._kinds_changed = asyncio.Event()
        self._are_kinds_discovered = False
        """All kinds that were requested when this controller started."""
        self._clusters = ClusterInfos(self._client, clock)
        self._silent: frozenset[str] = frozenset()
        """Clusters that do not report the statuses of their objects."""
        self._filtered = FilteredClustersCache(self._clusters.by_name)
        self._placement_rules: dict[Key, PlacementRule] = {}
        self._matches = PlacementMatches(
            lambda placement_key, delay: self.controller.queue.add_after((PLACEMENT, placement_key), delay)
        )
        self._leaders = Leaders()
        self._leaf_writer = LeafWriter(self._client)
        self._status_due: dict[ReconcileKey, float] = {}
        """When a changed status is written."""
        self._placements = Informer(self._client, PLACEMENTS, clock)
        self._cluster_placements = Informer(self._client, CLUSTER_PLACEMENTS, clock)
        self._followed_namespaces = Informer(self._client, NAMESPACES, clock, labels=f"{FOLLOW_LABEL}=true")
        self._inputs = (
            *(self._clusters.clusters, self._clusters.imports),
            *(self._placements, self._cluster_placements, self._followed_namespaces),
        )
        self.controller: Controller[ReconcileKey] = Controller("splitter", clock, self.reconcile, CONCURRENCY)
        for kind in (NEGOTIATED, CRDS):
            self.controller.watch(Informer(self._client, kind, clock), self._on_kind_change)
        self.controller.watch(self._clusters.clusters, lambda key, old, new: self._update_cluster(key[2]))
        self.controller.watch(self._clusters.imports, self._on_import)
        for informer in (self._placements, self._cluster_placements):
            self.controller.watch(informer, self._on_placement)
        self.controller.watch(self._followed_namespaces, self._on_followed_namespace)
        for informer in self._inputs:
            informer.on_sync(self._enqueue_all)
        self._recorder = EventRecorder(lambda _: self._client, clock, LOW_RATE)
        self.controller.sources += [self._run_kinds, self._recorder.run]

    def _on_kind_change(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._kinds_changed.set()

    def _on_import(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._update_cluster(location_of(new or old or {}))

    def _update_cluster(self, name: str) -> None:
        previous, current = self._clusters.update(name)
        if current == previous:
            return
        self._silent = frozenset(name for name, cluster in self._clusters.by_name.items() if not cluster.reports)
        self._filtered.clear()
        if current is not None and previous is not None and previous.differs_in_amounts(current):
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

    def _on_followed_namespace(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None:
            self._enqueue_roots(key[2])

    def _enqueue_all(self) -> None:
        """Before the sync their keys were dropped."""
        self._kinds_changed.set()
        self._enqueue_roots()
        for key in self._placement_rules:
            self.controller.queue.add((PLACEMENT, key))

    def _enqueue_roots(self, namespace: str | None = None) -> None:
        """All by default. Cluster-scoped ones have an empty namespace."""
        for kind in self._kinds.values():
            for root in kind.roots:
                if namespace is None or root[1] == namespace:
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
                has_inputs = all(informer.has_synced for informer in self._inputs)
                try:
                    await self._discover_kinds()
                except BaseException:
                    self._kinds_changed.set()  # Kinds are discovered again when the controller runs again.
                    raise
                self._are_kinds_discovered |= has_inputs and not self._kinds_changed.is_set()
                for key in self._placement_rules:
                    self.controller.queue.add((PLACEMENT, key))

    async def _discover_kinds(self) -> None:
        requested = {
            (*kind_and_version(one), bool(key[1]))
            for key, rule in self._placement_rules.items()
            for one in resource_selectors_of(rule.placement)
        }
        unasked = ((*kind, True) for kind in (DEPLOYMENT, *FOLLOWER_KINDS.items()))
        for name, api_version, namespaced in sorted({*unasked, *requested}):
            if self._kind_errors.get((name, api_version, namespaced), NotFound) is None:
                continue
            try:
                placeable_kind = await discover_placeable(self._client, name, api_version, namespaced=namespaced)
            except KindNotPlaceable as error:
                self._kind_errors[name, api_version, namespaced] = error
                continue
            except (StatusError, Unreachable) as error:
                self._kinds_changed.set()
                await self._clock.sleep(UNREACHABLE_SECONDS if isinstance(error, Unreachable) else UNSERVED_SECONDS)
                continue
            self._kind_errors[name, api_version, namespaced] = None
            kind = PlacedKind(self._client, self._clock, placeable_kind, self.controller.queue.add)
            self._kinds.setdefault(kind.title, kind)

    async def reconcile(self, reconcile_key: ReconcileKey) -> float | None:
        title, key = reconcile_key
        if not all(informer.has_synced for informer in self._inputs) or not await self._is_splitting():
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
            self._matches.update(*reconcile_key, PlacementMatch())
            self._set_leader(reconcile_key, None)
            return None
        if not kind.expectations.satisfied(key):
            return EXPECTATION_TIMEOUT_SECONDS
        leaves = kind.informer.by_index(by_controller, (key[0], key[1], root["metadata"]["uid"]))
        matching = matching_placements(self._placement_rules.values(), root) if is_root(root) else []
        kind.select(root, key, term_keys(matching[0].workload_terms) if matching else frozenset())
        is_default = (root["kind"], root["apiVersion"]) == DEPLOYMENT
        leaders = self._leaders.of(key, root) if is_root(root) and not matching and not is_default else []
        if leaves and is_root(root) and not matching and kind.is_follower and not self._knows_leaders(kind, key):
            return UNKNOWN_LEADERS_SECONDS
        unselected_policy = DEFAULT_POLICY if is_default else following_policy(leaders)
        if not is_root(root) or (not matching and unselected_policy is None):
            await self._leaf_writer.delete(kind, key, leaves)  # It was assigned to one cluster, or is no longer placed.
            self._set_leader(reconcile_key, None)
            self._report_left_behind(reconcile_key, root, leaders)
            return None
        if "deletionTimestamp" in root["metadata"]:
            self._set_leader(reconcile_key, None)
            return None  # The garbage collector deletes the leaves.
        return await self._reconcile_root(kind, key, root, leaves, matching, unselected_policy or DEFAULT_POLICY)

    async def _reconcile_root(
        self,
        kind: PlacedKind,
        key: Key,
        root: Object,
        leaves: list[Object],
        matching: list[PlacementRule],
        unselected_policy: PlacementPolicy,
    ) -> float | None:
        """`unselected_policy` applies if no Placement matches."""
        now = self._clock.now()
        reconcile_key = (kind.title, key)
        try:
            policy, interpreter = matching[0].policy if matching else unselected_policy, kind.placeable.interpreter
            if policy.workload_terms and not self._knows_leaders(kind, key):
                self._lead(reconcile_key, root, leaves, None, matching, unselected_policy)
                return UNKNOWN_LEADERS_SECONDS  # Others may wait for this one, too.
            policy = self._leaders.locate(policy, reconcile_key, root)
            filtered = self._filtered.of(policy, root, interpreter, now, kind.placeable.api)
            leaf_changes = compute_changes_with(
                root, leaves, NameConflicts(kind, key, root), filtered, now, interpreter
            )
        except StatusError as error:
            match = PlacementMatch(tuple(one.name for one in matching), str(error))
            self._matches.update(*reconcile_key, match)
            self._lead(reconcile_key, root, leaves, None, matching, unselected_policy)
            return None  # Existing leaves stay until the Placement is valid.
        match = match_of(matching, leaf_changes)
        for reason, message in warnings_of(match, self._matches.update(*reconcile_key, match)):
            self._recorder.record(event_source(root), "", root, WARNING, reason, message)
        self._lead(reconcile_key, root, leaves, leaf_changes.decision.shares, matching, unselected_policy)
        if leaf_changes.is_expired:
            await self._leaf_writer.delete(kind, key, [root])
            return None
        (
            kind.capacity_dependent_roots.add
            if depends_on_capacity(leaf_changes, policy)
            else kind.capacity_dependent_roots.discard
        )(key)
        for name in leaf_changes.conflicting_names:
            kind.roots_by_conflicting_key.setdefault((key[0], key[1], name), set()).add(key)
        await self._leaf_writer.apply(kind, key, leaf_changes)
        if message := placed_message(leaf_changes):
            self._recorder.record(event_source(root), "", root, NORMAL, "Placed", message)
        status = root_status(root, leaf_changes, len(self._clusters.by_name), rfc3339(now), self._silent)
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

    def _lead(
        self,
        reconcile_key: ReconcileKey,
        root: Object,
        leaves: list[Object],
        shares: Mapping[str, int] | None,
        matching: list[PlacementRule],
        unselected_policy: PlacementPolicy,
    ) -> None:
        """Lets others follow the root to the clusters of its leaves. `shares` are None if they do not change."""
        cluster, namespace, _ = reconcile_key[1]
        if shares is None:
            shares = shares_by_cluster(leaves, self._kinds[reconcile_key[0]].placeable.interpreter)
        is_followed = matching[0].is_followed if matching else unselected_policy.is_following
        is_followed |= self._followed_namespaces.get((cluster, "", namespace)) is not None
        name = matching[0].name if matching else ""
        self._set_leader(reconcile_key, leader_of(root, leaves, shares, name, is_followed=is_followed))

    def _knows_leaders(self, kind: PlacedKind, key: Key) -> bool:
        """Returns whether all that the object could follow was reconciled: after a start, it is not known at once."""
        leader_kinds = (one for one in self._kinds.values() if kind.may_select(one))
        return self._are_kinds_discovered and all(one.is_settled(key[1]) for one in leader_kinds)

    def _set_leader(self, reconcile_key: ReconcileKey, leader: Leader | None) -> None:
        self._kinds[reconcile_key[0]].settle(reconcile_key[1])
        cluster, namespace, _ = reconcile_key[1]
        selections = self._leaders.update(reconcile_key, leader)
        for kind in self._kinds.values() if selections else ():
            for root in kind.roots_selecting(cluster, namespace, selections):
                self.controller.queue.add((kind.title, root))

    def _report_left_behind(self, reconcile_key: ReconcileKey, root: Object, leaders: list[Leader]) -> None:
        """An Event says it once, and a condition of the Placements of its leaders as long as it is so."""
        reason = left_behind_reason(root["kind"], leaders)
        placements = tuple(sorted({one.placement for one in leaders if one.placement})) if reason else ()
        match = PlacementMatch(left_behind_by=placements, left_behind_reason=reason)
        previous = self._matches.update(*reconcile_key, match)
        if reason and reason != previous.left_behind_reason:
            message = left_behind_message(reason, leaders)
            self._recorder.record(event_source(root), "", root, WARNING, "LeftBehind", message)

    async def _update_placement_status(self, key: Key) -> None:
        rule = self._placement_rules.get(key)
        if rule is None:
            return
        obj = rule.placement
        kinds = [(*kind_and_version(one), bool(key[1])) for one in resource_selectors_of(obj)]
        if not self._kind_errors.keys() >= set(kinds):
            return  # It is enqueued when they were discovered.
        errors = [error for kind in kinds if (error := self._kind_errors[kind]) is not None]
        status = status_of(obj, self._matches.of(key), errors, rfc3339(self._clock.now()))
        if status != obj.get("status"):
            resource = PLACEMENTS if key[1] else CLUSTER_PLACEMENTS
            await self._client.update(resource, {**obj, "status": status}, "status")

    async def _is_splitting(self) -> bool:
        """A hub runs no workloads itself. Elsewhere a Deployment becomes pods and is not split."""
        if self._is_hub is None:
            cluster = await self._client.in_cluster("root").get(LOGICAL_CLUSTERS, self._logical_cluster)
            self._is_hub = (cluster.get("spec") or {}).get("profile", "hub") == "hub"
        return self._is_hub
