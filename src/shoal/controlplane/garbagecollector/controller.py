"""Garbage collector: follows the metadata stream of all logical clusters and executes what `decide` returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.controlplane.garbagecollector.decide import (
    State,
    blockers,
    decide,
    without_finalizer,
    without_owner,
)
from shoal.controlplane.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Node,
    Owner,
    Place,
    node_of,
    place_of,
    reference_of,
)
from shoal.controlplane.garbagecollector.owners import Owners
from shoal.objects.errors import Expired, NotFound, StatusError
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.garbagecollector")

Object = dict[str, Any]

WORKERS = 16
TOGETHER = 64
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
STREAM = "/clusters/*/metadata"


def garbage_collector(client: Client, clock: Clock) -> Loop[Place | Owner]:
    return GarbageCollector(client, clock).loop


class GarbageCollector:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[Place | Owner] = Loop("garbagecollector", clock, self._reconcile, WORKERS)
        self.loop.sources.append(self._follow)
        self._queue = self.loop.queue
        self._owners = Owners(client)
        self._present: set[Owner] = set()
        """Owners that were found alive and were not deleted since: their new dependents need no lookup."""
        self._revision = ""
        self.graph = Graph()

    # --- metadata stream ---

    async def _follow(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if await self._watch():
                    pause = FIRST_PAUSE
                    continue
            except Expired:
                self._revision = ""
                continue
            except (StatusError, Unreachable) as error:
                log.info("the metadata stream: %s; again in %.1f s", error, pause)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _watch(self) -> bool:
        """Runs until the stream ends. Returns whether it delivered anything."""
        fresh = None if self._revision else Graph()
        told = False
        async for event in self._client.watch_path(STREAM, {"resourceVersion": self._revision}):
            told, obj = True, event["object"]
            if event["type"] == "BOOKMARK":
                if fresh is not None:
                    self._replace(fresh)
                    fresh = None
            elif event["type"] == "DELETED":
                self._gone(place_of(obj))
            elif (node := _readable(obj)) is not None:
                if fresh is not None:
                    fresh.put(node)
                else:
                    self._changed(node)
            if fresh is not None:
                continue  # an incomplete initial list is restarted from the beginning
            self._revision = obj["metadata"]["resourceVersion"]
        return told

    def _replace(self, fresh: Graph) -> None:
        """Replaces the graph after a full list. Events in between are lost, so every owner is looked up again."""
        self.graph = fresh
        self._present.clear()
        for node in fresh.nodes.values():
            self._look(node)

    def _changed(self, node: Node) -> None:
        old = self.graph.put(node)
        if old is not None:
            self._let_go(old)
        else:
            for owner, _ in node.references:
                self._owners.forget(owner)
        if node.matters:
            self._look(node)

    def _gone(self, place: Place) -> None:
        old = self.graph.remove(place)
        if old is not None:
            self._let_go(old)
        for owner in self.graph.named(place.cluster, place.name):
            self._present.discard(owner)
            self._queue.add(owner)

    def _let_go(self, old: Node) -> None:
        """Enqueues owners that may have waited for this dependent."""
        for owner, _ in old.references:
            if not self.graph.has(owner):
                self._present.discard(owner)
            waiting = self.graph.node(owner)
            if waiting is not None and waiting.deletes_dependents:
                self._queue.add(waiting.place)

    def _look(self, node: Node) -> None:
        if node.orphans_dependents or node.deletes_dependents:
            self._queue.add(node.place)
            if node.deletes_dependents:
                for dependent in self.graph.dependents(node):
                    self._queue.add(dependent.place)
        if node.deleting:
            return
        for owner, _ in node.references:
            waiting = self.graph.node(owner)
            if waiting is not None and waiting.deletes_dependents:
                self._queue.add(node.place)
            elif owner not in self._present:
                self._queue.add(owner)

    # --- reconcile ---

    async def _reconcile(self, key: Place | Owner) -> None:
        if not await (self._owner(key) if isinstance(key, Owner) else self._place(key)):
            raise Later("an owner's kind is not served")

    async def _owner(self, owner: Owner) -> bool:
        if not self.graph.has(owner):
            return True
        state = await self._owners.state(owner)
        if state is State.SOLID and self.graph.has(owner):
            self._present.add(owner)
        elif state in (State.ABSENT, State.WAITING):
            self._present.discard(owner)
            for dependent in self.graph.held_by(owner):
                self._queue.add(dependent.place)
        return state is not State.UNKNOWN

    async def _place(self, place: Place) -> bool:
        """Returns whether everything possible now is done."""
        node = self.graph.nodes.get(place)
        if node is None:
            return True
        if node.orphans_dependents:
            await self._orphan(node)
        elif node.deletes_dependents:
            await self._delete_dependents(node)
        elif not node.deleting:
            return await self._collect(node)
        return True

    async def _collect(self, node: Node) -> bool:
        live = await self._live(node)
        if live is None:
            return True
        owners = []
        for reference in live["metadata"].get("ownerReferences") or ():
            owners.append((reference, await self._owners.state(reference_of(node.place, reference).owner)))
        decision = decide(live["metadata"], owners, self.graph.dependents(node))
        if decision.references is not None:
            live = await self._patch(node, live, {"ownerReferences": decision.references})
        if decision.policy:
            await self._delete(node, live, decision.policy)
        return not decision.wait

    async def _orphan(self, node: Node) -> None:
        dependents = self.graph.dependents(node)
        for start in range(0, len(dependents), TOGETHER):
            batch = dependents[start : start + TOGETHER]
            await asyncio.gather(*(self._disown(dependent, node.uid) for dependent in batch))
        await self._finish(node, ORPHAN)

    async def _disown(self, dependent: Node, uid: str) -> None:
        live = await self._live(dependent)
        references: Sequence[Object] = live["metadata"].get("ownerReferences") or () if live is not None else ()
        kept = without_owner(references, uid)
        if live is not None and len(kept) < len(references):
            await self._patch(dependent, live, {"ownerReferences": kept})

    async def _delete_dependents(self, node: Node) -> None:
        blocking = blockers(node, self.graph.dependents(node))
        if not blocking:
            await self._finish(node, FOREGROUND)
        for dependent in blocking:
            if not dependent.deletes_dependents:
                self._queue.add(dependent.place)

    async def _finish(self, node: Node, finalizer: str) -> None:
        live = await self._live(node)
        if live is not None and finalizer in (live["metadata"].get("finalizers") or ()):
            await self._patch(node, live, {"finalizers": without_finalizer(live["metadata"], finalizer)})

    async def _live(self, node: Node) -> Object | None:
        """Returns the current object; None if it was deleted or replaced."""
        place = node.place
        try:
            found = await self._client.at(place.cluster).get(_kind(node), place.name, place.namespace)
        except NotFound as error:
            if (error.kind, error.name) == (place.plural, place.name):
                return None
            raise  # the kind is not served, which says nothing about the object
        return found if found["metadata"]["uid"] == node.uid else None

    async def _patch(self, node: Node, live: Object, metadata: Object) -> Object:
        """Fails with a conflict if the object changed since it was read."""
        place = node.place
        patch = {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"], **metadata}}
        return await self._client.at(place.cluster).merge(_kind(node), place.name, patch, place.namespace)

    async def _delete(self, node: Node, live: Object, policy: str) -> None:
        place, client = node.place, self._client.at(node.place.cluster)
        seen = {"uid": node.uid, "resourceVersion": live["metadata"]["resourceVersion"]}
        body = {"propagationPolicy": policy, "preconditions": seen}
        try:
            await client.call("DELETE", client.path(_kind(node), place.name, place.namespace), body=body)
        except NotFound:
            return


def _readable(obj: Object) -> Node | None:
    """Logs and skips an object with malformed references, so that it does not stop the collector."""
    try:
        return node_of(obj)
    except (KeyError, TypeError, ValueError):
        log.exception("%s is left out", obj["metadata"].get("name"))
        return None


def _kind(node: Node) -> Kind:
    return Kind(node.place.group, node.version, node.place.plural, bool(node.place.namespace))
