"""Explains why a ManagedCluster is on its Worker, or why it is unschedulable and which single change would let it be
hosted. Pure.

It runs the scheduler's own filters and scores. A ManagedCluster that has a Worker is evaluated as if it were to be
scheduled now, with everything else where it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from shoal.fleet.explain.suggestions import cluster_suggestions, with_nodes, worker_suggestions
from shoal.fleet.scheduler.candidate import Candidate, WorkerUsage, candidate_of
from shoal.fleet.scheduler.decide import Unschedulable, fits, select_worker
from shoal.fleet.scheduler.filters import FILTERS, filter_capacity
from shoal.fleet.scheduler.requirements import requirements_of
from shoal.fleet.scheduler.scaleup import decide_scale_up, parse_auto_worker_settings
from shoal.fleet.scheduler.scores import ScoringContext, score_worker
from shoal.fleet.scheduler.snapshot import FleetSnapshot, take_snapshot
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

CAPACITY_FILTER = "room"


@dataclass(frozen=True, slots=True)
class WorkerFit:
    """One Worker: the message of each filter (empty if it passes), and its scores if all pass."""

    worker: str
    refused: dict[str, str]
    scores: dict[str, int] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        return not any(self.refused.values())

    @property
    def total(self) -> int:
        return sum(self.scores.values())


@dataclass(frozen=True, slots=True)
class ManagedClusterExplanation:
    worker: str
    """The Worker that hosts it; empty if none does."""
    best: str
    """The Worker that would be selected now; empty if none fits."""
    reason: str
    message: str
    """Why no Worker would be selected."""
    verdicts: list[WorkerFit]
    """The best first, then those that do not fit, by name."""
    changes: list[str]
    """Each change alone would let it be hosted. Empty if it fits."""


def explain(
    managed: Object, workers: Sequence[Object], others: Sequence[Object], config: Object | None
) -> ManagedClusterExplanation:
    """`others` are all other ManagedClusters. `config` is the ConfigMap of auto-created Workers."""
    fleet_snapshot = take_snapshot(workers, others)
    context = fleet_snapshot.scoring_context(managed)
    selected = select_worker(context, fleet_snapshot.candidates_with_usage())
    worker_fits = sorted(
        (_worker_fit(context, worker, used) for worker, used in fleet_snapshot.candidates_with_usage()),
        key=lambda each: (not each.fits, -each.total, each.worker),
    )
    assigned = infrav1.assigned_worker(managed)
    if isinstance(selected, str):
        return ManagedClusterExplanation(assigned, selected, "", "", worker_fits, [])
    unschedulable = decide_scale_up(
        context.requirements, selected, fleet_snapshot.candidates.values(), parse_auto_worker_settings(config)
    ).unschedulable
    return ManagedClusterExplanation(
        assigned,
        "",
        unschedulable.reason,
        unschedulable.message,
        worker_fits,
        _helpful_suggestions(managed, workers, fleet_snapshot, config),
    )


def _worker_fit(context: ScoringContext, worker: Candidate, usage: WorkerUsage) -> WorkerFit:
    results = {name: filter_func(context.requirements, worker) for name, filter_func in FILTERS.items()}
    results[CAPACITY_FILTER] = filter_capacity(context.requirements, worker, usage)
    messages = {name: refused.singular if refused is not None else "" for name, refused in results.items()}
    is_fitting = not context.requirements.selector_error and not any(messages.values())
    return WorkerFit(worker.name, messages, score_worker(context, worker, usage) if is_fitting else {})


def _helpful_suggestions(
    managed: Object, workers: Sequence[Object], fleet_snapshot: FleetSnapshot, config: Object | None
) -> list[str]:
    joined = [worker for worker in workers if worker["metadata"]["name"] in fleet_snapshot.candidates]
    suggestions = [
        suggestion.text
        for suggestion in cluster_suggestions(managed, joined)
        if _has_fitting_worker(suggestion.result, fleet_snapshot)
    ]
    suggestions += _suggest_fewer_nodes(managed, fleet_snapshot)
    for worker in sorted(joined, key=lambda each: str(each["metadata"]["name"])):
        usage = fleet_snapshot.usage_of(worker["metadata"]["name"])
        for suggestion in worker_suggestions(managed, worker, usage):
            if fits(requirements_of(managed), candidate_of(suggestion.result), usage):
                suggestions.append(suggestion.text)
    return [*suggestions, *_suggest_auto_worker(managed, fleet_snapshot, config)]


def _has_fitting_worker(managed: Object, fleet_snapshot: FleetSnapshot) -> bool:
    requirements = requirements_of(managed)
    return any(fits(requirements, worker, usage) for worker, usage in fleet_snapshot.candidates_with_usage())


def _suggest_fewer_nodes(managed: Object, fleet_snapshot: FleetSnapshot) -> list[str]:
    """Suggests for each pool the most nodes that some Worker has capacity for: if some number fits, smaller ones do."""
    spec = infrav1.spec_of(managed)
    requested = {"": int(spec.get("nodes") or 0)}
    requested |= {each["name"]: int(each.get("nodes") or 0) for each in spec.get("nodePools") or ()}
    suggestions = []
    for pool, nodes in requested.items():
        is_refused = partial(_fits_nowhere, managed, fleet_snapshot, pool)
        max_nodes = bisect_left(range(nodes), True, key=is_refused) - 1
        if max_nodes >= 0:
            what = f"node{'s' if max_nodes != 1 else ''}{f' of pool {pool}' if pool else ''}"
            suggestions.append(f"request {max_nodes} {what} instead of {nodes}")
    return suggestions


def _fits_nowhere(managed: Object, fleet_snapshot: FleetSnapshot, pool: str, count: int) -> bool:
    return not _has_fitting_worker(with_nodes(managed, count, pool), fleet_snapshot)


def _suggest_auto_worker(managed: Object, fleet_snapshot: FleetSnapshot, config: Object | None) -> list[str]:
    """Suggests a higher limit if one more auto-created Worker would help."""
    requirements, workers, settings = (
        requirements_of(managed),
        fleet_snapshot.candidates.values(),
        parse_auto_worker_settings(config),
    )
    unschedulable = Unschedulable("", "")
    if settings.settings_error:
        return []
    auto_workers = sum(bool(each.auto_worker_hash) and not each.is_deleting for each in workers)
    raised = replace(settings, max_workers=auto_workers + 1)
    if (
        auto_workers < settings.max_workers
        or decide_scale_up(requirements, unschedulable, workers, raised).worker is None
    ):
        return []
    config_map = f"{infrav1.NAMESPACE}/{infrav1.AUTO_WORKERS_CONFIG_MAP}"
    return [f"let a Worker be created: set max to {raised.max_workers} in ConfigMap {config_map}"]
