"""Disruption controllers: empty nodes at once, drifted and underutilized nodes after an evaluation of the whole
cluster.

Keys are logical clusters. Evaluations that need a simulation run in the solver process. A consolidation is validated
after a delay before it is executed. A consolidated cluster is not evaluated again until it changes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from shoal.clock import Clock
from shoal.objects.errors import NotFound
from shoal.provision.disruption.budgets import allowed, budgets
from shoal.provision.disruption.candidates import candidates, cost_of, movable, within_budget
from shoal.provision.disruption.changes import Changes
from shoal.provision.disruption.emptiness import empty
from shoal.provision.disruption.evicting import cost, is_reschedulable
from shoal.provision.disruption.execution import Execution, Failed, Running
from shoal.provision.disruption.hopes import Hopes
from shoal.provision.disruption.model import DRIFTED, Command, Decision, Settings, Snapshot, Standing
from shoal.provision.disruption.seeing import Sight
from shoal.provision.disruption.telling import Telling
from shoal.provision.solver.pool import PoolFailed, SolverPool
from shoal.provision.view import View
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.provision")

Object = dict[str, Any]

IDLE_SECONDS = 0.05
"""Delay after a change before empty nodes are searched for."""
QUIET_SECONDS = 1.0
"""Time without a change before the whole cluster is evaluated."""
LOOK_SECONDS = 10.0
"""Interval between evaluations, and the maximum delay of an evaluation after a change."""
VALIDATION_SECONDS = 15.0
"""Delay between a consolidation decision and its validation."""
SOON_SECONDS = 1.0
"""Requeue interval while pods wait for a plan or a budget is exhausted."""
STALE_SECONDS = 300.0
"""Resync interval of a consolidated cluster: time alone may have changed something."""
SETTLING_SECONDS = 60.0
"""Maximum time that the savings check waits for pods to be bound."""
SIMULATION_SECONDS = 40.0
LOOKING = "shoal.provision.disruption.looking"
"""Module that runs in the solver process. It is not imported here, because of its dependencies."""


@dataclass(slots=True)
class _State:
    """Bookkeeping of one cluster."""

    changed: float
    """Time of the last change."""
    first: float
    """Time of the first change since the last evaluation."""
    seen: float = -1e18
    """Start of the last evaluation that found nothing to do."""
    looked: float = -1e18
    budgets: dict[str, dict[str, int]] | None = None
    """Allowed disruptions when a budget limited the last evaluation. A different value triggers a new one."""
    running: list[Running] = field(default_factory=list)
    pending: Command | None = None
    due: float = 0.0
    """When the pending command is validated."""
    not_before: float = 0.0
    hopes: Hopes = field(default_factory=Hopes)
    settled: float = float("inf")
    """Latest time of the savings check."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Commands are started and advanced by one controller at a time, because each counts for the budgets of the
    next.
    """


class Disruption:
    def __init__(
        self,
        view: View,
        sight: Sight,
        changes: Changes,
        execution: Execution,
        telling: Telling,
        pool: SolverPool,
        clock: Clock,
        settings: Settings | None = None,
        validation: float = VALIDATION_SECONDS,
    ) -> None:
        self._view, self._sight, self._execution, self._telling = view, sight, execution, telling
        self._pool, self._clock, self._validation = pool, clock, validation
        self._settings = settings or Settings()
        self._states: dict[str, _State] = {}
        self.loop: Loop[str] = Loop("disruption", clock, self.reconcile)
        self.looks: Loop[str] = Loop("disruption-looks", clock, self.look)
        changes.tell(self._changed)

    def _changed(self, cluster: str) -> None:
        now = self._clock.monotonic()
        state = self._states.setdefault(cluster, _State(now, now))
        state.changed, state.first = now, min(state.first, now)
        self.loop.queue.add_after(cluster, IDLE_SECONDS)
        self.looks.queue.add_after(cluster, QUIET_SECONDS)

    async def reconcile(self, cluster: str) -> float | None:
        if not self._view.synced:
            raise Later("not everything has been listed yet")
        now = self._clock.monotonic()
        state = self._states.setdefault(cluster, _State(now, now))
        if not self._view.pools.of(cluster) and not state.running:
            self._states.pop(cluster, None)
            return None
        async with state.turn:
            await self._advance(state)
            await self._execution.clean(cluster, _busy(state))
            later = await self._empty(cluster, state)
        return LOOK_SECONDS if later is None and state.running else later

    async def _advance(self, state: _State) -> None:
        for running in list(state.running):
            try:
                if not await self._execution.advance(running):
                    continue
            except Failed as error:
                await self._execution.roll_back(running, str(error))
                self._telling.failed(running.cluster, running.command)
                self._pause(state)
            state.running.remove(running)

    def _pause(self, state: _State) -> None:
        state.not_before = self._clock.monotonic() + state.hopes.failed()

    async def _empty(self, cluster: str, state: _State) -> float | None:
        standing = self._standing(cluster, state)
        if all(each.busy or _is_occupied(each) for each in standing):
            return None
        if self._sight.undecided(cluster):
            return SOON_SECONDS
        snapshot = self._sight.light(cluster, standing, self._clock.now())
        found = empty(snapshot)
        if found.command is not None:
            await self._start(cluster, state, found.command)
        return LOOK_SECONDS if found.limited else None

    async def look(self, cluster: str) -> float | None:
        """Evaluates the cluster if it is due; returns the requeue interval."""
        if not self._view.synced:
            raise Later("not everything has been listed yet")
        state, now = self._states.get(cluster), self._clock.monotonic()
        if state is None or not self._view.pools.of(cluster):
            return None
        if state.pending is not None:
            if now < state.due - 0.001:
                return state.due - now
            return await self._second_look(cluster, state, state.pending)
        quiet = min(state.changed + QUIET_SECONDS, state.first + LOOK_SECONDS)
        wait = max(quiet, state.looked + LOOK_SECONDS, state.not_before) - now
        if state.seen > state.changed:
            wait = max(wait, state.seen + STALE_SECONDS - now)
        if wait > 0.001 and state.budgets is not None and now >= max(state.looked + LOOK_SECONDS, state.not_before):
            wait = 0.0 if self._budgets(cluster, state) != state.budgets else min(wait, LOOK_SECONDS)
        if wait > 0.001:
            return wait
        if self._sight.undecided(cluster) or self._is_settling(cluster, state):
            return SOON_SECONDS
        return await self._look(cluster, state)

    async def _look(self, cluster: str, state: _State) -> float | None:
        began = self._clock.monotonic()
        snapshot = self._whole(cluster, state)
        state.looked, state.first = began, float("inf")
        if self._was_in_vain(cluster, state, snapshot):
            self._pause(state)
            return SOON_SECONDS
        any_, notes = self._telling.eligible(cluster, snapshot)
        found = Decision(notes=notes)
        if any_:
            found = await self._simulated("look", snapshot, self._settings) or found
            self._telling.evaluated(cluster, found, self._clock.monotonic() - began)
        self._telling.notes(cluster, snapshot, found.notes)
        state.budgets = budgets(snapshot) if found.limited else None
        if found.command is None:
            state.seen = began
            return LOOK_SECONDS if found.limited else STALE_SECONDS
        if found.command.reason == DRIFTED or self._validation <= 0:
            state.looked = -1e18  # more nodes may have drifted
            async with state.turn:
                await self._start(cluster, state, found.command)
            return SOON_SECONDS
        self._telling.considered(cluster, found.command)
        state.pending, state.due = found.command, began + self._validation
        return self._validation

    def _is_settling(self, cluster: str, state: _State) -> bool:
        """True while the savings check waits for pods to be bound and new nodes to be initialized. A further command
        need not wait as long as no unexpected NodeClaims were created.
        """
        if not self._may_be_judged(cluster, state):
            return False
        now = self._clock.monotonic()
        state.settled = min(state.settled, now + SETTLING_SECONDS)
        return now < state.settled and not self._sight.settled(cluster)

    def _may_be_judged(self, cluster: str, state: _State) -> bool:
        if state.hopes.open is None:
            return False
        return not state.running or state.hopes.are_disturbed(self._claims(cluster))

    def _was_in_vain(self, cluster: str, state: _State, snapshot: Snapshot) -> bool:
        """The scheduler may need more nodes than planned. Then the consolidation is not retried at once."""
        if not self._may_be_judged(cluster, state):
            return False
        state.settled = float("inf")
        return state.hopes.judge(cost_of(snapshot), movable(snapshot))

    def _claims(self, cluster: str) -> list[str]:
        return [claim["metadata"]["name"] for claim in self._view.claims.of(cluster)]

    async def _second_look(self, cluster: str, state: _State, command: Command) -> float | None:
        state.pending = None
        if self._sight.undecided(cluster) or self._is_settling(cluster, state):
            found, why = None, "churn"
        else:
            snapshot = self._whole(cluster, state)
            found, why = await self._simulated("validated", snapshot, command, self._settings) or (None, "scheduling")
        if found is None:
            self._telling.rejected(cluster, command, why)
            return SOON_SECONDS
        state.looked = -1e18
        there = self._claims(cluster)
        async with state.turn:
            if await self._start(cluster, state, found):
                state.hopes.begun(cost_of(snapshot), movable(snapshot), found.savings, there)
                state.hopes.expect(claim.name for claim in found.replacements)
        return SOON_SECONDS

    def _still_holds(self, cluster: str, state: _State, command: Command) -> bool:
        """The cluster may have changed while the solver process worked."""
        snapshot = self._sight.light(cluster, self._standing(cluster, state), self._clock.now())
        names = {each.name for each in command.candidates}
        found = candidates(snapshot, eventual=command.reason == DRIFTED)[0]
        kept, _ = within_budget((each for each in found if each.name in names), allowed(snapshot, command.reason))
        return len(kept) == len(names)

    async def _start(self, cluster: str, state: _State, command: Command) -> bool:
        """Returns True if the command is in flight."""
        if not self._still_holds(cluster, state, command):
            return False
        try:
            running = await self._execution.start(cluster, command)
            if running is None:
                return False
            self._telling.decided(cluster, running.command)
            state.hopes.expect(running.replacements())
            state.running.append(running)
            await self._advance(state)
        except Failed as error:
            log.info("disruption: %s: %s", cluster, error)
            state.not_before = self._clock.monotonic() + LOOK_SECONDS
            return False
        except NotFound:
            return False  # the cluster was deleted
        return True

    async def _simulated(self, function: str, *args: Any) -> Any:
        """Returns None if the solver process failed."""
        try:
            return await self._pool.call(f"{LOOKING}:{function}", *args, seconds=SIMULATION_SECONDS)
        except PoolFailed as error:
            log.warning("disruption: %s", error)
            return None

    def _budgets(self, cluster: str, state: _State) -> dict[str, dict[str, int]]:
        return budgets(self._sight.light(cluster, self._standing(cluster, state), self._clock.now()))

    def _standing(self, cluster: str, state: _State) -> list[Standing]:
        awaited = {name for running in state.running for name in running.replacements()}
        return self._sight.standing(cluster, _busy(state), awaited, self._clock.now())

    def _whole(self, cluster: str, state: _State) -> Snapshot:
        return self._sight.whole(cluster, self._standing(cluster, state), self._clock.now())


def _busy(state: _State) -> set[str]:
    return {name for running in state.running for name in running.claims()}


def _is_occupied(standing: Standing) -> bool:
    return any(is_reschedulable(pod) and cost(pod) > 0 for pod in standing.pods)
