"""The loops that let nodes go: what is empty at once, what drifted or costs too much after a look at the whole cluster.

Keys are logical clusters. A look that takes a simulation runs in another process, and nothing waits for it. What would
be cheaper is looked at twice, some time apart, before it is done. A cluster that was found in order is not looked at
again until it changes.
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
"""After a change, until what is empty is looked for."""
QUIET_SECONDS = 1.0
"""So long nothing should have changed before the whole cluster is looked at."""
LOOK_SECONDS = 10.0
"""Between two looks at the whole cluster; and so long at most a change waits for one."""
VALIDATION_SECONDS = 15.0
"""Between a decision to consolidate and the second look at it."""
SOON_SECONDS = 1.0
"""While pods wait for a decision, or a budget is spent."""
STALE_SECONDS = 300.0
"""After that a cluster in order is looked at again: time alone may have changed something."""
SETTLING_SECONDS = 60.0
"""So long at most what became of a command waits for its pods to be placed."""
SIMULATION_SECONDS = 40.0
LOOKING = "shoal.provision.disruption.looking"
"""What runs in another process; it is not loaded here, with all that it needs."""


@dataclass(slots=True)
class _State:
    """Of one cluster."""

    changed: float
    """When something last did."""
    first: float
    """When something first did since the cluster was looked at."""
    seen: float = -1e18
    """When the cluster that is in order was looked at."""
    looked: float = -1e18
    budgets: dict[str, dict[str, int]] | None = None
    """What they allowed when one of them kept something from going: with others it is worth another look."""
    running: list[Running] = field(default_factory=list)
    pending: Command | None = None
    due: float = 0.0
    """When the pending command is looked at again."""
    not_before: float = 0.0
    hopes: Hopes = field(default_factory=Hopes)
    settled: float = float("inf")
    """When these are judged at the latest."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Commands are begun and carried on by one loop at a time: each counts for the budgets of the next."""


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
        """When to look at the cluster again."""
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
            state.looked = -1e18  # there may be more of it
            async with state.turn:
                await self._start(cluster, state, found.command)
            return SOON_SECONDS
        self._telling.considered(cluster, found.command)
        state.pending, state.due = found.command, began + self._validation
        return self._validation

    def _is_settling(self, cluster: str, state: _State) -> bool:
        """What commands came to is seen when all pods are somewhere, and all that was bought for them is there. As
        long as nothing had to be bought besides, another command need not wait for that."""
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
        """Pods are placed by others, who may need more nodes for them than the plan did: then it is not tried again
        at once."""
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
        """While it was worked out elsewhere, the cluster went on."""
        snapshot = self._sight.light(cluster, self._standing(cluster, state), self._clock.now())
        names = {each.name for each in command.candidates}
        found = candidates(snapshot, eventual=command.reason == DRIFTED)[0]
        kept, _ = within_budget((each for each in found if each.name in names), allowed(snapshot, command.reason))
        return len(kept) == len(names)

    async def _start(self, cluster: str, state: _State, command: Command) -> bool:
        """Whether it is under way."""
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
            return False  # the cluster is gone
        return True

    async def _simulated(self, function: str, *args: Any) -> Any:
        """None: there is no answer."""
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
