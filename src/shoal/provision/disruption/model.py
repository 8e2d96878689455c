"""Types of the disruption decisions: state nodes, candidates and commands. Pure.

A `DisruptionSnapshot` holds everything known about a cluster at one time. It and the decision can be pickled to another
process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.karpenter import CAPACITY_TYPE, ZONE
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.settings import OPTIMAL
from shoal.provision.simulation.model import NewClaim, Plan, Pool, Question

Object = dict[str, Any]

EMPTY, DRIFTED, UNDERUTILIZED = "Empty", "Drifted", "Underutilized"
"""Disruption reasons, as budgets name them."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A node with its NodeClaim."""

    node: Object
    claim: Object
    pods: tuple[Object, ...] = ()
    """All pods on the node."""
    nominated: bool = False
    """Pods are nominated to it."""
    busy: bool = False
    """A command in flight disrupts it."""

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.node["metadata"].get("labels") or {}
        return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    question: Question
    """Scheduling input without any disruption: its pods are pending, or on nodes that are already being deleted."""
    nodes: tuple[Standing, ...]
    """Initialized nodes of NodeClaims, including those being deleted."""
    pdbs: tuple[Object, ...]
    now: float
    idle: tuple[Pool, ...] = ()
    """NodePools that may not buy now; the others are in `inputs`."""

    def pools(self) -> dict[str, Pool]:
        """All NodePools by name."""
        return {each.name: each for each in (*self.idle, *self.question.pools)}


@dataclass(frozen=True, slots=True)
class Settings:
    planner: str = OPTIMAL
    """`karpenter`, or `optimal` to let the solver find cheaper consolidations."""
    spot_to_spot: bool = False
    """Allows a spot node to be replaced by a cheaper one."""
    iterations: int = 100
    """Solver iterations for one set of nodes."""
    least_saving: float = 0.02
    """Share of the cost of the repacked nodes: for less, pods are not moved."""
    most_pods: int = 1000
    """Maximum pods that one repacking moves."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be disrupted."""

    standing: Standing
    pool: Pool
    type: InstanceType | None
    price: float
    """Hourly price; 0 if unknown."""
    pods: tuple[Object, ...]
    """Pods that must be rescheduled."""
    disruption: float
    """1 for the node, plus the eviction cost of each pod."""

    @property
    def name(self) -> str:
        return self.standing.name

    @property
    def claim(self) -> str:
        return str(self.standing.claim["metadata"]["name"])

    @property
    def capacity_type(self) -> str:
        return self.standing.labels.get(CAPACITY_TYPE, "")

    @property
    def zone(self) -> str:
        return self.standing.labels.get(ZONE, "")

    @property
    def is_empty(self) -> bool:
        return self.disruption <= 1.0

    @property
    def ratio(self) -> float:
        """Price per disruption cost. The highest is disrupted first."""
        return self.price / self.disruption


@dataclass(frozen=True, slots=True)
class Command:
    reason: str
    method: str
    """empty, drift, multi, single, or repack."""
    candidates: tuple[Candidate, ...]
    replacements: tuple[NewClaim, ...] = ()
    plan: Plan = field(default_factory=Plan)
    """Placement of all pods, those of the candidates and the pending ones."""
    spill: float = 0.0
    """Hourly cost of nodes that will be bought in addition, because the scheduler places pods differently than
    planned.
    """
    places: Mapping[str, str] = field(default_factory=dict)
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
        return self.cost - sum(claim.price for claim in self.replacements) - self.spill

    @property
    def moved(self) -> int:
        return sum(len(each.pods) for each in self.candidates)


@dataclass(frozen=True, slots=True)
class Note:
    """An Event for a node and its NodeClaim."""

    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    command: Command | None = None
    notes: tuple[Note, ...] = ()
    limited: bool = False
    """True if a budget prevented a possible disruption."""
