"""Simulates scheduling with the candidates removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.kinds.karpenter import INITIALIZED, POOL_LABEL, seconds
from shoal.objects.conditions import condition_is
from shoal.provision.disruption.budgets import disruption_of
from shoal.provision.disruption.candidates import pod_event_time
from shoal.provision.disruption.evicting import Limits, is_kept
from shoal.provision.disruption.model import Candidate, Snapshot
from shoal.provision.simulation.model import FALLBACK, Plan, Question
from shoal.provision.simulation.rule import simulate

Object = dict[str, Any]
TOLD = 5
"""Maximum pods named in an Event."""


@dataclass(frozen=True, slots=True)
class Move:
    question: Question
    plan: Plan
    problem: str = ""
    """Why the pods cannot be rescheduled; empty if all of them can."""


def without(snapshot: Snapshot, candidates: Sequence[Candidate], *, settle: bool = True) -> Question:
    """`skip_recent_nodes`: nodes with a recent pod event are not filled by moving pods there."""
    names, limits = {each.name for each in candidates}, Limits(snapshot.pdbs)
    moved = [
        pod
        for each in candidates
        for pod in each.pods
        if not is_kept(pod, snapshot.now) and not limits.fully_blocked(pod, snapshot.now)
    ]
    fresh = _fresh(snapshot) if settle else frozenset()
    question = snapshot.question
    kept = [
        replace(place, settling=True) if place.name in fresh else place
        for place in question.places
        if place.name not in names
    ]
    gone = [place for place in question.places if place.name in names]
    return replace(
        question, pods=[*question.pods, *moved], places=kept, others=[*question.others, *gone], reserved=FALLBACK
    )


def move(snapshot: Snapshot, candidates: Sequence[Candidate], *, settle: bool = True) -> Move:
    question = without(snapshot, candidates, settle=settle)
    plan = simulate(question)
    return Move(question, plan, problem(question, plan, candidates))


def problem(question: Question, plan: Plan, candidates: Iterable[Candidate]) -> str:
    """Pods that were pending before may stay pending. Pods of the candidates and of nodes being deleted must be
    placed.
    """
    moved = {pod["metadata"]["uid"] for each in candidates for pod in each.pods}
    pending = {pod["metadata"]["uid"] for pod in question.pods if not (pod.get("spec") or {}).get("nodeName")}
    coming = {place.name for place in question.places if place.kind != "Node" or not place.initialized}
    said = [(pod, why) for pod, why in (*plan.failures, *plan.waiting) if pod["metadata"]["uid"] not in pending]
    said += [
        (pod, f"would schedule against uninitialized {kind.lower()}/{name}")
        for pod, kind, name in plan.nominations
        if name in coming and pod["metadata"]["uid"] in moved
    ]
    if not said:
        return ""
    told = [f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']} => {why}" for pod, why in said[:TOLD]]
    more = f" and {len(said) - TOLD} other(s)" if len(said) > TOLD else ""
    return f"Not all pods would schedule, {'; '.join(told)}{more}"


def _fresh(snapshot: Snapshot) -> frozenset[str]:
    pools = snapshot.pools()
    found = set()
    for each in snapshot.nodes:
        pool = pools.get(each.labels.get(POOL_LABEL, ""))
        after = seconds(disruption_of(pool.pool).get("consolidateAfter", "0s")) if pool is not None else None
        if after and condition_is(each.claim, INITIALIZED) and snapshot.now < pod_event_time(each.claim) + after:
            found.add(each.name)
    return frozenset(found)
