"""Disruption candidates: initialized nodes of a known NodePool that nothing blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    CONSOLIDATABLE,
    DO_NOT_DISRUPT,
    DRIFTED,
    INITIALIZED,
    INSTANCE_TYPE,
    NEVER,
    WHEN_EMPTY,
    ZONE,
    annotation_of,
    is_deleting,
    nodepool_of,
    static_replicas,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.provision.disruption.budgets import disruption_spec
from shoal.provision.disruption.model import Candidate, DisruptionSnapshot, NodeNote, StateNode
from shoal.provision.disruption.prices import node_price
from shoal.provision.evictability import PDBLimits, blocking_pod, eviction_cost, is_reschedulable
from shoal.provision.simulation.model import NodePoolInput

Object = dict[str, Any]

BLOCKED, UNCONSOLIDATABLE = "DisruptionBlocked", "Unconsolidatable"


def candidates(snapshot: DisruptionSnapshot, *, eventual: bool = False) -> tuple[list[Candidate], list[NodeNote]]:
    """With `eventual`, pods do not block a node whose NodeClaim has a terminationGracePeriod, because it ends
    anyway.
    """
    pools, limits = snapshot.pools(), PDBLimits(snapshot.pdbs)
    result, notes = [], []
    for each in snapshot.nodes:
        if each.disrupting or each.nominated or is_deleting(each.claim) or is_deleting(each.node):
            continue
        pool = pools.get(nodepool_of(each.claim))
        if not condition_is(each.claim, INITIALIZED) or (
            pool is not None and static_replicas(pool.node_pool) is not None
        ):
            continue
        reason = _blocked_reason(each, pools, limits, snapshot.now, eventual=eventual)
        if reason:
            notes.append(NodeNote(each.name, BLOCKED, reason[0].upper() + reason[1:]))
        else:
            result.append(_new_candidate(each, pools[nodepool_of(each.claim)]))
    return result, notes


def _blocked_reason(
    state_node: StateNode, pools: dict[str, NodePoolInput], limits: PDBLimits, now: float, *, eventual: bool
) -> str:
    if any(annotation_of(obj, DO_NOT_DISRUPT) == "true" for obj in (state_node.claim, state_node.node)):
        return f'disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
    pool = pools.get(nodepool_of(state_node.claim))
    if pool is None or not pool.types:
        return f"nodePool not found (NodePool={nodepool_of(state_node.claim)})"
    if eventual and state_node.claim["spec"].get("terminationGracePeriod"):
        return ""
    return blocking_pod(state_node.pods, limits, now)


def _new_candidate(state_node: StateNode, pool: NodePoolInput) -> Candidate:
    pods = tuple(pod for pod in state_node.pods if is_reschedulable(pod))
    type_ = next((kind for kind in pool.types if kind.name == state_node.labels.get(INSTANCE_TYPE)), None)
    disruption = 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in pods)
    return Candidate(state_node, pool, type_, node_price(type_, state_node.labels), pods, disruption)


def is_removable_empty(candidate: Candidate) -> bool:
    return (
        _is_consolidation_enabled(candidate)
        and candidate.is_empty
        and condition_is(candidate.state_node.claim, CONSOLIDATABLE)
    )


def is_drifted(candidate: Candidate) -> bool:
    return condition_is(candidate.state_node.claim, DRIFTED)


def consolidation_eligibility(candidate: Candidate) -> tuple[bool, str]:
    """Returns True, or False and the reason. The reason is empty if another method handles the node or it only has to
    wait.
    """
    disruption = disruption_spec(candidate.pool.node_pool)
    if candidate.instance_type is None:
        return False, f'Instance Type "{candidate.state_node.labels.get(INSTANCE_TYPE, "")}" not found'
    for label in (CAPACITY_TYPE, ZONE):
        if label not in candidate.state_node.labels:
            return False, f'Node does not have label "{label}"'
    if not _is_consolidation_enabled(candidate):
        return False, f'NodePool "{candidate.pool.name}" has consolidation disabled'
    if candidate.is_empty:
        return False, ""
    if disruption.get("consolidationPolicy") == WHEN_EMPTY:
        return False, f'NodePool "{candidate.pool.name}" has consolidation policy WhenEmpty, but node is not empty'
    return condition_is(candidate.state_node.claim, CONSOLIDATABLE), ""


def within_budget(ordered: Iterable[Candidate], remaining: dict[str, int]) -> tuple[list[Candidate], bool]:
    """Candidates within the budget of their NodePool, in order, and whether some were left out."""
    remaining, allowed, limited = dict(remaining), [], False
    for each in ordered:
        if remaining.get(each.pool.name, 0) < 1:
            limited = True
            continue
        remaining[each.pool.name] -= 1
        allowed.append(each)
    return allowed, limited


def cluster_cost(snapshot: DisruptionSnapshot) -> float:
    """Hourly cost of the nodes that are not being disrupted."""
    pools = snapshot.pools()
    staying = (
        each for each in snapshot.nodes if not (each.disrupting or is_deleting(each.claim) or is_deleting(each.node))
    )
    pool_of_node = ((each, pools.get(nodepool_of(each.claim))) for each in staying)
    return sum(_new_candidate(each, pool).price for each, pool in pool_of_node if pool is not None)


def reschedulable_pods(snapshot: DisruptionSnapshot) -> int:
    """Number of pods that need a node."""
    return sum(is_reschedulable(pod) for each in snapshot.nodes for pod in each.pods)


def pod_event_time(claim: Object) -> float:
    """Time of the last pod binding or removal; before any, the time of initialization."""
    status = claim.get("status") or {}
    recorded = parse_time(status.get("lastPodEventTime"))
    if recorded is not None:
        return recorded
    return parse_time((get_condition(claim, INITIALIZED) or {}).get("lastTransitionTime")) or 0.0


def _is_consolidation_enabled(candidate: Candidate) -> bool:
    return bool(disruption_spec(candidate.pool.node_pool).get("consolidateAfter", "0s") != NEVER)
