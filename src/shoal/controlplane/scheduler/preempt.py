"""Preemption: finds the node where evicting pods of lower priority costs least. Pure.

Evicts as few and as unimportant pods as possible, and none that a PodDisruptionBudget protects while there is an
alternative. Pods that are already being preempted count as gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.company import HOPELESS, Company
from shoal.controlplane.scheduler.decide import Dice, crowded
from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import Node, Resident, Snapshot
from shoal.controlplane.scheduler.volumes import Ties
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

LEAST_CANDIDATES, CANDIDATES_PERCENT = 100, 10
"""Minimum number of nodes to compare, and percentage of a large cluster."""
_LATEST = "~"
_LOWEST = -(2**31)


@dataclass(frozen=True, slots=True)
class Budget:
    namespace: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str]
    """Pods that are already counted as disrupted."""


def budget(pdb: Object) -> Budget:
    status = pdb.get("status") or {}
    try:
        selector = from_label_selector((pdb.get("spec") or {}).get("selector"))
    except BadRequest:
        selector = NOTHING
    allowed, disrupted = status.get("disruptionsAllowed") or 0, frozenset(status.get("disruptedPods") or ())
    return Budget(pdb["metadata"]["namespace"], selector, allowed, disrupted)


@dataclass(frozen=True, slots=True)
class Plan:
    node: str
    victims: tuple[Resident, ...]
    """Most important first."""
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod that fits no node."""

    shape: Shape
    priority: int
    company: Company | None = None
    ties: Ties | None = None


def plan(snapshot: Snapshot, names: Iterable[str], pod: Claimant, budgets: Iterable[Budget], dice: Dice) -> Plan | None:
    """`names` are nodes that reject the pod only because of other pods."""
    protections = list(budgets)
    names = sorted(names, key=dice)
    enough = max(LEAST_CANDIDATES, len(names) * CANDIDATES_PERCENT // 100)
    found: list[Plan] = []
    for name in names:
        one = _on_node(snapshot.nodes[name], pod, protections)
        if one is not None:
            found.append(one)
            if len(found) >= enough and any(not each.violations for each in found):
                break
    return min(found, key=_pain, default=None)


def _pain(plan: Plan) -> tuple[int, int, int, int, str]:
    victims = plan.victims
    highest = victims[0].priority
    since = min(_started(each) for each in victims if each.priority == highest)
    # Among equal costs, the node whose victims started later is preferred.
    return plan.violations, highest, sum(each.priority - _LOWEST for each in victims), len(victims), _inverted(since)


def _on_node(node: Node, pod: Claimant, budgets: list[Budget]) -> Plan | None:
    weaker = [each for each in node.pods.values() if each.priority < pod.priority]
    if not weaker:
        return None
    trial = _Trial(node, pod)
    try:
        return trial.plan(weaker, budgets)
    finally:
        trial.end()


class _Trial:
    """Dry run on a copy of a node without some of its pods."""

    def __init__(self, node: Node, pod: Claimant) -> None:
        self._node, self._pod = node, pod
        self._tried = node.copy()

    def plan(self, weaker: list[Resident], budgets: list[Budget]) -> Plan | None:
        for each in weaker:
            self._tried.let_go(each)
        if not self._fits():
            return None
        going = [each for each in weaker if not each.preempted]
        protected, others = _by_protection(sorted(going, key=_importance), budgets)
        violations = [each for each in protected if not self._spared(each)]
        victims = [*violations, *(each for each in others if not self._spared(each))]
        return Plan(self._node.name, tuple(sorted(victims, key=_importance)), len(violations)) if victims else None

    def end(self) -> None:
        if self._pod.company is not None:
            self._pod.company.look(self._node.name, self._node)

    def _spared(self, resident: Resident) -> bool:
        self._tried.take_in(resident)
        if self._fits():
            return True
        self._tried.let_go(resident)
        return False

    def _fits(self) -> bool:
        pod, node = self._pod, self._tried
        if crowded(pod.shape, node) or (pod.ties is not None and pod.ties.reasons(node)):
            return False
        if pod.company is None:
            return True
        pod.company.look(node.name, node)
        return not pod.company.obstacle(node.labels)


def is_hopeless(node: Node, pod: Claimant) -> bool:
    """Returns whether evictions on this node cannot help the pod."""
    if pod.ties is not None and pod.ties.reasons(node):
        return True
    return pod.company is not None and pod.company.obstacle(node.labels) in HOPELESS


def _by_protection(residents: list[Resident], budgets: list[Budget]) -> tuple[list[Resident], list[Resident]]:
    """Splits pods into those whose eviction violates a budget and the others."""
    left = [each.allowed for each in budgets]
    protected: list[Resident] = []
    others: list[Resident] = []
    for resident in residents:
        one_too_many = False
        for index, each in enumerate(budgets):
            if _covers(each, resident):
                left[index] -= 1
                if left[index] < 0:
                    one_too_many = True
                    break
        (protected if one_too_many else others).append(resident)
    return protected, others


def _covers(budget: Budget, resident: Resident) -> bool:
    peer = resident.peer
    if not peer.labels or peer.namespace != budget.namespace or resident.key[1] in budget.disrupted:
        return False
    return not budget.selector.empty and budget.selector.matches(peer.labels)


def _importance(resident: Resident) -> tuple[int, str]:
    return -resident.priority, _started(resident)


def _started(resident: Resident) -> str:
    return resident.started or _LATEST


def _inverted(moment: str) -> str:
    """Reverses the sort order of timestamps."""
    return "".join(chr(0x10000 - ord(char)) for char in moment)
