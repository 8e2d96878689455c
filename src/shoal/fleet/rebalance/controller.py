"""Rebalances Workers, or suggests how: `decide` finds the moves, `migration` carries them out, a few at a time.

It runs every few seconds while the ConfigMap exists. While a Worker is lost it does nothing: the Worker may come back
with its clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.migration.controller import MigrationReconciler
from shoal.fleet.migration.decide import REBALANCE, is_migrating
from shoal.fleet.migration.eviction import is_lost
from shoal.fleet.rebalance.decide import ClusterMove, decide
from shoal.fleet.rebalance.inputs import movable_clusters, namespaced_name, worker_loads
from shoal.fleet.resources import CONFIG_MAPS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.objects.conditions import remove_condition, set_condition
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

CONFIG_MAP = "rebalance"
OFF, SUGGEST, AUTO = "off", "suggest", "auto"


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    mode: str = OFF
    max_moves: int = 1
    """The most rebalanced clusters that are not ready yet."""
    threshold: Fraction = Fraction(1, 5)
    """The largest allowed difference between the used shares of two Workers."""
    cooldown: float = 600.0
    """Seconds after a move in which a cluster is not moved again."""
    settings_error: str = ""


def parse_rebalance_settings(config: Object | None) -> RebalanceSettings:
    if config is None:
        return RebalanceSettings()
    data = {"mode": SUGGEST, "maxMoves": "1", "threshold": "0.2", "rest": "600"} | dict(config.get("data") or {})
    unknown = sorted(data.keys() - {"mode", "maxMoves", "threshold", "rest"})
    if unknown:
        return _invalid(f"unknown key {unknown[0]}; known keys: mode, maxMoves, threshold, rest")
    if data["mode"] not in (SUGGEST, AUTO):
        return _invalid(f"mode is neither {SUGGEST} nor {AUTO}: {data['mode']!r}")
    numbers = {}
    for key, maximum in (("maxMoves", 1000), ("threshold", 1), ("rest", 10**9)):
        try:
            numbers[key] = Fraction(data[key])
        except (ValueError, ZeroDivisionError):
            numbers[key] = Fraction(-1)
        if not 0 <= numbers[key] <= maximum:
            return _invalid(f"{key} is not a number from 0 to {maximum}: {data[key]!r}")
    return RebalanceSettings(data["mode"], int(numbers["maxMoves"]), numbers["threshold"], float(numbers["rest"]))


def _invalid(message: str) -> RebalanceSettings:
    return RebalanceSettings(settings_error=f"ConfigMap {infrav1.NAMESPACE}/{CONFIG_MAP}: {message}")


Object = dict[str, Any]

INTERVAL_SECONDS = 10.0
IDLE_FACTOR = 50
"""It pauses this many times as long as a run took: a large fleet is evaluated less often."""
BALANCED = "Balanced"
MAX_NAMED = 10


class Rebalancer:
    """Has one key."""

    def __init__(self, client: Client, clock: Clock, migrations: MigrationReconciler) -> None:
        self._client, self._clock, self._migrations = client, clock, migrations
        self._settings = RebalanceSettings()
        migrations.still_wanted[REBALANCE] = self._is_wanted
        self.controller: Controller[str] = Controller("fleet-rebalance", clock, self.reconcile, workers=1)
        self._workers = Informer(client, WORKERS, clock)
        fields = f"metadata.namespace={infrav1.NAMESPACE},metadata.name={CONFIG_MAP}"
        self._config = Informer(client, CONFIG_MAPS, clock, fields=fields)
        self._config.on_sync(self._enqueue)
        self.controller.sources.append(self._workers.run)
        self.controller.watch(self._config, self._on_settings)

    def _is_wanted(self, managed: Object) -> bool:
        if not self._config.has_synced:
            raise RequeueError("informer of rebalance settings has not synced yet")
        return self._settings.mode == AUTO

    def _enqueue(self) -> None:
        self.controller.queue.add(CONFIG_MAP)

    def _on_settings(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._settings = parse_rebalance_settings(new)
        for worker in self._workers.objects:
            self._migrations.enqueue_worker(worker[2])
        self._enqueue()

    async def reconcile(self, key: str) -> float | None:
        if not (self._migrations.has_synced and self._workers.has_synced and self._config.has_synced):
            raise RequeueError("informers have not synced yet")
        started, settings_now = self._clock.monotonic(), self._settings
        off = settings_now.mode == OFF and not settings_now.settings_error
        moves = [] if off or settings_now.settings_error else self._plan(settings_now)
        if settings_now.mode == AUTO:
            await self._start(moves, settings_now.max_moves)
        await self._report(moves, settings_now, off)
        return None if off else max(INTERVAL_SECONDS, IDLE_FACTOR * (self._clock.monotonic() - started))

    def _plan(self, current: RebalanceSettings) -> list[ClusterMove]:
        if any(is_lost(worker) for worker in self._workers.objects.values()):
            return []
        can_restore = self._migrations.can_restore
        candidates = [
            each for each in self._migrations.reservations.candidates() if can_restore(each[0].name, each[0].name)
        ]
        managed = self._migrations.all_clusters()
        movable = movable_clusters(candidates, managed, current.cooldown, self._clock.now())
        return decide(worker_loads(candidates, managed), movable, current.threshold)

    async def _start(self, moves: list[ClusterMove], max_moves: int) -> None:
        managed = {namespaced_name(each): each for each in self._migrations.all_clusters()}
        available = max_moves - sum(_is_rebalancing(each) for each in managed.values())
        for move in moves:
            obj = managed[move.name]
            if (
                available > 0
                and not self._migrations.backoff_remaining(key_of(obj))
                and self._migrations.can_restore(move.start, move.end)
                and self._migrations.reservations.has_room(key_of(obj), move.end)
            ):
                await self._migrations.plan(obj, move.end, REBALANCE)
                available -= 1

    async def _report(self, moves: list[ClusterMove], current: RebalanceSettings, off: bool) -> None:
        for (_, namespace, name), worker in list(self._workers.objects.items()):
            if namespace != infrav1.NAMESPACE:
                continue
            from_worker = [move for move in moves if move.start == name]
            updated = self._with_balanced_condition(worker, from_worker, current, off)
            if updated is not worker:
                try:
                    await self._client.update(WORKERS, updated, "status")
                except (Conflict, NotFound):
                    self.controller.queue.add_after(CONFIG_MAP, 1.0)

    def _with_balanced_condition(
        self, worker: Object, moves: list[ClusterMove], current: RebalanceSettings, off: bool
    ) -> Object:
        if current.settings_error:
            condition = "Unknown", "InvalidSettings", current.settings_error
        elif moves:
            listed = ", ".join(f"{move.name} to {move.end}" for move in moves[:MAX_NAMED])
            more = f" and {len(moves) - MAX_NAMED} more" if len(moves) > MAX_NAMED else ""
            auto = current.mode == AUTO
            condition = (
                "False",
                "Moving" if auto else "Suggested",
                f"{'to move' if auto else 'would move'}: {listed}{more}",
            )
        elif off:
            return remove_condition(worker, BALANCED)
        else:
            condition = "True", "Balanced", "no ManagedCluster to move"
        status, reason, message = condition
        generation, now = worker["metadata"].get("generation"), rfc3339(self._clock.now())
        return set_condition(
            worker, BALANCED, status, reason=reason, message=message, observed_generation=generation, now=now
        )


def _is_rebalancing(managed: Object) -> bool:
    status = infrav1.status_of(managed)
    if (status.get("move") or {}).get("reason") == REBALANCE:
        return True
    return is_migrating(managed) and status["lastMove"]["reason"] == REBALANCE and not infrav1.is_deleting(managed)
