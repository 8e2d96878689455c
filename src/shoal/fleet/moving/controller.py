"""Evicts ManagedClusters from Workers: one by one from a Worker that is drained or tainted, and all that may move from
a lost one.

Keys are names of Workers. One Worker is reconciled at a time, so that budgets and target choices see each other. The
safety rules are in `lease_expiry` and `decide`; `controller` writes.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.client.reflector import Key, Reflector, key_of
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.moving import departure
from shoal.fleet.moving.decide import DRAIN, LOST, TAINT, Obstacle, Source, fences, fixed, source
from shoal.fleet.moving.departure import Progress
from shoal.fleet.moving.moves import Moves
from shoal.fleet.moving.silence import Seen, ended, patience, seen
from shoal.fleet.resources import LEASES, WORKERS
from shoal.fleet.scheduler.controller import Scheduler
from shoal.fleet.scheduler.decide import Waiting
from shoal.fleet.scheduler.demand import Demand
from shoal.kinds import fleet, moving
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

FEW, RECOUNT_SECONDS = 10, 10.0
"""With more lost Workers than that, the counts in their messages are not updated at once."""
AGAIN_SECONDS = 1.0
"""How soon clusters without a target are tried again."""


class Departures:
    def __init__(self, client: Client, clock: Clock, scheduler: Scheduler) -> None:
        self._client, self._clock = client, clock
        self.moves = Moves(client, clock, scheduler)
        self.moves.wants |= {DRAIN: self._wants, TAINT: self._wants}
        self.moves.able = self._is_able
        self.moves.listeners.append(self._hosting_changed)
        self._seen: dict[str, Seen] = {}
        """Leases by Worker: since when each has its current state."""
        self._tainted: dict[str, dict[str, float]] = {}
        """By Worker: when each NoExecute taint was first seen."""
        self._active: set[str] = set()
        """Workers that are being drained or evacuated, or whose conditions still say so."""
        self._lost: set[str] = set()
        self._heard: set[str] = set()
        self._too_many = False
        """So many Workers are lost that nothing is migrated."""
        self._waiting = False
        """A cluster of the Worker that is being reconciled could move as soon as another Worker has capacity."""
        self.loop: Loop[str] = Loop("fleet-departures", clock, self.reconcile, workers=1)
        self._workers = Reflector(client, WORKERS, clock, self._worker_changed, shared=True)
        fields = f"metadata.namespace={fleet.NAMESPACE}"
        self._leases = Reflector(client, LEASES, clock, self._lease_changed, fields=fields, shared=True)
        self.loop.sources += [self._workers.run, self._leases.run]

    def worker(self, name: str) -> Object | None:
        return self._workers.objects.get(("", fleet.NAMESPACE, name))

    def _worker_changed(self, key: Key, obj: Object | None) -> None:
        if key[1] != fleet.NAMESPACE:
            return
        name = key[2]
        self.loop.queue.add(name)
        ready = obj is not None and condition_is(obj, fleet.READY)
        (self._heard.add if ready else self._heard.discard)(name)
        if (obj is None or departure.is_lost(obj)) != (name in self._lost):
            (self._lost.discard if name in self._lost else self._lost.add)(name)
            self._recount()
        self.moves.look_again(name)

    def _recount(self) -> None:
        """Requeues all lost Workers at once if the limit of lost Workers is crossed. Otherwise only the counts in their
        messages change, so in a fleet that goes silent Worker by Worker they are not all reconciled for each one.
        """
        lost = self._silent()
        before, self._too_many = self._too_many, lost > self.moves.settings.lost_share * (lost + len(self._heard))
        for name in self._lost:
            if before != self._too_many or len(self._lost) <= FEW:
                self.loop.queue.add(name)
            else:
                self.loop.queue.add_after(name, RECOUNT_SECONDS)

    def _silent(self) -> int:
        """Counts lost Workers, without those that are being deleted and empty."""
        there = (self.worker(name) for name in self._lost)
        return sum(worker is not None and not self._is_going(worker) for worker in there)

    def _lease_changed(self, key: Key, obj: Object | None) -> None:
        name = fleet.worker_of_lease(key[2])
        if name:
            self._seen[name] = seen(self._seen.get(name), obj, self._clock.monotonic())

    def _hosting_changed(self, worker: str) -> None:
        if worker in self._active or worker in self._lost or self.worker(worker) is None:
            self.loop.queue.add(worker)

    def _is_able(self, worker: str) -> bool:
        """True if the worker can take over a cluster, as its Lease says."""
        return fences(self._leases.objects.get(("", fleet.NAMESPACE, fleet.lease_name(worker))))

    def _wants(self, managed: Object) -> bool:
        """A planned migration continues even though a hub that starts counts toleration seconds anew."""
        if not self._workers.synced:
            raise Later("the Workers have not been listed yet")
        worker = self.worker(fleet.assigned_worker(managed))
        return worker is not None and self._due(managed, worker) != departure.Due()

    def _due(self, managed: Object, worker: Object) -> departure.Due:
        since = self._tainted.get(worker["metadata"]["name"], {})
        return departure.due(managed, worker, since, self._clock.monotonic())

    async def reconcile(self, name: str) -> float | None:
        if not (self.moves.informed and self._workers.synced and self._leases.synced):
            raise Later("not everything has been listed yet")
        worker, self._waiting = self.worker(name), False
        if worker is None:
            return await self._without_worker(name)
        self._note_taints(name, worker)
        going, later = await self._drain(name, worker)
        lost, stopped, soon = await self._evacuate(name, worker)
        await self._settle(worker)
        await self._say(worker, going, lost, stopped)
        again = [each for each in (later, soon, AGAIN_SECONDS if self._waiting else None) if each is not None]
        return min(again) if again else None

    async def _without_worker(self, name: str) -> float | None:
        """The Worker object was removed by force: its ManagedClusters are migrated as from a lost one."""
        self._active.discard(name)
        self._tainted.pop(name, None)
        if not self.moves.hosted(name):
            self._lost.discard(name)
            self._seen.pop(name, None)
            return None
        _, _, soon = await self._evacuate(name, departure.missing(name))
        return AGAIN_SECONDS if self._waiting else soon

    def _note_taints(self, name: str, worker: Object) -> None:
        now, known = self._clock.monotonic(), self._tainted.get(name, {})
        found = {text: known.get(text, now) for text in departure.taints(worker)}
        if found:
            self._tainted[name] = found
        else:
            self._tainted.pop(name, None)

    async def _say(
        self, worker: Object, going: Progress | None, lost: Progress | None, stopped: Obstacle | None
    ) -> None:
        """Writes the Worker's conditions. It stays active as long as it has any of them."""
        now, told, name = rfc3339(self._clock.now()), worker, worker["metadata"]["name"]
        status = departure.drained(told, going, now)
        told = {**told, "status": status} if status is not None else told
        status = departure.evacuated(told, lost, stopped, now)
        told = {**told, "status": status} if status is not None else told
        (self._active.add if _says_anything(told) else self._active.discard)(name)
        try:
            if told is not worker:
                worker = await self._client.update(WORKERS, told, "status")
            if departure.approved(worker) and condition_is(worker, fleet.READY):
                # The approval was for this one loss.
                patch = {"metadata": {"annotations": {departure.APPROVED: None}}}
                await self._client.merge(WORKERS, name, patch, fleet.NAMESPACE)
        except NotFound:
            return

    async def _settle(self, worker: Object) -> None:
        """Removes the Movable condition from clusters that no longer have to be moved."""
        if departure.is_lost(worker) or not _says_anything(worker):
            return
        for managed in self.moves.hosted(worker["metadata"]["name"]):
            if get_condition(managed, fleet.MOVABLE) is not None and not self._due(managed, worker).reason:
                await self.moves.say(managed, None)

    async def _drain(self, name: str, worker: Object) -> tuple[Progress | None, float | None]:
        """Returns the progress, and when the next cluster will have to leave."""
        if not (fleet.spec_of(worker).get("drain") or departure.taints(worker)):
            return None, None
        all_due = [(managed, self._due(managed, worker)) for managed in self.moves.hosted(name)]
        later = min((due.again for _, due in all_due if due.again is not None), default=None)
        must = {key_of(managed): due.reason for managed, due in all_due if due.reason}
        away = [each for each in self.moves.away(name) if _why_moved(each) in (DRAIN, TAINT)]
        staying = [managed for managed, _ in all_due if key_of(managed) in must and not fleet.moving_to(managed)]
        progress = Progress(left=len(must), moving=len(must) - len(staying), away=len(away))
        known: dict[Demand, Waiting] = {}
        for managed in departure.in_order(staying):
            key = key_of(managed)
            if progress.moving + progress.away >= departure.budget(worker):
                break
            found = self._way_out(key, managed, worker, known)
            if isinstance(found, Obstacle):
                progress.obstacles[_title(managed)] = found
                if not (departure.is_lost(worker) and _is_to_be_moved(managed)):  # See _evacuate.
                    await self.moves.say(managed, found)
            else:
                await self.moves.plan(managed, found, must[key])
                progress.moving += 1
        return progress, later

    def _way_out(self, key: Key, managed: Object, worker: Object, known: dict[Demand, Waiting]) -> str | Obstacle:
        name = worker["metadata"]["name"]
        if not condition_is(worker, fleet.READY):
            return Obstacle("WorkerSilent", f"worker {name} is not heard, and only it can send it on")
        if self.moves.rest(key):
            self._waiting = True
            return Obstacle("TookTooLong", "its last move took too long; it is tried again later")
        return fixed(managed) or self._elsewhere(key, known)

    def _elsewhere(self, key: Key, known: dict[Demand, Waiting]) -> str | Obstacle:
        """`unschedulable_by_requirements` caches failures of equal requirements. A migration uses capacity and frees
        none.
        """
        asked = self.moves.berths.asked(key)
        found = known.get(asked) if asked is not None else None
        answer = found or self.moves.berths.elsewhere(key, self.moves.able)
        if isinstance(answer, str):
            return answer
        if asked is not None:
            known[asked] = answer
        self._waiting = True
        return Obstacle(answer.reason, answer.message)

    def _under_way(self, managed: Object) -> str:
        """Returns the Worker on which capacity is reserved for it already; empty if there is none."""
        to = fleet.moving_to(managed)
        return "" if self.moves.berths.unfit(key_of(managed), to) else to

    async def _evacuate(self, name: str, worker: Object) -> tuple[Progress | None, Obstacle | None, float | None]:
        """Returns the progress, what blocks the whole evacuation, and when to reconcile again."""
        if not departure.is_lost(worker):
            return None, None, None
        must = [each for each in self.moves.hosted(name) if _is_to_be_moved(each)]
        away = [each for each in self.moves.away(name) if _why_moved(each) == LOST]
        if not (must or away or get_condition(worker, departure.EVACUATED)):
            return None, None, None
        progress = Progress(left=len(must), away=len(away))
        lease = self._leases.objects.get(("", fleet.NAMESPACE, fleet.lease_name(name)))
        known = self._seen[name] = seen(self._seen.get(name), lease, self._clock.monotonic())
        needed = patience(lease, self.moves.settings)
        wait = known.since + needed - self._clock.monotonic()
        stopped = self._stopped(worker) if must else None
        if stopped is not None:
            for managed in must:
                await self.moves.say(managed, departure.without_numbers(stopped))
            return progress, stopped, None
        if must and wait > 0:
            said = f"they are moved when nothing has been heard of it for {needed:.0f} seconds"
            return progress, Obstacle("Waiting", said), wait
        await self._move_lost(name, must, lease, progress)
        return progress, None, None

    def _stopped(self, worker: Object) -> Obstacle | None:
        limits = self.moves.settings
        if limits.wrong:
            return Obstacle("InvalidSettings", limits.wrong)
        lost = self._silent() + (self.worker(worker["metadata"]["name"]) is None)
        return departure.line_stopped(worker, lost, lost + len(self._heard), limits.lost_share)

    def _is_going(self, worker: Object) -> bool:
        """It is empty and being deleted, so it no longer counts."""
        return fleet.is_deleting(worker) and not self.moves.hosted(worker["metadata"]["name"])

    async def _move_lost(self, name: str, must: list[Object], lease: Object | None, progress: Progress) -> None:
        under_way = [each for each in self.moves.all_away() if _why_moved(each) == LOST and not _is_broken(each)]
        free = self.moves.settings.at_once - len(under_way)
        known: dict[Demand, Waiting] = {}
        for managed in departure.in_order(must):
            if moving.is_final(managed):
                continue  # Its planned migration completes to its target.
            found = source(managed, lease, self.moves.settings)
            if not isinstance(found, Obstacle) and free > 0:
                way = self._under_way(managed) or self._elsewhere(key_of(managed), known)
                if isinstance(way, str):
                    if not await self._move(name, managed, way):
                        return
                    free, progress.left, progress.away = free - 1, progress.left - 1, progress.away + 1
                    continue
                found = way
            if isinstance(found, Obstacle):
                progress.obstacles[_title(managed)] = found
                await self.moves.say(managed, found)
            else:
                self._waiting = True
                await self.moves.say(managed, None)

    async def _move(self, name: str, managed: Object, to: str) -> bool:
        """The three steps: `managed` was read before, and its revision is what the write replaces; the Lease is read
        from the API now; then the cluster is reassigned. Returns False if the worker was heard, or if nothing is
        certain.
        """
        asked = self._clock.monotonic()
        try:
            lease: Object | None = await self._client.get(LEASES, fleet.lease_name(name), fleet.NAMESPACE)
        except NotFound:
            lease = None
        known = self._seen[name] = seen(self._seen.get(name), lease, self._clock.monotonic())
        found = source(managed, lease, self.moves.settings)
        if not ended(known, lease, asked, self.moves.settings) or not isinstance(found, Source):
            self._waiting = True
            return False
        await self.moves.rebind(managed, to, LOST, found)
        log.info("worker %s is lost: %s is moved to worker %s", name, _title(managed), to)
        return True


def _says_anything(worker: Object) -> bool:
    return any(get_condition(worker, type_) for type_ in (departure.DRAINED, departure.EVACUATED))


def _is_to_be_moved(managed: Object) -> bool:
    return moving.moves_when_lost(managed) and not fleet.is_deleting(managed)


def _why_moved(managed: Object) -> str:
    return str((fleet.status_of(managed).get("lastMove") or {}).get("reason") or "")


def _is_broken(managed: Object) -> bool:
    return bool(fleet.status_of(managed).get("phase") == fleet.FAILED)


def _title(managed: Object) -> str:
    return f"{managed['metadata'].get('namespace', '')}/{managed['metadata']['name']}"
