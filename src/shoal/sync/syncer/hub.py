"""The hub's side of all syncers: one watch per kind, its objects dispatched by label; and what is written there.

Objects are known by the finalizers they have or should have (`workload.finalizer_of`), so that a copy in a cluster
an object was meant for before is not forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, cast

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.apiresource import PUBLISHED, Api, api_of, has_subresource, parse_resource
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Conflict, NotFound, StatusError
from shoal.runtime.loop import Loop
from shoal.sync.discovery import native
from shoal.sync.resources import CLUSTERS, NAMESPACES, NEGOTIATED

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

TRIES = 3
AGAIN_SECONDS = 1.0


class Synced(NamedTuple):
    """A kind whose objects are copied. Namespaced ones only."""

    api: Api
    kind: str
    status: bool

    @property
    def resource(self) -> Kind:
        return Kind(*self.api)


class Work(NamedTuple):
    """An object on the hub, and its copy wherever it is."""

    synced: Synced
    namespace: str
    name: str


BASIC = (
    Synced(Api("", "v1", "configmaps"), "ConfigMap", status=False),
    Synced(Api("", "v1", "secrets"), "Secret", status=False),
)
Told = Callable[[Work], None]


class Hub:
    """Runs as a loop: the finalizers of clusters that are gone are taken off here."""

    def __init__(self, client: Client, clock: Clock, resources: list[str]) -> None:
        self._client, self._clock = client, clock
        self._wanted = [parse_resource(text) for text in resources]
        self.loop: Loop[tuple[Work, str]] = Loop("syncer-releases", clock, self._release_gone)
        self._negotiated = Reflector(client, NEGOTIATED, clock, self._learned)
        self.loop.sources += [self._negotiated.run, self._serve]
        self._reflectors: dict[Synced, Reflector] = {}
        self._tasks: dict[Synced, asyncio.Task[None]] = {}
        self._learned_as: dict[str, Synced] = {}
        self._targets: dict[Work, frozenset[str]] = {}
        self._works: dict[str, dict[Work, None]] = {}
        """The same, by target."""
        self._told: dict[str, Told] = {}
        self._identity = ""
        self.basic: tuple[Synced, ...] = BASIC
        """What every cluster is given: kinds the hub has by itself."""
        self.started = asyncio.Event()
        """`basic` is complete."""

    # --- who listens ---

    def attach(self, cluster: str, told: Told) -> None:
        """From now on, `told` hears of the objects that are or were meant for that cluster; of all at once first."""
        finalizer = workload.finalizer_of(cluster)
        self._told[finalizer] = told
        for work in self._meant_for(finalizer):
            told(work)

    def detach(self, cluster: str) -> None:
        self._told.pop(workload.finalizer_of(cluster), None)

    def release_all(self, cluster: str) -> None:
        """The workload Cluster is gone: nothing on the hub waits for it any longer."""
        finalizer = workload.finalizer_of(cluster)
        for work in self._meant_for(finalizer):
            self.loop.queue.add((work, finalizer))

    def has_any(self, cluster: str, namespace: str) -> bool:
        """Whether something in that namespace is, was, or may be meant for the cluster."""
        finalizer = workload.finalizer_of(cluster)
        unknown = any(not reflector.synced for reflector in self._reflectors.values())
        return unknown or any(work.namespace == namespace for work in self._meant_for(finalizer))

    def meant_for(self, cluster: str, synced: Synced) -> list[Work]:
        return [work for work in self._meant_for(workload.finalizer_of(cluster)) if work.synced == synced]

    def _meant_for(self, finalizer: str) -> list[Work]:
        return list(self._works.get(finalizer, ()))

    # --- what is watched ---

    async def identity(self) -> str:
        """Of this hub's store: another store is another hub."""
        if not self._identity:
            self._identity = str((await self._client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
        return self._identity

    async def _serve(self) -> None:
        """Kinds the hub has by itself; learned ones come and go by `_learned`."""
        try:
            for synced in BASIC:
                self._add(synced)
            await self._until_done(self._find_natives)
            self.started.set()
            await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _find_natives(self) -> None:
        for plural, group in self._wanted:
            found = await native(self._client, plural, group)
            if found is not None and found.resource["namespaced"]:
                synced = Synced(found.api, found.resource["kind"], "status" in found.subresources)
                self.basic = (*(old for old in self.basic if old.api != synced.api), synced)
                self._add(synced)

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except (StatusError, Unreachable) as error:
                log.info("the hub: %s; again in %.0f s", error, AGAIN_SECONDS)
                await self._clock.sleep(AGAIN_SECONDS)
            else:
                return

    def _learned(self, key: Key, obj: Object | None) -> None:
        before = self._learned_as.pop(key[2], None)
        now = None
        if obj is not None and condition_is(obj, PUBLISHED) and obj["spec"]["scope"] == "Namespaced":
            now = Synced(api_of(obj), obj["spec"]["kind"], has_subresource(obj, "status"))
            self._learned_as[key[2]] = now
            self._add(now)
        if before is not None and before != now:
            self._remove(before)

    def _add(self, synced: Synced) -> None:
        if synced in self._reflectors:
            return

        def changed(key: Key, obj: Object | None) -> None:
            self._changed(Work(synced, key[1], key[2]), obj)

        self._reflectors[synced] = Reflector(
            self._client, synced.resource, self._clock, changed, labels=workload.ASSIGNED
        )
        self._tasks[synced] = asyncio.create_task(self._watch(synced), name=f"hub {synced.api.group_resource}")

    def _remove(self, synced: Synced) -> None:
        self._reflectors.pop(synced, None)
        task = self._tasks.pop(synced, None)
        if task is not None:
            task.cancel()
        for work in [work for work in self._targets if work.synced == synced]:
            self._aim(work, frozenset())

    async def _watch(self, synced: Synced) -> None:
        reflector = self._reflectors[synced]
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._until_done(partial(self._find_unlabelled, synced)))
                    group.create_task(reflector.run())
            except* Exception:
                log.exception("the hub's watch of %s failed", synced.api.group_resource)
            await self._clock.sleep(AGAIN_SECONDS)

    async def _find_unlabelled(self, synced: Synced) -> None:
        """Objects whose label was taken away while nobody looked; the watch does not show them."""
        found, _ = await self._client.list_all(synced.resource, labels=f"!{workload.ASSIGNED}")
        for obj in found:
            if workload.syncer_finalizers(obj):
                self._changed(Work(synced, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), obj)

    def _changed(self, work: Work, obj: Object | None) -> None:
        now: frozenset[str] = frozenset()
        if obj is not None:
            now = frozenset(workload.syncer_finalizers(obj))
            if assigned := workload.assigned_to(obj):
                now |= {workload.finalizer_of(assigned)}
        for finalizer in self._aim(work, now) | now:
            told = self._told.get(finalizer)
            if told is not None:
                told(work)
            elif obj is None or finalizer in (obj["metadata"].get("finalizers") or ()):
                self.loop.queue.add((work, finalizer))

    def _aim(self, work: Work, targets: frozenset[str]) -> frozenset[str]:
        """Answers what it was meant for before."""
        before = self._targets.pop(work, frozenset())
        for finalizer in before - targets:
            del self._works[finalizer][work]
            if not self._works[finalizer]:
                del self._works[finalizer]
        for finalizer in targets - before:
            self._works.setdefault(finalizer, {})[work] = None
        if targets:
            self._targets[work] = targets
        return before

    # --- what is read and written ---

    def cached(self, work: Work) -> Object | None:
        reflector = self._reflectors.get(work.synced)
        return reflector.objects.get(("", work.namespace, work.name)) if reflector is not None else None

    async def fresh(self, work: Work) -> Object | None:
        """None only where the hub said by name that there is none."""
        try:
            return await self._client.get(work.synced.resource, work.name, work.namespace)
        except NotFound as error:
            if (error.kind, error.name) == (work.synced.api.plural, work.name):
                return None
            raise

    async def hold(self, work: Work, obj: Object, cluster: str) -> Object | None:
        """The object with the finalizer; None if it has gone, or is going, meanwhile."""
        finalizer = workload.finalizer_of(cluster)

        def changed(found: list[str]) -> list[str]:
            return [*found, finalizer]

        return await self._refinalize(work, obj, changed)

    async def release(self, work: Work, obj: Object, finalizer: str) -> None:
        def changed(found: list[str]) -> list[str]:
            return [name for name in found if name != finalizer]

        await self._refinalize(work, obj, changed, going=True)

    async def _refinalize(
        self, work: Work, obj: Object, changed: Callable[[list[str]], list[str]], going: bool = False
    ) -> Object | None:
        current: Object | None = obj
        for attempt in range(TRIES):
            if current is None or ("deletionTimestamp" in current["metadata"] and not going):
                return None
            metadata = current["metadata"]
            finalizers = list(metadata.get("finalizers") or ())
            wanted = list(dict.fromkeys(changed(finalizers)))
            if wanted == finalizers:
                return current
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": wanted or None}}
            try:
                return await self._client.merge(work.synced.resource, work.name, patch, work.namespace)
            except NotFound:
                return None
            except Conflict:
                if attempt == TRIES - 1:
                    raise
                current = await self.fresh(work)
        return None

    async def tell(self, work: Work, obj: Object, problem: str) -> None:
        """Why the object is not in its cluster; empty: it is."""
        if (obj["metadata"].get("annotations") or {}).get(workload.PROBLEM, "") != problem:
            patch = {"metadata": {"annotations": {workload.PROBLEM: problem or None}}}
            await self._client.merge(work.synced.resource, work.name, patch, work.namespace)

    async def put_status(self, work: Work, status: Object) -> None:
        """As a whole and whatever else was written meanwhile: the status has one writer."""
        path = self._client.path(work.synced.resource, work.name, work.namespace, "status")
        patch = cast(Object, [{"op": "add", "path": "/status", "value": status}])
        await self._client.call("PATCH", path, body=patch, content="application/json-patch+json")

    async def _release_gone(self, key: tuple[Work, str]) -> None:
        """Takes a finalizer off whose workload Cluster is known not to be there."""
        work, finalizer = key
        obj = await self.fresh(work)
        if obj is None or finalizer not in workload.syncer_finalizers(obj):
            return
        clusters, _ = await self._client.list_all(CLUSTERS)
        if all(workload.finalizer_of(cluster["metadata"]["name"]) != finalizer for cluster in clusters):
            await self.release(work, obj, finalizer)
