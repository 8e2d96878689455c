"""Preemption: finds the node where evicting pods of lower priority costs least. Pure.

Evicts as few and as unimportant pods as possible, and none that a PodDisruptionBudget protects while there is an
alternative. Pods that are already being preempted count as gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.decide import TieBreaker, fit_filter
from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.interpod import UNRESOLVABLE, InterPodState
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot, NodeInfo, PodInfo
from shoal.controlplane.scheduler.volumes import VolumeConstraints
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

MIN_CANDIDATES, CANDIDATES_PERCENT = 100, 10
"""Minimum number of nodes to compare, and percentage of a large cluster."""
_NOT_STARTED = "~"
_MIN_PRIORITY = -(2**31)


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    namespace: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str]
    """Pods that are already counted as disrupted."""


def budget_from_pdb(pdb: Object) -> DisruptionBudget:
    status = pdb.get("status") or {}
    try:
        selector = from_label_selector((pdb.get("spec") or {}).get("selector"))
    except BadRequest:
        selector = SELECT_NOTHING
    allowed, disrupted = status.get("disruptionsAllowed") or 0, frozenset(status.get("disruptedPods") or ())
    return DisruptionBudget(pdb["metadata"]["namespace"], selector, allowed, disrupted)


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    node: str
    victims: tuple[PodInfo, ...]
    """Most important first."""
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pod that fits no node."""

    equivalence: EquivalenceClass
    priority: int
    inter_pod: InterPodState | None = None
    volume_constraints: VolumeConstraints | None = None


def find_preemption(
    snapshot: ClusterSnapshot,
    names: Iterable[str],
    pod: Preemptor,
    budgets: Iterable[DisruptionBudget],
    tie_breaker: TieBreaker,
) -> PreemptionPlan | None:
    """`names` are nodes that reject the pod only because of other pods."""
    pdbs = list(budgets)
    names = sorted(names, key=tie_breaker)
    enough = max(MIN_CANDIDATES, len(names) * CANDIDATES_PERCENT // 100)
    plans: list[PreemptionPlan] = []
    for name in names:
        candidate = _plan_for_node(snapshot.nodes[name], pod, pdbs)
        if candidate is not None:
            plans.append(candidate)
            if len(plans) >= enough and any(not each.violations for each in plans):
                break
    return min(plans, key=_disruption_cost, default=None)


def _disruption_cost(plan: PreemptionPlan) -> tuple[int, int, int, int, str]:
    victims = plan.victims
    highest = victims[0].priority
    since = min(_start_time(each) for each in victims if each.priority == highest)
    # Among equal costs, the node whose victims started later is preferred.
    return (
        plan.violations,
        highest,
        sum(each.priority - _MIN_PRIORITY for each in victims),
        len(victims),
        _reverse_order(since),
    )


def _plan_for_node(node: NodeInfo, pod: Preemptor, budgets: list[DisruptionBudget]) -> PreemptionPlan | None:
    lower_priority = [each for each in node.pods.values() if each.priority < pod.priority]
    if not lower_priority:
        return None
    trial = _DryRun(node, pod)
    try:
        return trial.plan(lower_priority, budgets)
    finally:
        trial.restore()


class _DryRun:
    """Dry run on a copy of a node without some of its pods."""

    def __init__(self, node: NodeInfo, pod: Preemptor) -> None:
        self._node, self._pod = node, pod
        self._trial_node = node.copy()

    def plan(self, lower_priority: list[PodInfo], budgets: list[DisruptionBudget]) -> PreemptionPlan | None:
        for each in lower_priority:
            self._trial_node.remove_pod(each)
        if not self._fits():
            return None
        evictable = [each for each in lower_priority if not each.is_preempted]
        protected, others = _split_by_pdb(sorted(evictable, key=_importance_key), budgets)
        violations = [each for each in protected if not self._reprieve(each)]
        victims = [*violations, *(each for each in others if not self._reprieve(each))]
        return (
            PreemptionPlan(self._node.name, tuple(sorted(victims, key=_importance_key)), len(violations))
            if victims
            else None
        )

    def restore(self) -> None:
        if self._pod.inter_pod is not None:
            self._pod.inter_pod.update_node(self._node.name, self._node)

    def _reprieve(self, pod_info: PodInfo) -> bool:
        self._trial_node.add_pod(pod_info)
        if self._fits():
            return True
        self._trial_node.remove_pod(pod_info)
        return False

    def _fits(self) -> bool:
        pod, node = self._pod, self._trial_node
        if fit_filter(pod.equivalence, node) or (
            pod.volume_constraints is not None and pod.volume_constraints.reasons(node)
        ):
            return False
        if pod.inter_pod is None:
            return True
        pod.inter_pod.update_node(node.name, node)
        return not pod.inter_pod.reject_reason(node.labels)


def is_unresolvable(node: NodeInfo, pod: Preemptor) -> bool:
    """Returns whether evictions on this node cannot help the pod."""
    if pod.volume_constraints is not None and pod.volume_constraints.reasons(node):
        return True
    return pod.inter_pod is not None and pod.inter_pod.reject_reason(node.labels) in UNRESOLVABLE


def _split_by_pdb(residents: list[PodInfo], budgets: list[DisruptionBudget]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Splits pods into those whose eviction violates a budget and the others."""
    remaining = [each.allowed for each in budgets]
    protected: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod_info in residents:
        is_violation = False
        for index, each in enumerate(budgets):
            if _covers(each, pod_info):
                remaining[index] -= 1
                if remaining[index] < 0:
                    is_violation = True
                    break
        (protected if is_violation else others).append(pod_info)
    return protected, others


def _covers(budget: DisruptionBudget, pod_info: PodInfo) -> bool:
    peer = pod_info.peer
    if not peer.labels or peer.namespace != budget.namespace or pod_info.key[1] in budget.disrupted:
        return False
    return not budget.selector.is_empty and budget.selector.matches(peer.labels)


def _importance_key(pod_info: PodInfo) -> tuple[int, str]:
    return -pod_info.priority, _start_time(pod_info)


def _start_time(pod_info: PodInfo) -> str:
    return pod_info.start_time or _NOT_STARTED


def _reverse_order(moment: str) -> str:
    """Reverses the sort order of timestamps."""
    return "".join(chr(0x10000 - ord(char)) for char in moment)
