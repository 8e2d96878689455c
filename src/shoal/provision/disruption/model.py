"""Types of the disruption decisions: state nodes, candidates and commands. Pure.

A `DisruptionSnapshot` holds everything known about a cluster at one time. It and the decision can be pickled to another
process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, ZONE
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.settings import OPTIMAL
from shoal.provision.simulation.model import NewNodeClaim, NodePoolInput, Results, SchedulingInput

Object = dict[str, Any]

EMPTY, DRIFTED, UNDERUTILIZED = "Empty", "Drifted", "Underutilized"
"""Disruption reasons, as budgets name them."""


@dataclass(frozen=True, slots=True)
class StateNode:
    """A node with its NodeClaim."""

    node: Object
    claim: Object
    pods: tuple[Object, ...] = ()
    """All pods on the node."""
    nominated: bool = False
    """Pods are nominated to it."""
    disrupting: bool = False
    """A command in flight disrupts it."""

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.node["metadata"].get("labels") or {}
        return labels


@dataclass(frozen=True, slots=True)
class DisruptionSnapshot:
    inputs: SchedulingInput
    """Scheduling input without any disruption: its pods are pending, or on nodes that are already being deleted."""
    nodes: tuple[StateNode, ...]
    """Initialized nodes of NodeClaims, including those being deleted."""
    pdbs: tuple[Object, ...]
    now: float
    idle_pools: tuple[NodePoolInput, ...] = ()
    """NodePools that may not buy now; the others are in `inputs`."""

    def pools(self) -> dict[str, NodePoolInput]:
        """All NodePools by name."""
        return {each.name: each for each in (*self.idle_pools, *self.inputs.node_pools)}


@dataclass(frozen=True, slots=True)
class DisruptionSettings:
    planner: str = OPTIMAL
    """`karpenter`, or `optimal` to let the solver find cheaper consolidations."""
    spot_to_spot_consolidation: bool = False
    """Allows a spot node to be replaced by a cheaper one."""
    solver_iterations: int = 100
    """Solver iterations for one set of nodes."""
    min_saving_share: float = 0.02
    """Share of the cost of the repacked nodes: for less, pods are not moved."""
    max_pods: int = 1000
    """Maximum pods that one repacking moves."""
    validation_seconds: float = 15.0
    """Seconds between a consolidation decision and its validation."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be disrupted."""

    state_node: StateNode
    pool: NodePoolInput
    instance_type: InstanceType | None
    price: float
    """Hourly price; 0 if unknown."""
    pods: tuple[Object, ...]
    """Pods that must be rescheduled."""
    disruption_cost: float
    """1 for the node, plus the eviction cost of each pod."""

    @property
    def name(self) -> str:
        return self.state_node.name

    @property
    def claim(self) -> str:
        return str(self.state_node.claim["metadata"]["name"])

    @property
    def capacity_type(self) -> str:
        return self.state_node.labels.get(CAPACITY_TYPE, "")

    @property
    def zone(self) -> str:
        return self.state_node.labels.get(ZONE, "")

    @property
    def is_empty(self) -> bool:
        return self.disruption_cost <= 1.0

    @property
    def savings_ratio(self) -> float:
        """Price per disruption cost. The highest is disrupted first."""
        return self.price / self.disruption_cost


@dataclass(frozen=True, slots=True)
class Command:
    reason: str
    method: str
    """empty, drift, multi, single, or repack."""
    candidates: tuple[Candidate, ...]
    replacements: tuple[NewNodeClaim, ...] = ()
    results: Results = field(default_factory=Results)
    """Placement of all pods, those of the candidates and the pending ones."""
    extra_cost: float = 0.0
    """Hourly cost of nodes that will be bought in addition, because the scheduler places pods differently than
    planned.
    """
    pod_placements: Mapping[str, str] = field(default_factory=dict)
    """By pod uid: expected node or NodeClaim."""

    @property
    def decision(self) -> str:
        return "replace" if self.replacements else "delete"

    @property
    def cost(self) -> float:
        """Hourly cost of the candidates."""
        return sum(each.price for each in self.candidates)

    @property
    def savings(self) -> float:
        """Hourly savings if the cheapest requested types are available."""
        return self.cost - sum(claim.price for claim in self.replacements) - self.extra_cost

    @property
    def pods_moved(self) -> int:
        return sum(len(each.pods) for each in self.candidates)


@dataclass(frozen=True, slots=True)
class NodeNote:
    """An Event for a node and its NodeClaim."""

    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DisruptionDecision:
    command: Command | None = None
    notes: tuple[NodeNote, ...] = ()
    budget_limited: bool = False
    """True if a budget prevented a possible disruption."""
    timed_out: bool = False
    """True if the evaluation ended at its time limit."""
