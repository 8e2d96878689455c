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

from shoal.fleet.explain.changes import asking_nodes, of_cluster, of_worker
from shoal.fleet.scheduler.candidate import Candidate, Usage, candidate
from shoal.fleet.scheduler.decide import Waiting, choose, fits
from shoal.fleet.scheduler.demand import demand
from shoal.fleet.scheduler.filters import FILTERS, room
from shoal.fleet.scheduler.growth import grow, setting
from shoal.fleet.scheduler.scores import View, scores
from shoal.fleet.scheduler.snapshot import Snapshot, snapshot
from shoal.kinds import fleet

Object = dict[str, Any]

ROOM = "room"


@dataclass(frozen=True, slots=True)
class Verdict:
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
class Explanation:
    worker: str
    """The Worker that hosts it; empty if none does."""
    best: str
    """The Worker that would be selected now; empty if none fits."""
    reason: str
    message: str
    """Why no Worker would be selected."""
    verdicts: list[Verdict]
    """The best first, then those that do not fit, by name."""
    changes: list[str]
    """Each change alone would let it be hosted. Empty if it fits."""


def explain(managed: Object, workers: Sequence[Object], others: Sequence[Object], config: Object | None) -> Explanation:
    """`others` are all other ManagedClusters. `config` is the ConfigMap of auto-created Workers."""
    there = snapshot(workers, others)
    view = there.view(managed)
    chosen = choose(view, there.workers())
    verdicts = sorted(
        (_verdict(view, worker, used) for worker, used in there.workers()),
        key=lambda each: (not each.fits, -each.total, each.worker),
    )
    hosted = fleet.assigned_worker(managed)
    if isinstance(chosen, str):
        return Explanation(hosted, chosen, "", "", verdicts, [])
    because = grow(view.asked, chosen, there.candidates.values(), setting(config)).because
    return Explanation(hosted, "", because.reason, because.message, verdicts, _changes(managed, workers, there, config))


def _verdict(view: View, worker: Candidate, used: Usage) -> Verdict:
    found = {name: refuses(view.asked, worker) for name, refuses in FILTERS.items()}
    found[ROOM] = room(view.asked, worker, used)
    said = {name: refused.one if refused is not None else "" for name, refused in found.items()}
    fitting = not view.asked.wrong and not any(said.values())
    return Verdict(worker.name, said, scores(view, worker, used) if fitting else {})


def _changes(managed: Object, workers: Sequence[Object], there: Snapshot, config: Object | None) -> list[str]:
    joined = [worker for worker in workers if worker["metadata"]["name"] in there.candidates]
    found = [change.text for change in of_cluster(managed, joined) if _is_hosted(change.changed, there)]
    found += _fewer_nodes(managed, there)
    for worker in sorted(joined, key=lambda each: str(each["metadata"]["name"])):
        used = there.used(worker["metadata"]["name"])
        for change in of_worker(managed, worker, used):
            if fits(demand(managed), candidate(change.changed), used):
                found.append(change.text)
    return [*found, *_one_more(managed, there, config)]


def _is_hosted(managed: Object, there: Snapshot) -> bool:
    asked = demand(managed)
    return any(fits(asked, worker, used) for worker, used in there.workers())


def _fewer_nodes(managed: Object, there: Snapshot) -> list[str]:
    """Suggests for each pool the most nodes that some Worker has capacity for: if some number fits, smaller ones do."""
    spec = fleet.spec_of(managed)
    asked = {"": int(spec.get("nodes") or 0)}
    asked |= {each["name"]: int(each.get("nodes") or 0) for each in spec.get("nodePools") or ()}
    found = []
    for pool, nodes in asked.items():
        refused = partial(_is_refused, managed, there, pool)
        most = bisect_left(range(nodes), True, key=refused) - 1
        if most >= 0:
            what = f"node{'s' if most != 1 else ''}{f' of pool {pool}' if pool else ''}"
            found.append(f"ask for {most} {what} in place of {nodes}")
    return found


def _is_refused(managed: Object, there: Snapshot, pool: str, number: int) -> bool:
    return not _is_hosted(asking_nodes(managed, number, pool), there)


def _one_more(managed: Object, there: Snapshot, config: Object | None) -> list[str]:
    """Suggests a higher limit if one more auto-created Worker would help."""
    asked, workers, allowed = demand(managed), there.candidates.values(), setting(config)
    because = Waiting("", "")
    if allowed.wrong:
        return []
    made = sum(bool(each.auto) and not each.leaving for each in workers)
    more = replace(allowed, maximum=made + 1)
    if made < allowed.maximum or grow(asked, because, workers, more).worker is None:
        return []
    return [f"let a worker be made: ConfigMap {fleet.NAMESPACE}/{fleet.AUTO_WORKERS} with max {more.maximum}"]
