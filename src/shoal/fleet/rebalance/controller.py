"""Rebalances Workers, or suggests how: `decide` finds the moves, `migration` carries them out, a few at a time.

It runs every few seconds while the ConfigMap exists. While a Worker is lost it does nothing: the Worker may come back
with its clusters.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector, key_of
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.moving.decide import REBALANCE, is_on_its_way
from shoal.fleet.moving.departure import is_lost
from shoal.fleet.moving.moves import Moves
from shoal.fleet.rebalance.decide import Move, decide
from shoal.fleet.rebalance.fleetview import items, places, title
from shoal.fleet.rebalance.settings import AUTO, NAME, OFF, Settings, settings
from shoal.fleet.resources import CONFIG_MAPS, WORKERS
from shoal.kinds import fleet
from shoal.objects.conditions import remove_condition, set_condition
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

EVERY_SECONDS = 10.0
SHARE = 50
"""It pauses this many times as long as a run took: a large fleet is evaluated less often."""
BALANCED = "Balanced"
SHOWN = 10


class Rebalancer:
    """Has one key."""

    def __init__(self, client: Client, clock: Clock, moves: Moves) -> None:
        self._client, self._clock, self._moves = client, clock, moves
        self._settings = Settings()
        moves.wants[REBALANCE] = self._wants
        self.loop: Loop[str] = Loop("fleet-rebalance", clock, self.reconcile, workers=1)
        self._workers = Reflector(client, WORKERS, clock, lambda key, obj: None, shared=True)
        fields = f"metadata.namespace={fleet.NAMESPACE},metadata.name={NAME}"
        self._config = Reflector(client, CONFIG_MAPS, clock, self._configured, fields=fields, listed=self._look)
        self.loop.sources += [self._workers.run, self._config.run]

    def _wants(self, managed: Object) -> bool:
        if not self._config.synced:
            raise Later("whether Workers are evened out is not known yet")
        return self._settings.mode == AUTO

    def _look(self) -> None:
        self.loop.queue.add(NAME)

    def _configured(self, key: Key, obj: Object | None) -> None:
        self._settings = settings(obj)
        for worker in self._workers.objects:
            self._moves.look_again(worker[2])
        self._look()

    async def reconcile(self, key: str) -> float | None:
        if not (self._moves.informed and self._workers.synced and self._config.synced):
            raise Later("not everything has been listed yet")
        began, wanted = self._clock.monotonic(), self._settings
        off = wanted.mode == OFF and not wanted.wrong
        planned = [] if off or wanted.wrong else self._plan(wanted)
        if wanted.mode == AUTO:
            await self._start(planned, wanted.at_once)
        await self._say(planned, wanted, off)
        return None if off else max(EVERY_SECONDS, SHARE * (self._clock.monotonic() - began))

    def _plan(self, wanted: Settings) -> list[Move]:
        if any(is_lost(worker) for worker in self._workers.objects.values()):
            return []
        there = [each for each in self._moves.berths.workers() if self._moves.able(each[0].name)]
        managed = self._moves.all_hosted()
        found = items(there, managed, wanted.rest, self._clock.now())
        return decide(places(there, managed), found, wanted.threshold)

    async def _start(self, planned: list[Move], at_once: int) -> None:
        managed = {title(each): each for each in self._moves.all_hosted()}
        free = at_once - sum(_is_under_way(each) for each in managed.values())
        for move in planned:
            obj = managed[move.name]
            if free > 0 and not self._moves.rest(key_of(obj)) and self._moves.berths.has_room(key_of(obj), move.end):
                await self._moves.plan(obj, move.end, REBALANCE)
                free -= 1

    async def _say(self, planned: list[Move], wanted: Settings, off: bool) -> None:
        for (_, namespace, name), worker in list(self._workers.objects.items()):
            if namespace != fleet.NAMESPACE:
                continue
            mine = [move for move in planned if move.start == name]
            told = self._told(worker, mine, wanted, off)
            if told is not worker:
                try:
                    await self._client.update(WORKERS, told, "status")
                except (Conflict, NotFound):
                    self.loop.queue.add_after(NAME, 1.0)

    def _told(self, worker: Object, mine: list[Move], wanted: Settings, off: bool) -> Object:
        if wanted.wrong:
            said = "Unknown", "InvalidSettings", wanted.wrong
        elif mine:
            ways = ", ".join(f"{move.name} to {move.end}" for move in mine[:SHOWN])
            more = f" and {len(mine) - SHOWN} more" if len(mine) > SHOWN else ""
            auto = wanted.mode == AUTO
            said = "False", "Moving" if auto else "Suggested", f"{'to move' if auto else 'would move'}: {ways}{more}"
        elif off:
            return remove_condition(worker, BALANCED)
        else:
            said = "True", "Balanced", "nothing is to be moved from it"
        status, reason, message = said
        generation, now = worker["metadata"].get("generation"), rfc3339(self._clock.now())
        return set_condition(
            worker, BALANCED, status, reason=reason, message=message, observed_generation=generation, now=now
        )


def _is_under_way(managed: Object) -> bool:
    status = fleet.status_of(managed)
    if (status.get("move") or {}).get("reason") == REBALANCE:
        return True
    return is_on_its_way(managed) and status["lastMove"]["reason"] == REBALANCE and not fleet.is_deleting(managed)
