"""Scores of the Workers that fit: small functions from 0 to 1, and one table of weights. Pure.

No score looks at other Workers, so a score changes only with its own Worker and is not recomputed for all of them at
each binding. Points are integers: sums compare exactly, in whatever order they were added.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.fit.taints import count_untolerated_preferred
from shoal.fleet.scheduler.candidate import Candidate, SpreadCounts, WorkerUsage
from shoal.fleet.scheduler.filters import taint_objects
from shoal.fleet.scheduler.requirements import ClusterRequirements

POINTS = 10_000
"""Points of a score of 1, before its weight."""

HEADROOM, SPREAD, LOCATIONS, PREFERENCE = "headroom", "spread", "locations", "preference"
TAINTS, COST, STICKINESS = "taints", "cost", "stickiness"
WEIGHTS = {HEADROOM: 4, SPREAD: 2, LOCATIONS: 2, PREFERENCE: 4, TAINTS: 4, COST: 1, STICKINESS: 2}
_HEADROOM_WEIGHT, _SPREAD_WEIGHT = WEIGHTS[HEADROOM], WEIGHTS[SPREAD]


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """Inputs of the scores of one ManagedCluster besides the Worker."""

    requirements: ClusterRequirements
    spread: SpreadCounts
    last_worker: str = ""
    """The Worker it was on before."""
    lowest_cost: float = 0.0
    """The lowest cost of all Workers that have one."""


def headroom_score(requirements: ClusterRequirements, worker: Candidate, usage: WorkerUsage) -> float:
    """Share that stays free, with the cluster placed there, of the scarcest of slots and limited resources."""
    used_share = (usage.clusters + 1) / worker.capacity
    if worker.allocatable or worker.machine:
        requests = requirements.requests
        for name, allocatable in (*worker.allocatable, *worker.machine):
            if requests.get(name):
                used_share = max(used_share, (usage.amounts[name] + requests[name]) / allocatable)
    return 1 - used_share


def spread_score(members: int) -> float:
    """Higher if fewer members of its group are on the Worker."""
    return 1 / (1 + members)


def location_score(members_here: int, members: int) -> float:
    """Higher if a smaller share of its group is in the location."""
    return 1 - members_here / members if members else 1.0


def preference_score(requirements: ClusterRequirements, worker: Candidate) -> float:
    if worker.location not in requirements.preferred_locations:
        return 0.0
    return 1 - requirements.preferred_locations.index(worker.location) / len(requirements.preferred_locations)


def taint_score(requirements: ClusterRequirements, worker: Candidate) -> float:
    """Higher if fewer PreferNoSchedule taints are not tolerated."""
    return (
        1 / (1 + count_untolerated_preferred(taint_objects(worker), requirements.tolerations)) if worker.taints else 1.0
    )


def cost_score(worker: Candidate, lowest_cost: float) -> float:
    """A Worker without a cost costs nothing."""
    return lowest_cost / worker.cost if worker.cost > 0 else 1.0


def stickiness_score(worker: Candidate, last_worker: str) -> float:
    return 1.0 if worker.name == last_worker else 0.0


def weighted_points(name: str, score: float) -> int:
    return WEIGHTS[name] * round(POINTS * score)


def static_points(requirements: ClusterRequirements, worker: Candidate, lowest_cost: float) -> int:
    """Points that stay the same until the Worker object changes."""
    total = weighted_points(PREFERENCE, preference_score(requirements, worker)) + weighted_points(
        TAINTS, taint_score(requirements, worker)
    )
    return total + weighted_points(COST, cost_score(worker, lowest_cost))


def dynamic_points(requirements: ClusterRequirements, worker: Candidate, usage: WorkerUsage, members: int) -> int:
    """Points that each binding to the Worker reduces."""
    return _HEADROOM_WEIGHT * round(POINTS * headroom_score(requirements, worker, usage)) + _SPREAD_WEIGHT * round(
        POINTS * spread_score(members)
    )


def score_worker(context: ScoringContext, worker: Candidate, usage: WorkerUsage) -> dict[str, int]:
    """Returns all scores of a Worker that fits, by name."""
    spread_counts = context.spread
    return {
        HEADROOM: weighted_points(HEADROOM, headroom_score(context.requirements, worker, usage)),
        SPREAD: weighted_points(SPREAD, spread_score(spread_counts.workers[worker.name])),
        LOCATIONS: weighted_points(
            LOCATIONS, location_score(spread_counts.locations[worker.location], spread_counts.total)
        ),
        PREFERENCE: weighted_points(PREFERENCE, preference_score(context.requirements, worker)),
        TAINTS: weighted_points(TAINTS, taint_score(context.requirements, worker)),
        COST: weighted_points(COST, cost_score(worker, context.lowest_cost)),
        STICKINESS: weighted_points(STICKINESS, stickiness_score(worker, context.last_worker)),
    }
