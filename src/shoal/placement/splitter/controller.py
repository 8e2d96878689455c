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

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds import apiresource, logicalcluster, placement, workload
from shoal.kinds.leaves import is_root
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.objects.ownership import controller_named, is_controlled_by
from shoal.placement.policy import DEFAULT, Rule, rivals, selects_of
from shoal.placement.sites import Site, site_of
from shoal.placement.splitter.decide import Outlooks, looks_at_room, split_in
from shoal.placement.splitter.events import about, placed
from shoal.placement.splitter.kinds import DEFINITIONS, NotPlaceable, Placeable, placeable
from shoal.placement.splitter.outcome import Split
from shoal.placement.splitter.status import root_status
from shoal.placement.splitter.telling import Following, told
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Later, Loop
from shoal.runtime.ownwrites import OwnWrites
from shoal.runtime.recorder import NORMAL, QUIET, Recorder

Object = dict[str, Any]
Task = tuple[str, Key]
"""A kind such as `Deployment.apps` and a root of it; or `PLACEMENT` and a Placement."""

CLUSTERS = Kind(workload.GROUP, workload.VERSION, workload.PLURAL, namespaced=False)
PLACEMENTS = Kind(placement.GROUP, placement.VERSION, placement.PLURAL)
NEGOTIATED = Kind(apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False)
LOGICAL_CLUSTERS = Kind(logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False)
DEPLOYMENT = ("Deployment", "apps/v1")
PLACEMENT = placement.KIND
UNSERVED_SECONDS = 0.05
"""Between checks of a kind that was announced, until the hub serves it."""
TOLD_SECONDS, LONGEST_TOLD = 0.1, 2.0
"""From when an object follows another Placement until their statuses are updated: longer, the more objects there
are.
"""
WORKERS = 16
"""Each waits for the store most of the time, and the store commits many writes as one."""
ROOM_SECONDS = 1.0
"""How soon added capacity is evaluated."""
STATUS_SECONDS = 0.1
"""Clusters report one after another: reports within that time are aggregated once."""
UNSEEN_SECONDS = 5.0
"""Own writes show up by themselves; this is for an informer that was lost meanwhile."""


def splitter_loops(client: Client, clock: Clock, home: str = "root") -> list[Loop[Task]]:
    """`logical_cluster` is the one whose objects are split. If workloads run in it directly, none are."""
    return [Splitter(client, clock, home).loop]


class _Kind:
    """One placed kind, with its informer and state."""

    def __init__(self, client: Client, clock: Clock, named: Placeable, changed: Callable[[Task], None]) -> None:
        self.placeable = named
        self.title = f"{named.name}.{named.kind.group}"
        self.objects = Dependents(client, named.kind, clock, unserved=UNSERVED_SECONDS)
        self.writes: OwnWrites[Key] = OwnWrites(self.objects)
        self.roots: set[Key] = set()
        self.wanting: set[Key] = set()
        """Roots for which added capacity somewhere may change something."""
        self.blocked: dict[Key, set[Key]] = {}
        """Roots by the objects that have the names of their leaves."""
        self._changed = changed
        self.objects.listeners.append(self._object)

    def _object(self, key: Key, before: Object | None, now: Object | None) -> None:
        owner = (self.placeable.kind.group, self.placeable.name)
        was_of, is_of = controller_named(before, *owner), controller_named(now, *owner)
        if now is not None and is_root(now) and not is_of:
            self.roots.add(key)
        else:
            self.roots.discard(key)
            self.wanting.discard(key)
        told = {(key[0], key[1], name) for name in (was_of, is_of) if name}
        if not (is_of if now is not None else was_of):
            told.add(key)
        for root in told.union(self.blocked.pop(key, ())):
            self._changed((self.title, root))

    def root(self, key: Key) -> Object | None:
        found = self.objects.get(key)
        return found and {**found, "apiVersion": self.placeable.api_version, "kind": self.placeable.name}


class _Others:
    """Names that belong to other objects than the root's leaves."""

    def __init__(self, kind: _Kind, key: Key, root: Object) -> None:
        self._kind, self._key, self._root = kind, key, root

    def __contains__(self, name: object) -> bool:
        obj = self._kind.objects.get((self._key[0], self._key[1], str(name)))
        return obj is not None and not is_controlled_by(obj, self._root)


