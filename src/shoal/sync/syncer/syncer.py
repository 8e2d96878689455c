"""One workload Cluster's syncer: copies what is meant for it, repairs the copies, brings their status back.

While the cluster does not answer, what there is to do is put aside: nothing is retried, nothing concluded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound, ShoalError, StatusError, TooManyRequests
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition
from shoal.sync.discovery import discover
from shoal.sync.reporting import Reporter
from shoal.sync.syncer.decide import MANAGER, Plan, Target, covers, fingerprint, plan
from shoal.sync.syncer.health import GRACE_SECONDS, Health
from shoal.sync.syncer.hub import Hub, Synced, Work
from shoal.sync.syncer.namespaces import Namespaces

log = logging.getLogger("shoal.sync")

Object = dict[str, Any]

WORKERS = 8
REQUEST_SECONDS = 15.0
ASIDE_SECONDS = 0.2
MOST_NAMED = 5


@dataclass(slots=True)
class Copies:
    """The watch of one kind in the cluster."""

    reflector: Reflector
    task: asyncio.Task[None] | None = None


class Syncer:
    def __init__(
        self,
        cluster: Object,
        client: Client,
        hub: Hub,
        hub_id: str,
        clock: Clock,
        reporter: Reporter,
        denied: Callable[[], None],
    ) -> None:
        self.name, self.uid = cluster["metadata"]["name"], cluster["metadata"]["uid"]
        self._client, self._hub, self._hub_id, self._clock, self._reporter = client, hub, hub_id, clock, reporter
        self._loop: Loop[Work | str] = Loop(f"syncer {self.name}", clock, self._reconcile, WORKERS)
        self._health = Health(clock, self._probe, up=self._up, down=self._close, told=self._report_soon, denied=denied)
        self._namespaces = Namespaces(client, self.name, hub_id)
        self._copies: dict[Synced, Copies] = {}
        self._complete = False
        self._was_ready = condition_is(cluster, workload.SYNCER_READY)
        self._unready_since: float | None = None
        self._aside: set[Work | str] = set()
        self._settled: dict[Work, str] = {}
        self._orphans: set[Work] = set()
        self._news = asyncio.Event()

    # --- its life ---

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

    def set_kinds(self, kinds: Iterable[Synced], complete: bool) -> None:
        """What is copied; `complete` where nothing more is expected for now."""
        self._complete = complete
        wanted = set(kinds)
        for synced in [known for known in self._copies if known not in wanted]:
            gone = self._copies.pop(synced)
            if gone.task is not None:
                gone.task.cancel()
        for synced in wanted - set(self._copies):
            self._copies[synced] = Copies(self._reflector(synced))
        if self._health.reachable:
            self._open()
        self._report_soon()

    def _reflector(self, synced: Synced) -> Reflector:
        def changed(key: Key, obj: Object | None) -> None:
            self._loop.queue.add(Work(synced, key[1], key[2]))
            if obj is None:
                self._loop.queue.add(key[1])

        def listed() -> None:
            for work in self._hub.meant_for(self.name, synced):
                self._loop.queue.add(work)
            self._report_soon()

        labels = f"{workload.ASSIGNED}={self.name}"
        return Reflector(self._client, synced.resource, self._clock, changed, labels=labels, listed=listed)

    async def _probe(self) -> None:
        await self._client.read("/readyz")

    def _up(self) -> None:
        self._open()
        for key in self._aside:
            self._loop.queue.add_after(key, ASIDE_SECONDS)
        self._aside.clear()
        if self._unready_since is not None:
            self._report_soon()

    def _open(self) -> None:
        """A watch goes on where it was cut."""
        for synced, copies in self._copies.items():
            if copies.task is not None and copies.task.done() and not copies.task.cancelled():
                log.error("syncer %s: a watch failed", self.name, exc_info=copies.task.exception())
                copies.task = None
            if copies.task is None:
                name = f"syncer {self.name} {synced.api.group_resource}"
                copies.task = asyncio.create_task(copies.reflector.run(), name=name)

    def _close(self) -> None:
        for copies in self._copies.values():
            if copies.task is not None:
                copies.task.cancel()
                copies.task = None

    # --- what it says ---

    def _report_soon(self) -> None:
        self._news.set()

    async def _report(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                synced = sorted(synced.api.group_resource for synced in self._copies)
                found = self._conditions()
                await self._reporter.cluster(self.name, self.uid, found, synced if self._complete else None)
            except ShoalError as error:
                log.info("syncer %s: its status cannot be written: %s", self.name, error)
                await self._clock.sleep(1.0)
                self._news.set()

    def _conditions(self) -> list[Condition]:
        found = []
        verdict = self._health.verdict
        if verdict is not None:
            status = "True" if verdict.healthy else "False"
            found.append(Condition(workload.HEARTBEAT_HEALTHY, status, verdict.reason, verdict.message))
        found += self._readiness()
        names = sorted(f"{work.synced.api.group_resource} {work.namespace}/{work.name}" for work in self._orphans)
        said = f"without an object on this hub, left alone: {', '.join(names[:MOST_NAMED])}"
        said += f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        found.append(Condition("Orphans", "True", "HubObjectsMissing" if names else "", said))
        return found

    def _readiness(self) -> list[Condition]:
        """Nothing for a while where it was ready: a restart, or one more kind, is no failure."""
        missing = sorted(s.api.group_resource for s, copies in self._copies.items() if not copies.reflector.synced)
        if self._complete and not missing:
            self._was_ready, self._unready_since = True, None
            return [Condition(workload.SYNCER_READY, "True", "Syncing")]
        now = self._clock.monotonic()
        if self._unready_since is None:
            self._unready_since = now
        if self._was_ready and now - self._unready_since < GRACE_SECONDS:
            return []
        said = f"not listed yet: {', '.join(missing)}"
        if not self._complete:
            said = "it is not known yet which APIs the cluster offers"
        return [Condition(workload.SYNCER_READY, "False", "WorkloadClusterStatusUnknown", said)]

    # --- what it does ---

    async def _reconcile(self, key: Work | str) -> None:
        if not self._health.reachable:
            self._aside.add(key)
            return
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                if isinstance(key, Work):
                    await self._sync(key)
                elif not self._is_used(key):
                    await self._namespaces.remove_empty(key)
        except (Unreachable, TimeoutError):
            self._aside.add(key)
            self._health.suspect()

    def _is_used(self, namespace: str) -> bool:
        copies = (key for found in self._copies.values() for key in found.reflector.objects)
        return any(key[1] == namespace for key in copies) or self._hub.has_any(self.name, namespace)

    async def _sync(self, work: Work) -> None:
        copies = self._copies.get(work.synced)
        if copies is None:
            return  # the kind is not offered there, or no longer
        obj = self._hub.cached(work) or await self._hub.fresh(work)
        copy = copies.reflector.objects.get(("", work.namespace, work.name))
        target = Target(self.name, self._hub_id, work.synced.api.group_version, work.synced.kind, work.synced.status)
        if (obj is not None and copy is None and _concerns(obj, self.name)) or (obj is None and copy is not None):
            copy = await self._look(work)
        todo = plan(target, obj, copy, self._settled.get(work, ""))
        self._note_orphan(work, todo.orphan)
        if copy is None and (obj is None or not _concerns(obj, self.name)):
            self._loop.queue.add(work.namespace)  # nothing more of it here: perhaps of nothing else either
        if obj is not None:
            await self._carry_out(work, target, obj, todo)

    async def _carry_out(self, work: Work, target: Target, obj: Object, todo: Plan) -> None:
        if todo.hold:
            held = await self._hub.hold(work, obj, self.name)
            if held is None:
                return  # going: the next look sees that
            obj = held
        if todo.apply is not None:
            made = await self._apply(work, obj, todo.apply)
            todo = plan(target, obj, made, self._settled.get(work, ""))
        if todo.delete:
            await self._delete(work, todo.delete)
        if todo.delete or todo.wait:
            raise Later("the copy is going")
        if todo.release:
            await self._hub.release(work, obj, workload.finalizer_of(self.name))
            return
        if workload.assigned_to(obj) == self.name:
            await self._hub.tell(work, obj, todo.problem)
        if todo.status is not None:
            await self._hub.put_status(work, todo.status)

    async def _look(self, work: Work) -> Object | None:
        """None only where the cluster said by name that there is none."""
        try:
            return await self._client.get(work.synced.resource, work.name, work.namespace)
        except NotFound as error:
            if (error.kind, error.name) == (work.synced.api.plural, work.name):
                return None
            if await discover(self._client, work.synced.api.plural, work.synced.api.group) is None:
                return None  # it answers and has no such kind
            raise Unreachable(str(error)) from None

    async def _apply(self, work: Work, obj: Object, wanted: Object) -> Object:
        try:
            try:
                made = await self._client.apply(work.synced.resource, wanted, MANAGER)
            except NotFound as error:
                if error.kind != "namespaces":
                    raise Unreachable(str(error)) from None
                await self._namespaces.create(work.namespace)
                made = await self._client.apply(work.synced.resource, wanted, MANAGER)
        except StatusError as error:
            if error.status_code < 500 and not isinstance(error, TooManyRequests):
                await self._hub.tell(work, obj, f"{self.name} refused it: {error.message}"[:1000])
            raise
        self._settled.pop(work, None)
        if not covers(wanted, made):
            self._settled[work] = fingerprint(made)
        return made

    async def _delete(self, work: Work, uid: str) -> None:
        try:
            await self._client.delete(work.synced.resource, work.name, work.namespace, uid=uid)
        except NotFound:
            return

    def _note_orphan(self, work: Work, orphan: bool) -> None:
        if orphan == (work in self._orphans):
            return
        if orphan:
            self._orphans.add(work)
        else:
            self._orphans.discard(work)
        self._report_soon()


def _concerns(obj: Object, cluster: str) -> bool:
    return workload.assigned_to(obj) == cluster or workload.finalizer_of(cluster) in workload.syncer_finalizers(obj)
