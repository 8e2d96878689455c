"""Migrations in progress: each is written, followed to completion or cancelled, by compare-and-swap on the
ManagedCluster.

Other controllers decide what to migrate (`eviction_controller` and the rebalancer). A planned migration waits until the
worker confirms that everything was sent; then the ManagedCluster is reassigned. Own writes are visible here at once,
before the watch delivers them, so that budgets hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector, key_of
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.moving.decide import (
    Obstacle,
    Source,
    arrived,
    is_on_its_way,
    not_movable,
    planned,
    rebound,
    sent_source,
    taken_back,
)
from shoal.fleet.moving.settings import NAME, Settings, settings
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS
from shoal.fleet.scheduler.controller import Scheduler
from shoal.kinds import fleet, moving
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]
Wants = Callable[[Object], bool]
"""Returns whether a migration in progress is still wanted."""
Seats = tuple[str, str, str]
"""The Worker it is on, the previous one while it is not ready yet, and the migration target."""
NOWHERE: Seats = ("", "", "")


class Moves:
    """Keys are ManagedClusters."""

    def __init__(self, client: Client, clock: Clock, scheduler: Scheduler) -> None:
        self._client, self._clock, self._scheduler = client, clock, scheduler
        self.berths = scheduler.berths
        self.wants: dict[str, Wants] = {}
        """By migration reason."""
        self.able: Callable[[str], bool] = lambda worker: True
        """Returns whether a Worker can take over a cluster."""
        self.listeners: list[Callable[[str], None]] = []
        """Called with the names of Workers whose ManagedClusters have changed."""
        self._written: dict[Key, Object] = {}
        self._seats: dict[Key, Seats] = {}
        self._hosted: dict[str, set[Key]] = {}
        """By Worker."""
        self._away: dict[str, set[Key]] = {}
        """Migrated and not ready yet, by previous Worker."""
        self._coming: dict[str, set[Key]] = {}
        """Migrations in progress, by target Worker."""
        self._asked: dict[Key, tuple[str, float]] = {}
        """When a planned migration was first seen, on the monotonic clock."""
        self._resting: dict[Key, float] = {}
        """Until when a cluster whose migration took too long is left alone."""
        self.loop: Loop[Key] = Loop("fleet-moves", clock, self.reconcile)
        self._managed = Reflector(client, MANAGED_CLUSTERS, clock, self._changed, shared=True)
        fields = f"metadata.namespace={fleet.NAMESPACE},metadata.name={NAME}"
        self._config = Reflector(client, CONFIG_MAPS, clock, self._configured, fields=fields)
        self.settings = Settings()
        self.loop.sources += [self._managed.run, self._config.run]

    @property
    def informed(self) -> bool:
        return self._managed.synced and self._config.synced and self._scheduler.informed

    def _configured(self, key: Key, obj: Object | None) -> None:
        self.settings = settings(obj)
        for worker in {*self._hosted, *self._away}:
            self._tell(worker)

    def _tell(self, worker: str) -> None:
        for told in self.listeners:
            told(worker)

    def get(self, key: Key) -> Object | None:
        return self._written.get(key) or self._managed.objects.get(key)

    def hosted(self, worker: str) -> list[Object]:
        return self._objects(self._hosted.get(worker, ()))

    def all_hosted(self) -> list[Object]:
        return [each for worker in list(self._hosted) for each in self.hosted(worker)]

    def away(self, worker: str) -> list[Object]:
        return self._objects(self._away.get(worker, ()))

    def look_again(self, worker: str) -> None:
        """Requeues migrations from and to that Worker: they may no longer be wanted or possible."""
        for key in self._hosted.get(worker, ()):
            if self._seats[key][2]:
                self.loop.queue.add(key)
        for key in self._coming.get(worker, ()):
            self.loop.queue.add(key)

    def all_away(self) -> list[Object]:
        return [each for worker in self._away for each in self.away(worker)]

    def _objects(self, keys: set[Key] | tuple[()]) -> list[Object]:
        return [obj for key in sorted(keys) if (obj := self.get(key)) is not None]

    def _changed(self, key: Key, obj: Object | None) -> None:
        known = self._written.get(key)
        if known is not None:
            if obj is not None and _revision(obj) < _revision(known):
                return
            del self._written[key]
        self._note(key, obj)

    def _note(self, key: Key, obj: Object | None) -> None:
        before, now = self._seats.pop(key, NOWHERE), _seats(obj)
        if any(now):
            self._seats[key] = now
        if before != now:
            for index, was, is_ in zip((self._hosted, self._away, self._coming), before, now, strict=True):
                _reseat(index, key, was, is_)
        for worker in now if before == now else {*before, *now}:
            if worker:
                self._tell(worker)
        if obj is None:
            self._asked.pop(key, None)
            self._resting.pop(key, None)
        elif condition_is(obj, fleet.MOVING):
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        managed = self.get(key)
        if managed is None:
            return None
        if not self.informed:
            raise Later("not everything has been listed yet")
        try:
            return await self._follow(key, managed)
        except NotFound:
            return None

    async def _follow(self, key: Key, managed: Object) -> float | None:
        """Returns when to reconcile again."""
        if not fleet.moving_to(managed):
            self._asked.pop(key, None)
            up = arrived(managed, self._now())
            if up is not None:
                await self._write(managed, up)
            return None
        because = self._against(key, managed)
        left = self._time_left(key, managed)
        if because is None and moving.is_final(managed):
            move = moving.move(managed)
            await self.rebind(managed, move["to"], move["reason"], sent_source(managed))
            return None
        if because is None and left <= 0:
            because = Obstacle("TookTooLong", f"{self.settings.frozen:.0f} seconds were not enough to send it on")
            self._resting[key] = self._clock.monotonic() + self.settings.frozen
        if because is not None:
            await self._write(managed, taken_back(managed, because, self._now()))
            return None
        return left

    def _against(self, key: Key, managed: Object) -> Obstacle | None:
        move = moving.move(managed)
        if fleet.is_deleting(managed):
            return Obstacle("Deleting", "it is being deleted")
        wants = self.wants.get(move["reason"])
        if move["from"] != fleet.assigned_worker(managed) or wants is None or not wants(managed):
            return Obstacle("Cancelled", f"it is not to leave worker {move['from']} any more")
        unfit = self.berths.unfit(key, move["to"])
        return Obstacle("TargetUnfit", f"worker {move['to']} cannot have it: {unfit}") if unfit else None

    def _time_left(self, key: Key, managed: Object) -> float:
        since, now = str(moving.move(managed)["since"]), self._clock.monotonic()
        known = self._asked.get(key)
        if known is None or known[0] != since:
            known = self._asked[key] = since, now
        return known[1] + self.settings.frozen - now

    def rest(self, key: Key) -> float:
        """Seconds for which the cluster is left alone."""
        left = self._resting.get(key, 0.0) - self._clock.monotonic()
        if left <= 0:
            self._resting.pop(key, None)
        return max(0.0, left)

    async def plan(self, managed: Object, to: str, reason: str) -> None:
        """Asks its Worker to send the cluster. Capacity on the target `to` is reserved from now on."""
        await self._to(managed, to, planned(managed, to, reason, self._now()))

    async def rebind(self, managed: Object, to: str, reason: str, source: Source) -> None:
        await self._to(managed, to, rebound(managed, to, reason, source, self._now()))

    async def _to(self, managed: Object, to: str, status: Object) -> None:
        key = key_of(managed)
        self.berths.reserve(key, to)
        try:
            await self._write(managed, status)
        except BaseException:
            self.berths.release(key)  # If it was written all the same, the watch will report it.
            raise

    async def say(self, managed: Object, because: Obstacle | None) -> None:
        """Sets why the cluster is not migrated; None: it does not have to be."""
        status = not_movable(managed, because, self._now())
        if status is not None:
            await self._write(managed, status)

    async def _write(self, managed: Object, status: Object) -> None:
        written = await self._client.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
        key = key_of(written)
        known = self.get(key)
        if key not in self._managed.objects or known is None:
            return  # Deleted meanwhile.
        if _revision(known) < _revision(written):
            self._written[key] = written
            self._note(key, written)
        self.berths.note(key, written)

    def _now(self) -> str:
        return rfc3339(self._clock.now())


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _seats(obj: Object | None) -> Seats:
    if obj is None:
        return NOWHERE
    away = is_on_its_way(obj) and not fleet.is_deleting(obj)
    before = str(fleet.status_of(obj)["lastMove"]["from"]) if away else ""
    return fleet.assigned_worker(obj), before, fleet.moving_to(obj)


def _reseat(index: dict[str, set[Key]], key: Key, was: str, now: str) -> None:
    if was and was != now:
        index[was].discard(key)
        if not index[was]:
            del index[was]
    if now:
        index.setdefault(now, set()).add(key)
