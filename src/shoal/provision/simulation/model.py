"""Input and results of the scheduling simulation. Pure.

A `SchedulingInput` holds everything known about a cluster at one time. The simulation and the solver only read it, and
it can be pickled to another process. `Results` hold enough for the solver to pack the same pods again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.attachments import Attachment
from shoal.fit.ports import HostPort
from shoal.fit.requirements import Requirements
from shoal.fit.resources import Resources
from shoal.provision.cloudprovider.types import InstanceType

Object = dict[str, Any]

NODES = "nodes"
"""Key of the node count among the limits of a NodePool."""
RESPECT, IGNORE = "Respect", "Ignore"
"""Preference policy. Respect: preferences hold as long as possible. Ignore: they are not considered."""
STRICT, BEST_EFFORT, FALLBACK = "Strict", "BestEffort", "Fallback"
"""minValues policy: Strict or BestEffort. Reserved offering mode: Strict (wait for a reservation) or Fallback (buy
another offering).
"""


@dataclass(slots=True)
class ExistingNode:
    """A node, or a NodeClaim that will become one."""

    name: str
    kind: str
    """Node or NodeClaim."""
    labels: Mapping[str, str]
    taints: Sequence[Object]
    free: Resources
    """Without the requests of its pods and those of DaemonSet pods still to come."""
    ports: set[HostPort] = field(default_factory=set)
    pods: list[Object] = field(default_factory=list)
    """Pods on the node: other pods may have affinity or anti-affinity to them."""
    node_claim: str = ""
    """NodeClaim of a node. Pods may be nominated to it."""
    initialized: bool = True
    """Initialized nodes are tried first."""
    attach_limits: Mapping[str, int] = field(default_factory=dict)
    """Maximum number of volumes by CSI driver, of its CSINode."""
    attachments: frozenset[Attachment] = frozenset()
    """Volumes of its pods."""
    pending_pods_only: bool = False
    """Only pods without a node are placed here: the node is not filled by moving pods."""


@dataclass(frozen=True, slots=True)
class NodePoolInput:
    """A NodePool that may buy, with the types it may buy."""

    node_pool: Object
    types: Sequence[InstanceType]
    usage: Resources
    """Usage of its limits by existing nodes; `nodes` is their number."""
    limits: Resources

    @property
    def name(self) -> str:
        return str(self.node_pool["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class SchedulingInput:
    pods: Sequence[Object]
    """Pods to place. Running pods are assumed to leave their node and are not counted there."""
    existing_nodes: Sequence[ExistingNode] = ()
    node_pools: Sequence[NodePoolInput] = ()
    daemon_sets: Sequence[Object] = ()
    """DaemonSets."""
    nominated: Mapping[str, str] = field(default_factory=dict)
    """Name of the nominated node by pod uid. Pods keep it while it still fits."""
    draining_nodes: Sequence[ExistingNode] = ()
    """Nodes that accept no pods, such as nodes being deleted. Pods on them still count for topology."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Namespace labels by name."""
    volume_requirements: Mapping[str, Sequence[Requirements]] = field(default_factory=dict)
    """By pod uid: node requirements of its volumes, as alternatives."""
    attachments: Mapping[str, frozenset[Attachment]] = field(default_factory=dict)
    """By pod uid: its volumes that CSI drivers attach."""
    pod_errors: Mapping[str, str] = field(default_factory=dict)
    """By pod uid: why the pod cannot be scheduled, such as a missing volume claim."""
    preference_policy: str = RESPECT
    min_values_policy: str = STRICT
    reserved_offering_mode: str = STRICT


@dataclass(frozen=True, slots=True, eq=False)
class PodConstraints:
    """Constraints of a pod of a new claim, for the solver. Shared by equal pods."""

    requirements: Requirements
    """Relaxed pod requirements, volume requirements, and the topology domains in which the pod was counted."""
    tolerations: tuple[Object, ...]
    """Relaxed tolerations."""
    host_limits: tuple[tuple[int, int], ...] = ()
    """For hostname topologies: group index and the maximum number of counted pods on a node with this pod."""
    host_topologies: frozenset[int] = frozenset()
    """Indexes of the hostname topology groups that count the pod."""
    fixed_to_claim: bool = False
    """The pod moves only with all pods of its claim: it has affinity to another pod, or domains are kept free for
    it.
    """


@dataclass(frozen=True, slots=True)
class NewNodeClaim:
    pool: str
    name: str
    types: tuple[str, ...]
    """Cheapest first. If offerings are limited, the type assigned if all claims launch comes first."""
    requirements: Requirements
    """Union of pool, relaxed pod, volume, topology and type requirements, without the hostname."""
    requests: Resources
    """Total requests of the pods and of the DaemonSet pods."""
    pods: tuple[Object, ...]
    price: float
    """Price of the cheapest available offering."""
    min_values_relaxed: bool = False
    taints: tuple[Object, ...] = ()
    """Taints of its offerings besides those of the pool. Every matching offering has exactly these."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Chosen values of labels that the pool leaves open and that no instance type determines."""


@dataclass(frozen=True, slots=True)
class Results:
    new_node_claims: tuple[NewNodeClaim, ...] = ()
    nominations: tuple[tuple[Object, str, str], ...] = ()
    """Pod, and kind and name of the existing or in-flight node."""
    failures: tuple[tuple[Object, str], ...] = ()
    """Pod, and why it gets no node."""
    pod_constraints: Mapping[str, PodConstraints] = field(default_factory=dict)
    """By uid, for the pods of new claims."""
    awaiting_reservation: tuple[tuple[Object, str], ...] = ()
    """Pod, and the reservation it waits for. Not a failure: it is retried."""

    @property
    def cost(self) -> float:
        """Hourly cost of the new claims."""
        return sum(claim.price for claim in self.new_node_claims)
