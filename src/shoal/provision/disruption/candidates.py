"""Disruption candidates: initialized nodes of a known NodePool that nothing blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    CONSOLIDATABLE,
    DO_NOT_DISRUPT,
    DRIFTED,
    INITIALIZED,
    INSTANCE_TYPE,
    NEVER,
    WHEN_EMPTY,
    ZONE,
    annotation,
    is_going,
    pool_of,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.provision.disruption.budgets import disruption_of
from shoal.provision.disruption.evicting import Limits, cost, is_reschedulable, problem
from shoal.provision.disruption.model import Candidate, Note, Snapshot, Standing
from shoal.provision.disruption.prices import price_of
from shoal.provision.simulation.model import Pool

Object = dict[str, Any]

BLOCKED, UNCONSOLIDATABLE = "DisruptionBlocked", "Unconsolidatable"


def candidates(snapshot: Snapshot, *, eventual: bool = False) -> tuple[list[Candidate], list[Note]]:
    """With `eventual`, pods do not block a node whose NodeClaim has a terminationGracePeriod, because it ends
    anyway.
    """
    pools, limits = snapshot.pools(), Limits(snapshot.pdbs)
    found, notes = [], []
    for each in snapshot.nodes:
        if each.busy or each.nominated or is_going(each.claim) or is_going(each.node):
            continue
        if not condition_is(each.claim, INITIALIZED):
            continue
        said = _problem(each, pools, limits, snapshot.now, eventual=eventual)
        if said:
            notes.append(Note(each.name, BLOCKED, said[0].upper() + said[1:]))
        else:
            found.append(_candidate(each, pools[pool_of(each.claim)]))
    return found, notes


def _problem(each: Standing, pools: dict[str, Pool], limits: Limits, now: float, *, eventual: bool) -> str:
    if any(annotation(obj, DO_NOT_DISRUPT) == "true" for obj in (each.claim, each.node)):
        return f'disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
    pool = pools.get(pool_of(each.claim))
    if pool is None or not pool.types:
        return f"nodePool not found (NodePool={pool_of(each.claim)})"
    if eventual and each.claim["spec"].get("terminationGracePeriod"):
        return ""
    return problem(each.pods, limits, now)


def _candidate(each: Standing, pool: Pool) -> Candidate:
    pods = tuple(pod for pod in each.pods if is_reschedulable(pod))
    type_ = next((kind for kind in pool.types if kind.name == each.labels.get(INSTANCE_TYPE)), None)
    disruption = 1.0 + sum(max(0.0, cost(pod)) for pod in pods)
    return Candidate(each, pool, type_, price_of(type_, each.labels), pods, disruption)


def may_go_empty(candidate: Candidate) -> bool:
    return _consolidates(candidate) and candidate.is_empty and condition_is(candidate.standing.claim, CONSOLIDATABLE)


def is_drifted(candidate: Candidate) -> bool:
    return condition_is(candidate.standing.claim, DRIFTED)


def may_be_consolidated(candidate: Candidate) -> tuple[bool, str]:
    """Returns True, or False and the reason. The reason is empty if another method handles the node or it only has to
    wait.
    """
    disruption = disruption_of(candidate.pool.pool)
    if candidate.type is None:
        return False, f'Instance Type "{candidate.standing.labels.get(INSTANCE_TYPE, "")}" not found'
    for label in (CAPACITY_TYPE, ZONE):
        if label not in candidate.standing.labels:
            return False, f'Node does not have label "{label}"'
    if not _consolidates(candidate):
        return False, f'NodePool "{candidate.pool.name}" has consolidation disabled'
    if candidate.is_empty:
        return False, ""
    if disruption.get("consolidationPolicy") == WHEN_EMPTY:
        return False, f'NodePool "{candidate.pool.name}" has consolidation policy WhenEmpty, but node is not empty'
    return condition_is(candidate.standing.claim, CONSOLIDATABLE), ""


def within_budget(found: Iterable[Candidate], left: dict[str, int]) -> tuple[list[Candidate], bool]:
    """Candidates within the budget of their NodePool, in order, and whether some were left out."""
    left, kept, limited = dict(left), [], False
    for each in found:
        if left.get(each.pool.name, 0) < 1:
            limited = True
            continue
        left[each.pool.name] -= 1
        kept.append(each)
    return kept, limited


def cost_of(snapshot: Snapshot) -> float:
    """Hourly cost of the nodes that are not being disrupted."""
    pools = snapshot.pools()
    staying = (each for each in snapshot.nodes if not (each.busy or is_going(each.claim) or is_going(each.node)))
    found = ((each, pools.get(pool_of(each.claim))) for each in staying)
    return sum(_candidate(each, pool).price for each, pool in found if pool is not None)


def movable(snapshot: Snapshot) -> int:
    """Number of pods that need a node."""
    return sum(is_reschedulable(pod) for each in snapshot.nodes for pod in each.pods)


def pod_event_time(claim: Object) -> float:
    """Time of the last pod binding or removal; before any, the time of initialization."""
    status = claim.get("status") or {}
    said = parse_time(status.get("lastPodEventTime"))
    if said is not None:
        return said
    return parse_time((get_condition(claim, INITIALIZED) or {}).get("lastTransitionTime")) or 0.0


def _consolidates(candidate: Candidate) -> bool:
    return bool(disruption_of(candidate.pool.pool).get("consolidateAfter", "0s") != NEVER)
