"""Disruption controllers: empty nodes at once, drifted and underutilized nodes after an evaluation of the whole
cluster.

Keys are logical clusters. Evaluations that need a simulation run in the solver process. A consolidation is validated
after a delay before it is executed. A consolidated cluster is not evaluated again until it changes.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shoal.clock import Clock
from shoal.objects.errors import NotFound
from shoal.provision.disruption.budgets import allowed_disruptions, budgets_by_reason
from shoal.provision.disruption.candidates import candidates, cluster_cost, reschedulable_pods, within_budget
from shoal.provision.disruption.emptiness import decide_emptiness
from shoal.provision.disruption.events import DisruptionRecorder
from shoal.provision.disruption.model import (
    DRIFTED,
    Command,
    DisruptionDecision,
    DisruptionSettings,
    DisruptionSnapshot,
    StateNode,
)
from shoal.provision.disruption.queue import CommandExecutor, CommandFailed, InFlightCommand
from shoal.provision.disruption.savings_check import SavingsTracker
from shoal.provision.disruption.snapshot import SnapshotBuilder
from shoal.provision.disruption.worker_entry import evaluate, validate_pending
from shoal.provision.evictability import eviction_cost, is_active, is_reschedulable
from shoal.provision.pods import do_not_disrupt_until
from shoal.provision.solver.process import SolverFailed, SolverProcess
from shoal.provision.state import ClusterState
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer_store import by_cluster

log = logging.getLogger("shoal.provision")

Object = dict[str, Any]
T = TypeVar("T")

EMPTINESS_DELAY_SECONDS = 0.05
"""Delay after a change before empty nodes are searched for."""
QUIET_PERIOD_SECONDS = 1.0
"""Time without a change before the whole cluster is evaluated."""
EVALUATION_SECONDS = 10.0
"""Interval between evaluations, and the maximum delay of an evaluation after a change."""
RETRY_SECONDS = 1.0
"""Requeue interval while pods wait for a plan or a budget is exhausted."""
RESYNC_SECONDS = 300.0
"""Resync interval of a consolidated cluster: time alone may have changed something."""
MAX_SETTLING_SECONDS = 60.0
"""Maximum time that the savings check waits for pods to be bound."""
SIMULATION_TIMEOUT_SECONDS = 40.0


@dataclass(slots=True)
class _ClusterProgress:
    """Bookkeeping of one cluster."""

    last_change: float
    """Time of the last change."""
    first_change: float
    """Time of the first change since the last evaluation."""
    consolidated_at: float = -1e18
    """Start of the last evaluation that found nothing to do."""
    evaluated_at: float = -1e18
    release_at: float = math.inf
    """When the next timed do-not-disrupt of a pod ends, which causes no event."""
    limiting_budgets: dict[str, dict[str, int]] | None = None
    """Allowed disruptions when a budget limited the last evaluation. A different value triggers a new one."""
    in_flight: list[InFlightCommand] = field(default_factory=list)
    pending: Command | None = None
    validate_at: float = 0.0
    """When the pending command is validated."""
    not_before: float = 0.0
    savings: SavingsTracker = field(default_factory=SavingsTracker)
    judge_by: float = float("inf")
    """Latest time of the savings check."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Commands are started and advanced by one controller at a time, because each counts for the budgets of the
    next.
    """


class DisruptionReconciler:
    def __init__(
        self,
        state: ClusterState,
        snapshots: SnapshotBuilder,
        executor: CommandExecutor,
        recorder: DisruptionRecorder,
        solver: SolverProcess,
        clock: Clock,
        settings: Callable[[str], DisruptionSettings] = lambda _: DisruptionSettings(),
    ) -> None:
        self._state, self._snapshots, self._executor, self._recorder = state, snapshots, executor, recorder
        self._solver, self._clock, self._settings = solver, clock, settings
        self._progress: dict[str, _ClusterProgress] = {}
        self.controller: Controller[str] = Controller("disruption", clock, self.reconcile)
        self.evaluation_controller: Controller[str] = Controller("disruption-looks", clock, self.evaluate)

    def on_change(self, cluster: str) -> None:
        """Handles a change that may allow a disruption."""
        now = self._clock.monotonic()
        progress = self._progress.setdefault(cluster, _ClusterProgress(now, now))
        progress.last_change, progress.first_change = now, min(progress.first_change, now)
        self.controller.queue.add_after(cluster, EMPTINESS_DELAY_SECONDS)
        self.evaluation_controller.queue.add_after(cluster, QUIET_PERIOD_SECONDS)

    async def reconcile(self, cluster: str) -> float | None:
        if not self._state.has_synced:
            raise RequeueError("informers have not synced yet")
        now = self._clock.monotonic()
        progress = self._progress.setdefault(cluster, _ClusterProgress(now, now))
        if not self._state.node_pools.by_index(by_cluster, cluster) and not progress.in_flight:
            self._progress.pop(cluster, None)
            return None
        async with progress.lock:
            await self._advance_commands(progress)
            await self._executor.clean_stale_marks(cluster, _disrupting_claims(progress))
            requeue_after = await self._disrupt_empty(cluster, progress)
        return EVALUATION_SECONDS if requeue_after is None and progress.in_flight else requeue_after

    async def _advance_commands(self, progress: _ClusterProgress) -> None:
        for in_flight in list(progress.in_flight):
            try:
                if not await self._executor.advance(in_flight):
                    continue
            except CommandFailed as error:
                await self._executor.roll_back(in_flight, str(error))
                self._recorder.record_failure(in_flight.cluster, in_flight.command)
                self._back_off(progress)
            progress.in_flight.remove(in_flight)

    def _back_off(self, progress: _ClusterProgress) -> None:
        progress.not_before = self._clock.monotonic() + progress.savings.record_failure()

    async def _disrupt_empty(self, cluster: str, progress: _ClusterProgress) -> float | None:
        nodes = self._state_nodes(cluster, progress)
        if all(each.disrupting or _is_occupied(each) for each in nodes):
            return None
        if self._snapshots.has_unplanned_pods(cluster):
            return RETRY_SECONDS
        snapshot = self._snapshots.light_snapshot(cluster, nodes, self._clock.now())
        decision = decide_emptiness(snapshot)
        if decision.command is not None:
            await self._start(cluster, progress, decision.command)
        return EVALUATION_SECONDS if decision.budget_limited else None

    async def evaluate(self, cluster: str) -> float | None:
        """Evaluates the cluster if it is due; returns the requeue interval."""
        if not self._state.has_synced:
            raise RequeueError("informers have not synced yet")
        progress, now = self._progress.get(cluster), self._clock.monotonic()
        if progress is None or not self._state.node_pools.by_index(by_cluster, cluster):
            return None
        if progress.pending is not None:
            if now < progress.validate_at - 0.001:
                return progress.validate_at - now
            return await self._validate_pending(cluster, progress, progress.pending)
        if now >= progress.release_at:
            progress.release_at = math.inf
            self.on_change(cluster)
        settled_at = min(progress.last_change + QUIET_PERIOD_SECONDS, progress.first_change + EVALUATION_SECONDS)
        wait = max(settled_at, progress.evaluated_at + EVALUATION_SECONDS, progress.not_before) - now
        if progress.consolidated_at > progress.last_change:
            wait = max(wait, min(progress.consolidated_at + RESYNC_SECONDS, progress.release_at) - now)
        if (
            wait > 0.001
            and progress.limiting_budgets is not None
            and now >= max(progress.evaluated_at + EVALUATION_SECONDS, progress.not_before)
        ):
            wait = (
                0.0 if self._budgets(cluster, progress) != progress.limiting_budgets else min(wait, EVALUATION_SECONDS)
            )
        if wait > 0.001:
            return wait
        if self._snapshots.has_unplanned_pods(cluster) or self._is_settling(cluster, progress):
            return RETRY_SECONDS
        return await self._evaluate_now(cluster, progress)

    async def _evaluate_now(self, cluster: str, progress: _ClusterProgress) -> float | None:
        start = self._clock.monotonic()
        snapshot = self._full_snapshot(cluster, progress)
        progress.evaluated_at, progress.first_change = start, float("inf")
        if self._has_failed_to_save(cluster, progress, snapshot):
            self._back_off(progress)
            return RETRY_SECONDS
        has_candidates, notes = self._recorder.record_eligible(cluster, snapshot)
        decision, settings = DisruptionDecision(notes=notes), self._settings(cluster)
        if has_candidates:
            decision = await self._run_in_worker(evaluate, snapshot, settings) or decision
            self._recorder.record_evaluation(cluster, decision, self._clock.monotonic() - start)
        self._recorder.record_notes(cluster, snapshot, decision.notes)
        progress.limiting_budgets = budgets_by_reason(snapshot) if decision.budget_limited else None
        if decision.command is None:
            progress.consolidated_at, release = start, _seconds_until_release(snapshot)
            progress.release_at = start + release
            return EVALUATION_SECONDS if decision.budget_limited else min(RESYNC_SECONDS, release)
        if decision.command.reason == DRIFTED or settings.validation_seconds <= 0:
            progress.evaluated_at = -1e18  # more nodes may have drifted
            async with progress.lock:
                await self._start(cluster, progress, decision.command)
            return RETRY_SECONDS
        self._recorder.record_candidate(cluster, decision.command)
        progress.pending, progress.validate_at = decision.command, start + settings.validation_seconds
        return settings.validation_seconds

    def _is_settling(self, cluster: str, progress: _ClusterProgress) -> bool:
        """True while the savings check waits for pods to be bound and new nodes to be initialized. A further command
        need not wait as long as no unexpected NodeClaims were created.
        """
        if not self._can_check_savings(cluster, progress):
            return False
        now = self._clock.monotonic()
        progress.judge_by = min(progress.judge_by, now + MAX_SETTLING_SECONDS)
        return now < progress.judge_by and not self._snapshots.is_settled(cluster)

    def _can_check_savings(self, cluster: str, progress: _ClusterProgress) -> bool:
        if progress.savings.pending is None:
            return False
        return not progress.in_flight or progress.savings.has_unexpected_claims(self._claim_names(cluster))

    def _has_failed_to_save(self, cluster: str, progress: _ClusterProgress, snapshot: DisruptionSnapshot) -> bool:
        """The scheduler may need more nodes than planned. Then the consolidation is not retried at once."""
        if not self._can_check_savings(cluster, progress):
            return False
        progress.judge_by = float("inf")
        return progress.savings.check_failed(cluster_cost(snapshot), reschedulable_pods(snapshot))

    def _claim_names(self, cluster: str) -> list[str]:
        return [claim["metadata"]["name"] for claim in self._state.node_claims.by_index(by_cluster, cluster)]

    async def _validate_pending(self, cluster: str, progress: _ClusterProgress, command: Command) -> float | None:
        progress.pending = None
        if self._snapshots.has_unplanned_pods(cluster) or self._is_settling(cluster, progress):
            validated, rejection = None, "churn"
        else:
            snapshot = self._full_snapshot(cluster, progress)
            validated, rejection = await self._run_in_worker(
                validate_pending, snapshot, command, self._settings(cluster)
            ) or (
                None,
                "scheduling",
            )
        if validated is None:
            self._recorder.record_rejection(cluster, command, rejection)
            return RETRY_SECONDS
        progress.evaluated_at = -1e18
        claim_names = self._claim_names(cluster)
        async with progress.lock:
            if await self._start(cluster, progress, validated):
                progress.savings.start(
                    cluster_cost(snapshot), reschedulable_pods(snapshot), validated.savings, claim_names
                )
                progress.savings.expect_claims(claim.name for claim in validated.replacements)
        return RETRY_SECONDS

    def _is_still_valid(self, cluster: str, progress: _ClusterProgress, command: Command) -> bool:
        """The cluster may have changed while the solver process worked."""
        snapshot = self._snapshots.light_snapshot(cluster, self._state_nodes(cluster, progress), self._clock.now())
        names = {each.name for each in command.candidates}
        current = candidates(snapshot, eventual=command.reason == DRIFTED)[0]
        kept, _ = within_budget(
            (each for each in current if each.name in names), allowed_disruptions(snapshot, command.reason)
        )
        return len(kept) == len(names)

    async def _start(self, cluster: str, progress: _ClusterProgress, command: Command) -> bool:
        """Returns True if the command is in flight."""
        if not self._is_still_valid(cluster, progress, command):
            return False
        try:
            in_flight = await self._executor.start(cluster, command)
            if in_flight is None:
                return False
            self._recorder.record_decision(cluster, in_flight.command)
            progress.savings.expect_claims(in_flight.replacement_claims())
            progress.in_flight.append(in_flight)
            await self._advance_commands(progress)
        except CommandFailed as error:
            log.info("disruption command in cluster %s failed: %s", cluster, error)
            progress.not_before = self._clock.monotonic() + EVALUATION_SECONDS
            return False
        except NotFound:
            return False  # the cluster was deleted
        return True

    async def _run_in_worker(self, function: Callable[..., T], *args: Any) -> T | None:
        """Returns None if the solver process failed."""
        try:
            return await self._solver.call(function, *args, seconds=SIMULATION_TIMEOUT_SECONDS)
        except SolverFailed as error:
            log.warning("disruption simulation failed: %s", error)
            return None

    def _budgets(self, cluster: str, progress: _ClusterProgress) -> dict[str, dict[str, int]]:
        return budgets_by_reason(
            self._snapshots.light_snapshot(cluster, self._state_nodes(cluster, progress), self._clock.now())
        )

    def _state_nodes(self, cluster: str, progress: _ClusterProgress) -> list[StateNode]:
        awaited = {name for in_flight in progress.in_flight for name in in_flight.replacement_claims()}
        return self._snapshots.state_nodes(cluster, _disrupting_claims(progress), awaited, self._clock.now())

    def _full_snapshot(self, cluster: str, progress: _ClusterProgress) -> DisruptionSnapshot:
        return self._snapshots.full_snapshot(cluster, self._state_nodes(cluster, progress), self._clock.now())


def _disrupting_claims(progress: _ClusterProgress) -> set[str]:
    return {name for in_flight in progress.in_flight for name in in_flight.candidate_claims()}


def _seconds_until_release(snapshot: DisruptionSnapshot) -> float:
    """Until the first end of a do-not-disrupt annotation with a duration; infinite if there is none."""
    ends = (do_not_disrupt_until(pod) for state_node in snapshot.nodes for pod in state_node.pods if is_active(pod))
    return min((end - snapshot.now for end in ends if end > snapshot.now), default=math.inf)


def _is_occupied(state_node: StateNode) -> bool:
    return any(is_reschedulable(pod) and eviction_cost(pod) > 0 for pod in state_node.pods)
