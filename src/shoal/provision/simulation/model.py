"""What the planning of nodes speaks of: where pods could go, what could be bought, the question and its answer. Pure.

A `Question` is all that one look at a cluster knows; whoever answers it (`rule.simulate`, the solver) only reads it,
and it can be sent to another process. A `Plan` says enough for somebody else to pack the same pods anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.ports import HostPort
from shoal.fit.requirements import Requirements
from shoal.fit.resources import Resources
from shoal.provision.cloudprovider import InstanceType

Object = dict[str, Any]

NODES = "nodes"
"""Among the limits of a NodePool: how many."""
RESPECT, IGNORE = "Respect", "Ignore"
"""Preferences of pods: held as long as it goes, or not looked at."""
STRICT, BEST_EFFORT, FALLBACK = "Strict", "BestEffort", "Fallback"
"""minValues: Strict or BestEffort. Reserved offerings: Strict (wait for one) or Fallback (buy something else)."""


@dataclass(slots=True)
class Place:
    """A node, or a NodeClaim that will be one."""

    name: str
    kind: str
    """Node or NodeClaim."""
    labels: Mapping[str, str]
    taints: Sequence[Object]
    free: Resources
    """Without what its pods take, and what DaemonSets will still take."""
    ports: set[HostPort] = field(default_factory=set)
    pods: list[Object] = field(default_factory=list)
    """Those that are there: other pods may want to be near them, or not."""
    claim: str = ""
    """Of a node: its NodeClaim, which pods may have been promised."""
    initialized: bool = True
    """It is tried before those that are not."""
    settling: bool = False
    """Only pods that have no node go there: it is not to be filled by moving pods."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A NodePool that may buy, with what it may buy."""

    pool: Object
    types: Sequence[InstanceType]
    used: Resources
    """Of its limits, by the nodes it has; `nodes` is their number."""
    limits: Resources

    @property
    def name(self) -> str:
        return str(self.pool["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Question:
    pods: Sequence[Object]
    """To be placed. Those that run somewhere are taken to leave it: they are not counted where they are."""
    places: Sequence[Place] = ()
    pools: Sequence[Pool] = ()
    daemons: Sequence[Object] = ()
    """DaemonSets."""
    promised: Mapping[str, str] = field(default_factory=dict)
    """Names of places by uid of the pods they were meant for: those keep them where they still can."""
    others: Sequence[Place] = ()
    """Nodes that take no pods, as those that are going; pods on them are still somewhere."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Their labels, by name."""
    volumes: Mapping[str, Sequence[Requirements]] = field(default_factory=dict)
    """By uid of a pod: what its volumes ask of a node, as alternatives."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """By uid of a pod: why nothing can be done for it, such as a volume claim that does not exist."""
    preferences: str = RESPECT
    min_values: str = STRICT
    reserved: str = STRICT


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """What a pod of a new claim asks of its node, for whoever packs anew. Shared by pods that are alike."""

    requirements: Requirements
    """Its own as they were relaxed, its volumes', and the topology domains it was counted in."""
    tolerations: tuple[Object, ...]
    """As they were relaxed."""
    most: tuple[tuple[int, int], ...] = ()
    """Of a topology by host: a node with this pod has at most so many that count for it. Number of it and how many."""
    counts: frozenset[int] = frozenset()
    """The topologies by host that it counts for."""
    bound: bool = False
    """It moves only with all pods of its claim: it wants to be with another, or domains are kept free for it."""


@dataclass(frozen=True, slots=True)
class NewClaim:
    pool: str
    name: str
    types: tuple[str, ...]
    """The cheapest first; but where only so many can be had, the one that will come if all can."""
    requirements: Requirements
    """Of the pool, of the pods as relaxed, of their volumes and topology, and the types; no hostname."""
    requests: Resources
    """Of the pods and of the DaemonSets' pods together."""
    pods: tuple[Object, ...]
    price: float
    """Of the cheapest offering that can be had for it."""
    min_values_relaxed: bool = False
    taints: tuple[Object, ...] = ()
    """Of its offerings, besides those of the pool; every offering that it can be had of has just these."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What was chosen of labels that are left open, and that no instance type decides."""


@dataclass(frozen=True, slots=True)
class Plan:
    claims: tuple[NewClaim, ...] = ()
    nominations: tuple[tuple[Object, str, str], ...] = ()
    """Pod, kind and name of the place that was there already."""
    failures: tuple[tuple[Object, str], ...] = ()
    """Pod, and why it gets no node."""
    asks: Mapping[str, Ask] = field(default_factory=dict)
    """By uid, of the pods of new claims."""
    waiting: tuple[tuple[Object, str], ...] = ()
    """Pod, and which reservation it waits for: not a failure, another look will do."""

    @property
    def cost(self) -> float:
        """Of the new claims, an hour."""
        return sum(claim.price for claim in self.claims)
