"""What decisions about the end of nodes speak of: what stands, what may go, and the command that says so. Pure.

A `Snapshot` is all that one look at a cluster knows; it can be sent to another process, and so can its answer.
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
"""Why a node goes, as budgets name it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A node and its NodeClaim, as they are."""

    node: Object
    claim: Object
    pods: tuple[Object, ...] = ()
    """All that are on it."""
    nominated: bool = False
    """Pods are on their way to it."""
    busy: bool = False
    """A command that is under way lets it go."""

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
    """What would be asked if nothing went: its pods are those that wait, and those of nodes that go already."""
    nodes: tuple[Standing, ...]
    """Those that were bought, that are up, also those that are going."""
    pdbs: tuple[Object, ...]
    now: float
    idle: tuple[Pool, ...] = ()
    """NodePools that may not buy now; those that may are in the question."""

    def pools(self) -> dict[str, Pool]:
        """All there are, by name."""
        return {each.name: each for each in (*self.idle, *self.question.pools)}


@dataclass(frozen=True, slots=True)
class Settings:
    planner: str = OPTIMAL
    """How consolidation plans: by the rule, or cheaper where the solver finds a way."""
    spot_to_spot: bool = False
    """Whether a spot node may be replaced by a cheaper one."""
    iterations: int = 100
    """Of the solver, for one set of nodes."""
    least_saving: float = 0.02
    """Of what the nodes of a repacking cost: for less, pods are not moved."""
    most_pods: int = 1000
    """That one repacking moves."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may go."""

    standing: Standing
    pool: Pool
    type: InstanceType | None
    price: float
    """An hour; 0 where it is not known."""
    pods: tuple[Object, ...]
    """Those that need another place."""
    disruption: float
    """1 for the node, and for each of its pods what it costs to evict it."""

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
        """What it costs for each bit of disruption: what is highest goes first."""
        return self.price / self.disruption


@dataclass(frozen=True, slots=True)
class Command:
    reason: str
    method: str
    """empty, drift, multi, single, or repack."""
    candidates: tuple[Candidate, ...]
    replacements: tuple[NewClaim, ...] = ()
    plan: Plan = field(default_factory=Plan)
    """Where all pods go, those of the candidates and those that waited."""
    spill: float = 0.0
    """What nodes cost an hour that will be bought besides: the scheduler places pods otherwise than planned."""
    places: Mapping[str, str] = field(default_factory=dict)
    """By uid of a pod: the node or NodeClaim where it is expected to go."""

    @property
    def decision(self) -> str:
        return "replace" if self.replacements else "delete"

    @property
    def cost(self) -> float:
        """Of the nodes that go."""
        return sum(each.price for each in self.candidates)

    @property
    def savings(self) -> float:
        """An hour, if the cheapest that was asked for can be had."""
        return self.cost - sum(claim.price for claim in self.replacements) - self.spill

    @property
    def moved(self) -> int:
        return sum(len(each.pods) for each in self.candidates)


@dataclass(frozen=True, slots=True)
class Note:
    """An event to be told of a node and its NodeClaim."""

    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    command: Command | None = None
    notes: tuple[Note, ...] = ()
    limited: bool = False
    """A budget kept something from going that could have gone."""
