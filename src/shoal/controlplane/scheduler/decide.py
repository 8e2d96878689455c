"""Filters and scores nodes for a pod, and builds the message of a FitError. Pure.

`decide` evaluates all nodes. `ranking` evaluates only changed nodes and returns the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.interpod import InterPodScore, InterPodState, normalized_scores
from shoal.controlplane.scheduler.snapshot import NodeInfo
from shoal.controlplane.scheduler.volumes import VolumeConstraints
from shoal.fit.affinity import matches_node_affinity, preferred_weight
from shoal.fit.ports import ports_conflict
from shoal.fit.resource_score import MAX_SCORE
from shoal.fit.resource_score import resource_score as left
from shoal.fit.resources import CPU, MEMORY, PODS, fits, insufficient_resources
from shoal.fit.taints import UNSCHEDULABLE, count_untolerated_preferred, first_untolerated, is_tolerated

Object = dict[str, Any]
TieBreaker = Callable[[str], int]
"""Breaks ties between nodes: the lowest number wins. Must be deterministic by name."""
FilterReasons = tuple[str, ...]
NodeBid = tuple[int, int, str, int]
"""Negated score (lower is better), tie break, node name, and the node revision it was computed for."""

SCHEDULER = "default-scheduler"
NO_NODES = "no nodes available to schedule pods"
NODE_NAME_MISMATCH = ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
TAINT_WEIGHT, AFFINITY_WEIGHT = 3, 2


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    node: str


@dataclass(frozen=True, slots=True)
class FitError:
    message: str


def needs_scheduling(pod: Object) -> bool:
    """Returns whether this scheduler must find a node for the pod."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and "deletionTimestamp" not in pod["metadata"]
        and not is_finished(pod)
    )


def is_finished(pod: Object) -> bool:
    """Returns whether the pod has terminated and no longer uses resources of its node."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def decide(
    nodes: Iterable[NodeInfo],
    equivalence: EquivalenceClass,
    tie_breaker: TieBreaker,
    inter_pod: InterPodState | None = None,
    volume_constraints: VolumeConstraints | None = None,
) -> ScheduleResult | FitError:
    """`inter_pod` is the state of a pod affected by other pods, `volume_constraints` those of a pod with volumes."""
    bids: list[NodeBid] = []
    inter_pod_scores: list[InterPodScore] = []
    reasons: list[FilterReasons] = []
    for node in nodes:
        if not node.exists:
            continue
        filter_reasons = (
            static_filter(equivalence, node)
            or fit_filter(equivalence, node)
            or (volume_constraints.reasons(node) if volume_constraints is not None else ())
        )
        if not filter_reasons and inter_pod is not None and (obstacle := inter_pod.reject_reason(node.labels)):
            filter_reasons = (obstacle,)
        if filter_reasons:
            reasons.append(filter_reasons)
            continue
        bids.append(
            (
                -(static_score(equivalence, node) + allocation_score(equivalence, node)),
                tie_breaker(node.name),
                node.name,
                node.revision,
            )
        )
        if inter_pod is not None:
            inter_pod_scores.append(inter_pod.score(node.labels, inter_pod.pods_here(node.name, node.labels)))
    if volume_constraints is not None and volume_constraints.message and (bids or reasons):
        return FitError(f"0/{len(bids) + len(reasons)} nodes are available: {volume_constraints.message}.")
    return ScheduleResult(best_node(bids, inter_pod_scores)) if bids else FitError(fit_error_message(reasons))


def best_node(bids: list[NodeBid], inter_pod_scores: list[InterPodScore]) -> str:
    """Returns the node of the best bid. `inter_pod_scores`, if any, belong to the same nodes."""
    if not inter_pod_scores:
        return min(bids)[2]
    candidates = zip(bids, normalized_scores(inter_pod_scores), strict=True)
    return min(
        (score - inter_pod_score, tie_break, name) for (score, tie_break, name, _), inter_pod_score in candidates
    )[2]


def static_filter(equivalence: EquivalenceClass, node: NodeInfo) -> FilterReasons:
    """Filters that ignore running pods: pinned node, unschedulable, taints, node affinity."""
    if equivalence.node_names is not None and node.name not in equivalence.node_names:
        return NODE_NAME_MISMATCH
    if node.unschedulable and not is_tolerated(UNSCHEDULABLE, equivalence.tolerations):
        return ("node(s) were unschedulable",)
    taint = first_untolerated(node.taints, equivalence.tolerations)
    if taint is not None:
        return (f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}",)
    if not matches_node_affinity(equivalence.spec, node.name, node.labels):
        return ("node(s) didn't match Pod's node affinity/selector",)
    return ()


def fit_filter(equivalence: EquivalenceClass, node: NodeInfo) -> FilterReasons:
    """Filters that depend on the pods of the node: host ports and resources."""
    if equivalence.ports and ports_conflict(equivalence.ports, node.ports):
        return ("node(s) didn't have free ports for the requested pod ports",)
    if fits(equivalence.requests, node.free):
        return ()
    insufficient = insufficient_resources(equivalence.requests, node.free)
    return tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in insufficient)


def static_score(equivalence: EquivalenceClass, node: NodeInfo) -> int:
    """Scores that ignore running pods: preferred node affinity and PreferNoSchedule taints."""
    affinity_score = (
        MAX_SCORE * preferred_weight(equivalence.spec, node.name, node.labels) // equivalence.max_affinity_weight
        if equivalence.max_affinity_weight
        else 0
    )
    taint_score = MAX_SCORE // (1 + count_untolerated_preferred(node.taints, equivalence.tolerations))
    return AFFINITY_WEIGHT * affinity_score + TAINT_WEIGHT * taint_score


def allocation_score(equivalence: EquivalenceClass, node: NodeInfo) -> int:
    """Scores free resources with the pod on the node. The scarcer resource counts twice, so that nodes fill up evenly.

    Assigning a pod never raises the score; `ranking` relies on that.
    """
    return left(
        node.nonzero_cpu + equivalence.nonzero_cpu,
        node.allocatable.get(CPU, 0),
        node.nonzero_memory + equivalence.nonzero_memory,
        node.allocatable.get(MEMORY, 0),
    )


def fit_error_message(reasons: Iterable[FilterReasons]) -> str:
    """Builds the message of an unschedulable pod from the reasons of each node."""
    counts: Counter[str] = Counter()
    nodes = 0
    for node_reasons in reasons:
        nodes += 1
        counts.update(node_reasons)
    if not nodes:
        return NO_NODES
    return (
        f"0/{nodes} nodes are available: "
        f"{', '.join(sorted(f'{n} {node_reasons}' for node_reasons, n in counts.items()))}."
    )


def reported_condition(pod: Object) -> tuple[str | None, int, str]:
    """Returns the last reported message (None if there was none), the pod generation it was for, and the nominated
    node.
    """
    status = pod.get("status") or {}
    nominated = status.get("nominatedNodeName") or ""
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return each.get("message") or "", each.get("observedGeneration") or 0, nominated
    return None, 0, nominated
