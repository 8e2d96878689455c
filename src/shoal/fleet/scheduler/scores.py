"""Which of the Workers that fit is the best: small functions from 0 to 1, and one table of what each counts. Pure.

None looks at other Workers, so that a score changes only with its own Worker and is not computed for all of them at
each binding. Points are whole numbers: sums compare exactly, in whatever order they were added.
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.fit.taints import intolerances
from shoal.fleet.scheduler.candidate import Candidate, Company, Usage
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import taint_objects

POINTS = 10_000
"""A score of 1, before its weight."""

HEADROOM, SPREAD, LOCATIONS, PREFERENCE = "headroom", "spread", "locations", "preference"
TAINTS, COST, STICKINESS = "taints", "cost", "stickiness"
WEIGHTS = {HEADROOM: 4, SPREAD: 2, LOCATIONS: 2, PREFERENCE: 4, TAINTS: 4, COST: 1, STICKINESS: 2}
_HEADROOM, _SPREAD = WEIGHTS[HEADROOM], WEIGHTS[SPREAD]


@dataclass(frozen=True, slots=True)
class View:
    """What the scores of one ManagedCluster look at besides the Worker."""

    asked: Demand
    company: Company
    last: str = ""
    """The Worker it was on before."""
    cheapest: float = 0.0
    """Of all Workers that have a cost."""


def headroom(asked: Demand, worker: Candidate, used: Usage) -> float:
    """What is left with it there of the scarcest: slots, or a resource that is limited."""
    share = (used.clusters + 1) / worker.capacity
    if worker.allocatable:
        wanted = asked.need
        for name, all_of_it in worker.allocatable:
            if wanted.get(name):
                share = max(share, (used.amounts[name] + wanted[name]) / all_of_it)
    return 1 - share


def spread(beside: int) -> float:
    """The fewer of its group are on the Worker, the better."""
    return 1 / (1 + beside)


def locations(there: int, total: int) -> float:
    """The smaller the share of its group that is in the location, the better."""
    return 1 - there / total if total else 1.0


def preference(asked: Demand, worker: Candidate) -> float:
    if worker.location not in asked.preferred:
        return 0.0
    return 1 - asked.preferred.index(worker.location) / len(asked.preferred)


def taints(asked: Demand, worker: Candidate) -> float:
    """PreferNoSchedule ones that it does not tolerate."""
    return 1 / (1 + intolerances(taint_objects(worker), asked.tolerations)) if worker.taints else 1.0


def cost(worker: Candidate, cheapest: float) -> float:
    """One that names no cost costs nothing."""
    return cheapest / worker.cost if worker.cost > 0 else 1.0


def stickiness(worker: Candidate, last: str) -> float:
    return 1.0 if worker.name == last else 0.0


def points(name: str, score: float) -> int:
    return WEIGHTS[name] * round(POINTS * score)


def fixed_points(asked: Demand, worker: Candidate, cheapest: float) -> int:
    """What stays as long as the Worker says what it says."""
    found = points(PREFERENCE, preference(asked, worker)) + points(TAINTS, taints(asked, worker))
    return found + points(COST, cost(worker, cheapest))


def moving_points(asked: Demand, worker: Candidate, used: Usage, beside: int) -> int:
    """What each binding to the Worker makes less."""
    return _HEADROOM * round(POINTS * headroom(asked, worker, used)) + _SPREAD * round(POINTS * spread(beside))


def scores(view: View, worker: Candidate, used: Usage) -> dict[str, int]:
    """All of them, by name; of a Worker that fits."""
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
