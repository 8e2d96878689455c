"""Scores of the Workers that fit: small functions from 0 to 1, and one table of weights. Pure.

No score looks at other Workers, so a score changes only with its own Worker and is not recomputed for all of them at
each binding. Points are integers: sums compare exactly, in whatever order they were added.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.fit.taints import intolerances
from shoal.fleet.scheduler.candidate import Candidate, Company, Usage
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import taint_objects

POINTS = 10_000
"""Points of a score of 1, before its weight."""

HEADROOM, SPREAD, LOCATIONS, PREFERENCE = "headroom", "spread", "locations", "preference"
TAINTS, COST, STICKINESS = "taints", "cost", "stickiness"
WEIGHTS = {HEADROOM: 4, SPREAD: 2, LOCATIONS: 2, PREFERENCE: 4, TAINTS: 4, COST: 1, STICKINESS: 2}
_HEADROOM, _SPREAD = WEIGHTS[HEADROOM], WEIGHTS[SPREAD]


@dataclass(frozen=True, slots=True)
class View:
    """Inputs of the scores of one ManagedCluster besides the Worker."""

    asked: Demand
    company: Company
    last: str = ""
    """The Worker it was on before."""
    cheapest: float = 0.0
    """The lowest cost of all Workers that have one."""


def headroom(asked: Demand, worker: Candidate, used: Usage) -> float:
    """Share that stays free, with the cluster placed there, of the scarcest of slots and limited resources."""
    share = (used.clusters + 1) / worker.capacity
    if worker.allocatable:
        wanted = asked.need
        for name, all_of_it in worker.allocatable:
            if wanted.get(name):
                share = max(share, (used.amounts[name] + wanted[name]) / all_of_it)
    return 1 - share


def spread(beside: int) -> float:
    """Higher if fewer members of its group are on the Worker."""
    return 1 / (1 + beside)


def locations(there: int, total: int) -> float:
    """Higher if a smaller share of its group is in the location."""
    return 1 - there / total if total else 1.0


def preference(asked: Demand, worker: Candidate) -> float:
    if worker.location not in asked.preferred:
        return 0.0
    return 1 - asked.preferred.index(worker.location) / len(asked.preferred)


def taints(asked: Demand, worker: Candidate) -> float:
    """Higher if fewer PreferNoSchedule taints are not tolerated."""
    return 1 / (1 + intolerances(taint_objects(worker), asked.tolerations)) if worker.taints else 1.0


def cost(worker: Candidate, cheapest: float) -> float:
    """A Worker without a cost costs nothing."""
    return cheapest / worker.cost if worker.cost > 0 else 1.0


def stickiness(worker: Candidate, last: str) -> float:
    return 1.0 if worker.name == last else 0.0


def points(name: str, score: float) -> int:
    return WEIGHTS[name] * round(POINTS * score)


def fixed_points(asked: Demand, worker: Candidate, cheapest: float) -> int:
    """Points that stay the same until the Worker object changes."""
    found = points(PREFERENCE, preference(asked, worker)) + points(TAINTS, taints(asked, worker))
    return found + points(COST, cost(worker, cheapest))


def moving_points(asked: Demand, worker: Candidate, used: Usage, beside: int) -> int:
    """Points that each binding to the Worker reduces."""
    return _HEADROOM * round(POINTS * headroom(asked, worker, used)) + _SPREAD * round(POINTS * spread(beside))


def scores(view: View, worker: Candidate, used: Usage) -> dict[str, int]:
    """Returns all scores of a Worker that fits, by name."""
    company = view.company
    return {
        HEADROOM: points(HEADROOM, headroom(view.asked, worker, used)),
        SPREAD: points(SPREAD, spread(company.workers[worker.name])),
        LOCATIONS: points(LOCATIONS, locations(company.locations[worker.location], company.total)),
        PREFERENCE: points(PREFERENCE, preference(view.asked, worker)),
        TAINTS: points(TAINTS, taints(view.asked, worker)),
        COST: points(COST, cost(worker, view.cheapest)),
        STICKINESS: points(STICKINESS, stickiness(worker, view.last)),
    }
