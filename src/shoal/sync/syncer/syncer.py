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

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.conditions import condition_is
from shoal.objects.errors import ShoalError
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition
from shoal.sync.reporting import Reporter
from shoal.sync.syncer import telling
from shoal.sync.syncer.copying import Copying
from shoal.sync.syncer.decide import is_ours, origin_of
from shoal.sync.syncer.duties import Duties
from shoal.sync.syncer.health import Health
from shoal.sync.syncer.hub import Hub, Synced, Work, unmanaged
from shoal.sync.syncer.hubwrites import HubWrites
from shoal.sync.syncer.mirror import Mirror
from shoal.sync.syncer.names import Names
from shoal.sync.syncer.namespaces import Namespaces
from shoal.sync.syncer.pending import Pending
from shoal.sync.syncer.podmirror import PodMirror
from shoal.sync.syncer.references import Ref, refs_of

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

WORKERS = 8
REQUEST_SECONDS = 15.0
ASIDE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of a syncer, and its callbacks."""

    hub: Hub
    writes: HubWrites
    hub_id: str
    client: Client
    """Client of the cluster; closed with the syncer."""
    reporter: Reporter
    denied: Callable[[], None]
    """Called when the cluster rejects the credentials."""
    tells_kinds: bool = True
    """False: another component writes syncedResources."""


class Syncer:
    def __init__(self, cluster: Object, sides: Sides, clock: Clock) -> None:
        self.name, self.uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        self.hub_id = sides.hub_id
        self._client, self._hub, self._writes, self._clock = sides.client, sides.hub, sides.writes, clock
        self._reporter, self._tells_kinds = sides.reporter, sides.tells_kinds
        self._loop: Loop[Work | str] = Loop(f"syncer {self.name}", clock, self._reconcile, WORKERS)
        self._health = Health(
            clock, self._probe, up=self._up, down=self._close, told=self.report_soon, denied=sides.denied
        )
        self._namespaces = Namespaces(sides.client, clock, self.name, sides.hub_id)
        self._copies: dict[Synced, Reflector] = {}
        self._watches: dict[Synced, asyncio.Task[None]] = {}
        self._names = Names(sides.hub_id, self._copies)
        self._say = telling.Ledgers(self.report_soon)
        copying = Copying(sides.client, self._namespaces)
        self._duties = Duties(
            *(self.name, sides.hub_id, sides.hub, sides.writes, copying, self._namespaces, self._names, self._copies),
            *(self._loop.queue, self._say, clock),
        )
        self._duties.guard.stopped = condition_is(cluster, telling.DELETIONS_HELD)
        self._pending = Pending(sides.client, clock, sides.hub_id, self._namespaces, self._copies, self._count)
        self._mirror = Mirror(
            *(self.name, sides.client, sides.writes.client, clock, sides.hub_id, sides.hub),
            *(self._namespaces, self._copies),
        )
        self._pod_mirror = PodMirror(
            *(self.name, sides.client, sides.writes.client, clock, sides.hub_id, sides.hub),
            *(self._namespaces, self._copies, lambda said: self._say.unshown.note("pods", said)),
        )
        self._mirrors: frozenset[str] = frozenset()
        self._besides: list[asyncio.Task[None]] = []
        """Watches of namespaces, pods and mirrors, while the cluster responds."""
        self._complete = False
        self._readiness = telling.Readiness(clock, condition_is(cluster, workload.SYNCER_READY))
        self._aside: set[Work | str] = set()
        self._news = asyncio.Event()
        self.mind(cluster)

    # --- lifecycle ---

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.run())
                group.create_task(self._health.run())
                group.create_task(self._report())
                self._hub.attach(self.name, self._loop.queue.add)
        finally:
            self._hub.detach(self.name)
            self._close()
            await self._client.close()

    def mind(self, cluster: Object) -> None:
        """Applies the workload Cluster's settings for deletions, adoption and mirroring."""
        mirrors = frozenset(what for what in ("events", "pods") if workload.mirrors(cluster, what))
        if mirrors != self._mirrors:
            self._mirrors = mirrors
            self._say.unshown.note("pods", "")
            self._close()
            if self._health.reachable:
                self._open()
        said = cluster["metadata"].get("annotations") or {}
        allowed, adopted = said.get(workload.ALLOW_DELETIONS) == "true", said.get(workload.ADOPT, "")
        duties = self._duties
        changed = (allowed, adopted) != (duties.guard.allowed, duties.adopted)
        duties.guard.allowed, duties.adopted = allowed, adopted
        if changed:
            for work in [*self._say.held.about(), *self._say.foreign.about(), *self._hub.all_meant_for(self.name)]:
                self._loop.queue.add(work)

    def set_kinds(self, kinds: Iterable[Synced], complete: bool) -> None:
        """Sets the synced resources; `complete` if no more are expected for now."""
        self._complete = complete
        wanted = set(kinds)
        for synced in [known for known in self._copies if known not in wanted]:
            del self._copies[synced]
            if synced in self._watches:
                self._watches.pop(synced).cancel()
        for synced in wanted - set(self._copies):
            self._copies[synced] = self._reflector(synced)
        if self._health.reachable:
            self._open()
        self.report_soon()

    def _reflector(self, synced: Synced) -> Reflector:
        def changed(key: Key, obj: Object | None) -> None:
            name = self._names.saw(synced, key, obj)
            work = Work(synced, self._namespaces.hub_name(key[1]) if key[1] else "", name)
            self._seen(work, obj)
            self._loop.queue.add(work)
            if obj is None:
                # The name is free: for objects that wait for it, and for dependencies of that name.
                for each in {work._replace(name=key[2]), *self._names.waiting(synced, key)}:
                    self._loop.queue.add(each)
                if key[1]:
                    self._loop.queue.add(work.namespace)

        def listed() -> None:
            for work in self._hub.meant_for(self.name, synced):
                self._loop.queue.add(work)
            self._pending.look_everywhere()
            self.report_soon()

        return Reflector(
            self._client, synced.resource, self._clock, changed, labels=workload.ASSIGNED, listed=listed, keep=unmanaged
        )

    def _seen(self, work: Work, copy: Object | None) -> None:
        """Updates the references of a downstream object, and whether it belongs to another hub or registration."""
        api = work.synced.api
        mine = copy is not None and is_ours(copy, self.hub_id)
        refs = refs_of(copy, api.plural, api.group) if copy is not None and mine else frozenset()
        refs = frozenset(Ref(ref.plural, work.namespace, ref.name) for ref in refs)
        for ref in self._duties.references.put(self.name, work, api.group_resource, refs):
            needed = self._hub.work_of(ref)
            if needed is not None:
                self._loop.queue.add(needed)
        told = ""
        if copy is not None and (origin := origin_of(copy)[0]):
            if not mine:
                told = f"{work.title} of hub {origin}"
            elif workload.assigned_to(copy) != self.name:
                told = f"{work.title} made for {workload.assigned_to(copy)}"
        self._say.foreign.note(work, told)

    async def _count(self, work: Work, pods: int) -> None:
        await self._writes.count(work, self._hub.seen(work), pods)

    async def _probe(self) -> None:
        await self._client.read("/readyz")

    def _up(self) -> None:
        self._open()
        for key in self._aside:
            self._loop.queue.add_after(key, ASIDE_SECONDS)
        self._aside.clear()
        if self._readiness.since is not None:
            self.report_soon()

    def _open(self) -> None:
        """A watch resumes where it was interrupted."""
        if not self._besides:
            shows = {"events": self._mirror.run, "pods": self._pod_mirror.run}
            mirrors = (run for what, run in shows.items() if what in self._mirrors)
            for run in (self._namespaces.reflector.run, self._pending.run, *mirrors):
                self._besides.append(asyncio.create_task(_kept(run), name=f"syncer {self.name}"))
        for synced, reflector in self._copies.items():
            watch = self._watches.get(synced)
            if watch is not None and watch.done() and not watch.cancelled():
                log.error("syncer %s: a watch failed", self.name, exc_info=watch.exception())
            if watch is None or watch.done():
                name = f"syncer {self.name} {synced.api.group_resource}"
                self._watches[synced] = asyncio.create_task(self._watch(reflector), name=name)

    async def _watch(self, reflector: Reflector) -> None:
        await self._namespaces.listed.wait()
        await reflector.run()

    def _close(self) -> None:
        for watch in self._besides:
            watch.cancel()
        self._besides.clear()
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()

    # --- status ---

    def report_soon(self) -> None:
        self._news.set()

    async def _report(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                synced = sorted(synced.api.group_resource for synced in self._copies)
                known = self._complete and self._tells_kinds
                await self._reporter.cluster(self.name, self.uid, self.conditions(), synced if known else None)
            except ShoalError as error:
                log.info("syncer %s: its status cannot be written: %s", self.name, error)
                await self._clock.sleep(1.0)
                self._news.set()

    def conditions(self) -> list[Condition]:
        missing = [synced.api.group_resource for synced, found in self._copies.items() if not found.synced]
        missing += self._hub.unlisted(set(self._copies))
        return [
            *telling.heartbeat(self._health.verdict),
            *self._readiness.judge(self._complete, missing),
            *self._say.conditions(self.hub_id),
        ]

    # --- reconcile ---

    async def _reconcile(self, key: Work | str) -> None:
        if not self._health.reachable:
            self._aside.add(key)
            return
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                if isinstance(key, Work):
                    await self._duties.sync(key)
                    self._pod_mirror.look()
                elif not self._is_used(key):
                    await self._namespaces.remove_empty(key)
        except (Unreachable, TimeoutError):
            self._aside.add(key)
            self._health.suspect()

    def _is_used(self, namespace: str) -> bool:
        if not self._hub.is_complete():
            raise Later("not everything is known that may be meant for it")
        copies = (key for found in self._copies.values() for key in found.objects)
        here = any(self._namespaces.hub_name(key[1]) == namespace for key in copies if key[1])
        return here or self._hub.has_any(self.name, namespace)


async def _kept(run: Callable[[], Awaitable[None]]) -> None:
    try:
        await run()
    except Exception:
        log.exception("a watch failed")
