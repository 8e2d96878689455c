"""Garbage collector: follows the metadata stream of all logical clusters and executes what `decide` returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.controlplane.garbagecollector.decide import OwnerState, blockers, decide, without_finalizer, without_owner
from shoal.controlplane.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    DependencyGraph,
    GraphNode,
    ObjectRef,
    Owner,
    graph_node_of,
    object_ref_of,
    owner_reference_of,
)
from shoal.controlplane.garbagecollector.owners import LiveOwners
from shoal.objects.errors import Expired, NotFound, StatusError
from shoal.runtime.controller import Controller, RequeueError

log = logging.getLogger("shoal.garbagecollector")

Object = dict[str, Any]

WORKERS = 16
ORPHAN_BATCH_SIZE = 64
INITIAL_BACKOFF, MAX_BACKOFF = 0.2, 30.0
METADATA_STREAM = "/clusters/*/metadata"


def new_garbage_collector(client: Client, clock: Clock) -> Controller[ObjectRef | Owner]:
    return GarbageCollector(client, clock).controller


class GarbageCollector:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.controller: Controller[ObjectRef | Owner] = Controller("garbagecollector", clock, self._reconcile, WORKERS)
        self.controller.sources.append(self._run_stream)
        self._queue = self.controller.queue
        self._owners = LiveOwners(client)
        self._live_owners: set[Owner] = set()
        """Owners that were found alive and were not deleted since: their new dependents need no lookup."""
        self._revision = ""
        self.graph = DependencyGraph()

    # --- metadata stream ---

    async def _run_stream(self) -> None:
        self._revision = ""  # a stream that failed may have lost an event
        backoff = INITIAL_BACKOFF
        while True:
            try:
                if await self._watch():
                    backoff = INITIAL_BACKOFF
                    continue
            except Expired:
                self._revision = ""
                continue
            except (StatusError, Unreachable) as error:
                log.info("metadata stream failed: %s; retrying in %.1f s", error, backoff)
            await self._clock.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF)

    async def _watch(self) -> bool:
        """Runs until the stream ends. Returns whether it delivered anything."""
        fresh = None if self._revision else DependencyGraph()
        received = False
        async for event in self._client.watch_path(METADATA_STREAM, {"resourceVersion": self._revision}):
            received, obj = True, event["object"]
            if event["type"] == "BOOKMARK":
                if fresh is not None:
                    self._replace_graph(fresh)
                    fresh = None
            elif event["type"] == "DELETED":
                self._on_deleted(object_ref_of(obj))
            elif (node := _parse_node(obj)) is not None:
                if fresh is not None:
                    fresh.put(node)
                else:
                    self._on_object(node)
            if fresh is not None:
                continue  # an incomplete initial list is restarted from the beginning
            self._revision = obj["metadata"]["resourceVersion"]
        return received

    def _replace_graph(self, fresh: DependencyGraph) -> None:
        """Replaces the graph after a full list. Events in between are lost, so every owner is looked up again."""
        self.graph = fresh
        self._live_owners.clear()
        for node in fresh.nodes.values():
            self._enqueue_node(node)

    def _on_object(self, node: GraphNode) -> None:
        old = self.graph.put(node)
        if old is not None:
            self._enqueue_waiting_owners(old)
        else:
            for owner, _ in node.references:
                self._owners.forget(owner)
        if node.is_tracked:
            self._enqueue_node(node)

    def _on_deleted(self, ref: ObjectRef) -> None:
        old = self.graph.remove(ref)
        if old is not None:
            self._enqueue_waiting_owners(old)
        for owner in self.graph.owners_by_name(ref.cluster, ref.name):
            self._live_owners.discard(owner)
            self._queue.add(owner)

    def _enqueue_waiting_owners(self, old: GraphNode) -> None:
        """Enqueues owners that may have waited for this dependent."""
        for owner, _ in old.references:
            if not self.graph.has_dependents(owner):
                self._live_owners.discard(owner)
            waiting = self.graph.node_of_owner(owner)
            if waiting is not None and waiting.deletes_dependents:
                self._queue.add(waiting.ref)

    def _enqueue_node(self, node: GraphNode) -> None:
        if node.orphans_dependents or node.deletes_dependents:
            self._queue.add(node.ref)
            if node.deletes_dependents:
                for dependent in self.graph.dependents(node):
                    self._queue.add(dependent.ref)
        if node.deleting:
            return
        for owner, _ in node.references:
            waiting = self.graph.node_of_owner(owner)
            if waiting is not None and waiting.deletes_dependents:
                self._queue.add(node.ref)
            elif owner not in self._live_owners:
                self._queue.add(owner)

    # --- reconcile ---

    async def _reconcile(self, key: ObjectRef | Owner) -> None:
        if not await (self._reconcile_owner(key) if isinstance(key, Owner) else self._reconcile_object(key)):
            raise RequeueError("an owner's kind is not served")

    async def _reconcile_owner(self, owner: Owner) -> bool:
        if not self.graph.has_dependents(owner):
            return True
        state = await self._owners.lookup(owner)
        if state is OwnerState.SOLID and self.graph.has_dependents(owner):
            self._live_owners.add(owner)
        elif state in (OwnerState.ABSENT, OwnerState.WAITING_FOR_DEPENDENTS):
            self._live_owners.discard(owner)
            for dependent in self.graph.dependents_of_owner(owner):
                self._queue.add(dependent.ref)
        return state is not OwnerState.UNKNOWN

    async def _reconcile_object(self, ref: ObjectRef) -> bool:
        """Returns whether everything possible now is done."""
        node = self.graph.nodes.get(ref)
        if node is None:
            return True
        if node.orphans_dependents:
            await self._orphan_dependents(node)
        elif node.deletes_dependents:
            await self._delete_dependents(node)
        elif not node.deleting:
            return await self._collect(node)
        return True

    async def _collect(self, node: GraphNode) -> bool:
        live = await self._get_live(node)
        if live is None:
            return True
        owners = []
        for reference in live["metadata"].get("ownerReferences") or ():
            owners.append((reference, await self._owners.lookup(owner_reference_of(node.ref, reference).owner)))
        decision = decide(live["metadata"], owners, self.graph.dependents(node))
        if decision.owner_references is not None:
            live = await self._patch_metadata(node, live, {"ownerReferences": decision.owner_references})
        if decision.policy:
            await self._delete(node, live, decision.policy)
        return not decision.requeue

    async def _orphan_dependents(self, node: GraphNode) -> None:
        dependents = self.graph.dependents(node)
        for start in range(0, len(dependents), ORPHAN_BATCH_SIZE):
            batch = dependents[start : start + ORPHAN_BATCH_SIZE]
            await asyncio.gather(*(self._remove_owner_reference(dependent, node.uid) for dependent in batch))
        await self._remove_finalizer(node, ORPHAN)

    async def _remove_owner_reference(self, dependent: GraphNode, uid: str) -> None:
        live = await self._get_live(dependent)
        references: Sequence[Object] = live["metadata"].get("ownerReferences") or () if live is not None else ()
        kept = without_owner(references, uid)
        if live is not None and len(kept) < len(references):
            await self._patch_metadata(dependent, live, {"ownerReferences": kept})

    async def _delete_dependents(self, node: GraphNode) -> None:
        blocking = blockers(node, self.graph.dependents(node))
        if not blocking:
            await self._remove_finalizer(node, FOREGROUND)
        for dependent in blocking:
            if not dependent.deletes_dependents:
                self._queue.add(dependent.ref)

    async def _remove_finalizer(self, node: GraphNode, finalizer: str) -> None:
        live = await self._get_live(node)
        if live is not None and finalizer in (live["metadata"].get("finalizers") or ()):
            await self._patch_metadata(node, live, {"finalizers": without_finalizer(live["metadata"], finalizer)})

    async def _get_live(self, node: GraphNode) -> Object | None:
        """Returns the current object; None if it was deleted or replaced."""
        ref = node.ref
        try:
            live = await self._client.in_cluster(ref.cluster).get(_resource_of(node), ref.name, ref.namespace)
        except NotFound as error:
            if (error.kind, error.name) == (ref.plural, ref.name):
                return None
            raise  # the kind is not served, which says nothing about the object
        return live if live["metadata"]["uid"] == node.uid else None

    async def _patch_metadata(self, node: GraphNode, live: Object, metadata: Object) -> Object:
        """Fails with a conflict if the object changed since it was read."""
        ref = node.ref
        patch = {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"], **metadata}}
        return await self._client.in_cluster(ref.cluster).merge_patch(
            _resource_of(node), ref.name, patch, ref.namespace
        )

    async def _delete(self, node: GraphNode, live: Object, policy: str) -> None:
        ref, client = node.ref, self._client.in_cluster(node.ref.cluster)
        preconditions = {"uid": node.uid, "resourceVersion": live["metadata"]["resourceVersion"]}
        body = {"propagationPolicy": policy, "preconditions": preconditions}
        try:
            await client.request("DELETE", client.resource_path(_resource_of(node), ref.name, ref.namespace), body=body)
        except NotFound:
            return


def _parse_node(obj: Object) -> GraphNode | None:
    """Logs and skips an object with malformed references, so that it does not stop the collector."""
    try:
        return graph_node_of(obj)
    except (KeyError, TypeError, ValueError):
        log.exception("ignoring object %s: malformed owner references", obj["metadata"].get("name"))
        return None


def _resource_of(node: GraphNode) -> GroupVersionResource:
    return GroupVersionResource(node.ref.group, node.version, node.ref.plural, bool(node.ref.namespace))