class Splitter:
    def __init__(self, client: Client, clock: Clock, home: str) -> None:
        self._client, self._clock, self._home = client.at(home), clock, home
        self._is_hub: bool | None = None
        self._kinds: dict[str, _Kind] = {}
        self._wanted: dict[tuple[str, str], Exception | None] = {}
        """Requested kinds and apiVersions; the error says why one is not placed."""
        self._lessons = asyncio.Event()
        self._sites: dict[str, Site] = {}
        self._outlooks = Outlooks(self._sites)
        self._rules: dict[Key, Rule] = {}
        self._followed: dict[Task, Following] = {}
        """Roots by key: the Placement they follow, and the others that select them."""
        self._due: dict[Task, float] = {}
        """When a changed status is written."""
        self._clusters = Reflector(self._client, CLUSTERS, clock, self._cluster, listed=self._all_again)
        self._placements = Reflector(self._client, PLACEMENTS, clock, self._placement, listed=self._all_again)
        self.loop: Loop[Task] = Loop("splitter", clock, self.reconcile, WORKERS)
        for kind in (NEGOTIATED, DEFINITIONS):
            self.loop.sources.append(Reflector(self._client, kind, clock, self._lesson).run)
        self._recorder = Recorder(lambda _: self._client, clock, QUIET)
        self.loop.sources += [self._clusters.run, self._placements.run, self._follow, self._recorder.run]

    def _lesson(self, key: Key, obj: Object | None) -> None:
        self._lessons.set()

    def _cluster(self, key: Key, obj: Object | None) -> None:
        before = self._sites.pop(key[2], None)
        now = site_of(obj) if obj is not None else None
        if now is not None:
            self._sites[key[2]] = now
        if now == before:
            return
        self._outlooks.clear()
        if now is not None and before is not None and replace(before, free=now.free) == now:
            self._room_again()
        else:
            self._all_again()

    def _room_again(self) -> None:
        """Free capacity changes with every pod of every cluster: only roots that it may help are reconciled, and not at
        every change.
        """
        for kind in self._kinds.values():
            for root in kind.wanting:
                self.loop.queue.add_after((kind.title, root), ROOM_SECONDS)

    def _placement(self, key: Key, obj: Object | None) -> None:
        before = self._rules.get(key)
        if before is not None and obj is not None and before.placement.get("spec") == obj.get("spec"):
            before.placement = obj
        else:
            self._rules.pop(key, None)
            if obj is not None:
                self._rules[key] = Rule(obj)
                self._lessons.set()
            self._outlooks.clear()
            self._all_again(key[1])
        self.loop.queue.add((PLACEMENT, key))

    def _all_again(self, namespace: str = "") -> None:
        for kind in self._kinds.values():
            for root in kind.roots:
                if not namespace or root[1] == namespace:
                    self.loop.queue.add((kind.title, root))

    async def _follow(self) -> None:
        """Starts an informer for every requested kind once it is served. Earlier requests would only fail."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._lessons.wait()
                self._lessons.clear()
                for kind in await self._new_kinds():
                    self._kinds[kind.title] = kind
                    group.create_task(kind.objects.run())
                for key in self._rules:
                    self.loop.queue.add((PLACEMENT, key))

    async def _new_kinds(self) -> list[_Kind]:
        selected = (one for each in self._rules.values() for one in selects_of(each.placement))
        asked = {(one["kind"], one.get("apiVersion", "")) for one in selected}
        found: list[_Kind] = []
        for name, api_version in sorted({DEPLOYMENT, *asked}):
            if self._wanted.get((name, api_version), NotFound) is None:
                continue
            try:
                named = await placeable(self._client, name, api_version)
            except NotPlaceable as error:
                self._wanted[name, api_version] = error
                continue
            except StatusError:
                self._lessons.set()
                await self._clock.sleep(UNSERVED_SECONDS)
                continue
            self._wanted[name, api_version] = None
            kind = _Kind(self._client, self._clock, named, self.loop.queue.add)
            if kind.title not in self._kinds and kind.title not in {one.title for one in found}:
                found.append(kind)
        return found

    async def reconcile(self, task: Task) -> float | None:
        title, key = task
        if not self._clusters.synced or not self._placements.synced or not await self._splits():
            return None
        if title == PLACEMENT:
            await self._tell(key)
            return None
        kind = self._kinds[title]
        root = kind.root(key)
        if root is None:
            kind.writes.forget(key)
            self._due.pop(task, None)
            self._follows(task, Following())
            return None
        if not kind.writes.in_sight(key):
            return UNSEEN_SECONDS
        owned = kind.objects.owned(key, root["metadata"]["uid"])
        candidates = rivals(self._rules.values(), root) if is_root(root) else []
        if not is_root(root) or (not candidates and (root["kind"], root["apiVersion"]) != DEPLOYMENT):
            await self._delete(kind, key, owned)  # It was assigned to one cluster, or is no longer placed.
            self._follows(task, Following())
            return None
        if "deletionTimestamp" in root["metadata"]:
            return None  # The garbage collector deletes the leaves.
        return await self._place(kind, key, root, owned, candidates)

    async def _place(
        self, kind: _Kind, key: Key, root: Object, owned: list[Object], candidates: list[Rule]
    ) -> float | None:
        now = self._clock.now()
        task = (kind.title, key)
        try:
            policy, shape = candidates[0].policy if candidates else DEFAULT, kind.placeable.shape
            outlook = self._outlooks.of(policy, root, shape, now)
            found = split_in(root, owned, _Others(kind, key, root), outlook, now, shape)
        except StatusError as error:
            self._follows(task, Following.of(candidates, str(error)))
            return None  # Existing leaves stay until the Placement is valid.
        self._follows(task, Following.of(candidates))
        if found.expired:
            await self._delete(kind, key, [root])
            return None
        (kind.wanting.add if looks_at_room(found, policy) else kind.wanting.discard)(key)
        for name in found.taken:
            kind.blocked.setdefault((key[0], key[1], name), set()).add(key)
        await self._carry_out(kind, key, found)
        if said := placed(found):
            self._recorder.record(about(root), "", root, NORMAL, "Placed", said)
        status = root_status(root, found, len(self._sites), rfc3339(now))
        if status is None or not kind.placeable.has_status or status == root.get("status"):
            self._due.pop(task, None)
            return found.later
        due = self._due.setdefault(task, self._clock.monotonic() + (STATUS_SECONDS if root.get("status") else 0.0))
        wait = due - self._clock.monotonic()
        if wait > 0:
            return wait
        del self._due[task]
        written = await self._client.update(kind.placeable.kind, {**root, "status": status}, "status", brief=True)
        kind.writes.wrote(key, written)
        return found.later

    def _follows(self, task: Task, following: Following) -> None:
        before = self._followed.pop(task, Following())
        if following != Following():
            self._followed[task] = following
        if before != following:
            cluster, namespace, _ = task[1]
            after = min(TOLD_SECONDS + len(self._followed) / 500, LONGEST_TOLD)
            for name in {*before.names, *following.names}:
                self.loop.queue.add_after((PLACEMENT, (cluster, namespace, name)), after)

    async def _tell(self, key: Key) -> None:
        rule = self._rules.get(key)
        if rule is None:
            return
        obj = rule.placement
        mine = {
            f"{task[0].partition('.')[0]} {task[1][2]}": following
            for task, following in self._followed.items()
            if task[1][1] == key[1] and key[2] in following.names
        }
        wrong = [self._wanted.get((one["kind"], one.get("apiVersion", ""))) for one in selects_of(obj)]
        status = told(obj, mine, [error for error in wrong if error is not None], rfc3339(self._clock.now()))
        if status != obj.get("status"):
            await self._client.update(PLACEMENTS, {**obj, "status": status}, "status")

    async def _splits(self) -> bool:
        """A hub runs no workloads itself. Elsewhere a Deployment becomes pods and is not split."""
        if self._is_hub is None:
            home = await self._client.at("root").get(LOGICAL_CLUSTERS, self._home)
            self._is_hub = (home.get("spec") or {}).get("profile", "hub") == "hub"
        return self._is_hub

    async def _carry_out(self, kind: _Kind, key: Key, found: Split) -> None:
        where = kind.placeable.kind
        # The store commits them as one, and a failure requeues the root.
        made = [self._client.create(where, leaf, key[1], brief=True) for leaf in found.create]
        made += [self._client.update(where, leaf, brief=True) for leaf in found.update]
        written = await asyncio.gather(*made, return_exceptions=True)
        for answer in written:
            if not isinstance(answer, BaseException):
                kind.writes.wrote(key, answer)
        for answer in written:
            if isinstance(answer, AlreadyExists):
                raise Later(f"{kind.placeable.name} {answer.name} is there already") from None
            if isinstance(answer, BaseException):
                raise answer
        gone = [leaf for leaf in found.absent if await self._is_without(leaf)]
        await self._delete(kind, key, [*found.delete, *gone])

    async def _is_without(self, leaf: Object) -> bool:
        """Returns whether the server says that the leaf's cluster does not exist, by name."""
        name = workload.assigned_to(leaf)
        try:
            await self._client.get(CLUSTERS, name)
        except NotFound as error:
            return error.name == name
        return False

    async def _delete(self, kind: _Kind, key: Key, leaves: list[Object]) -> None:
        for leaf in leaves:
            metadata = leaf["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            try:
                where = kind.placeable.kind
                await self._client.delete(where, metadata["name"], key[1], uid=metadata["uid"], cascade=True)
            except NotFound:
                continue
