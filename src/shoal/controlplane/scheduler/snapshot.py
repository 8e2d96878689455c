"""Nodes of one hosted cluster and the resources their pods use, updated incrementally. Pure.

Free resources of a node are its allocatable ones minus the requests of its pods. An assumed pod counts as soon as it is
decided. Every change has a number, so that a reader evaluates only the nodes that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.peer_index import PeerIndex
from shoal.fit.podaffinity import AffinityTerms, PeerPod
from shoal.fit.ports import HostPort
from shoal.fit.resources import Resources, add_to, allocatable, subtract_from

Object = dict[str, Any]
PodKey = tuple[str, str]
"""Namespace and name."""

MIN_LOG_LENGTH = 1024
"""Minimum number of changes kept. A reader that missed more evaluates all nodes."""


@dataclass(slots=True, eq=False)
class PodInfo:
    """A pod on a node, or assumed or nominated there."""

    key: PodKey
    uid: str
    equivalence: EquivalenceClass
    peer: PeerPod
    priority: int = 0
    start_time: str = ""
    """Start time of its containers; empty if not started."""
    is_preempted: bool = False
    """It is a victim of preemption."""


@dataclass(slots=True, eq=False)
class NodeInfo:
    name: str
    exists: bool = False
    """False: the Node object does not exist, only pods that name it."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Object] = field(default_factory=list)
    unschedulable: bool = False
    allocatable: Resources = field(default_factory=dict)
    description_revision: int = 0
    """Changes with any of the fields above."""
    revision: int = 0
    """Changes with any field."""

    free: Resources = field(default_factory=dict)
    nonzero_cpu: int = 0
    nonzero_memory: int = 0
    """Assumed usage of its pods, for comparing nodes."""
    ports: list[HostPort] = field(default_factory=list)
    pods: dict[PodKey, PodInfo] = field(default_factory=dict)
    peers: dict[PeerPod, int] = field(default_factory=dict)
    """Number of its pods by peer."""

    def add_pod(self, pod_info: PodInfo) -> None:
        equivalence, peer = pod_info.equivalence, pod_info.peer
        self.pods[pod_info.key] = pod_info
        subtract_from(self.free, equivalence.requests)
        self.nonzero_cpu += equivalence.nonzero_cpu
        self.nonzero_memory += equivalence.nonzero_memory
        self.ports += equivalence.ports
        self.peers[peer] = self.peers.get(peer, 0) + 1

    def remove_pod(self, pod_info: PodInfo) -> None:
        equivalence, peer = pod_info.equivalence, pod_info.peer
        del self.pods[pod_info.key]
        add_to(self.free, equivalence.requests)
        self.nonzero_cpu -= equivalence.nonzero_cpu
        self.nonzero_memory -= equivalence.nonzero_memory
        for port in equivalence.ports:
            self.ports.remove(port)
        self.peers[peer] -= 1
        if not self.peers[peer]:
            del self.peers[peer]

    def copy(self) -> NodeInfo:
        """Returns a copy for a dry run. Its changes are not logged."""
        return NodeInfo(
            self.name, self.exists, self.labels, self.taints, self.unschedulable, self.allocatable,
            self.description_revision,
            self.revision, dict(self.free), self.nonzero_cpu, self.nonzero_memory, list(self.ports),
            dict(self.pods), dict(self.peers),
        )  # fmt: skip


class ChangeLog:
    """Node names by change number. Old entries are dropped."""

    def __init__(self) -> None:
        self.revision = 0
        self._names: list[str] = []

    def add(self, name: str, node_count: int) -> None:
        if len(self._names) > MIN_LOG_LENGTH + node_count:
            del self._names[: MIN_LOG_LENGTH // 2]
        self.revision += 1
        self._names.append(name)

    def since(self, number: int) -> set[str] | None:
        behind = self.revision - number
        return set(self._names[len(self._names) - behind :]) if behind <= len(self._names) else None


class ClusterSnapshot:
    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.node_by_pod: dict[PodKey, str] = {}
        """Node by pod."""
        self.retry_generation = 0
        """Changes when an unschedulable pod might fit now, or be unschedulable for another reason."""
        self.peers = PeerIndex()
        self.priorities: Counter[int] = Counter()
        self._terms: Counter[AffinityTerms] = Counter()
        """Number of pods by affinity terms."""
        self.pod_terms: list[AffinityTerms] = []
        """Affinity terms of all pods, in order of appearance; replaced by a new list when compacted."""
        self.terms_generation = 0
        """Changes when new terms appear."""
        self._namespace_labels: dict[str, Mapping[str, str]] = {}
        self.namespaces_generation = 0
        """Changes when the labels of a namespace change."""
        self._changes = ChangeLog()
        self._improvements = ChangeLog()

    @property
    def improvements(self) -> int:
        """Changes when a node may have become better for some pod."""
        return self._improvements.revision

    @property
    def revision(self) -> int:
        return self._changes.revision

    def improved_since(self, improvements: int) -> set[str] | None:
        """Returns the names of nodes that may have improved; None if the log does not reach back that far."""
        return self._improvements.since(improvements)

    def changed_since(self, revision: int) -> set[str] | None:
        """Returns the names of nodes that changed or were removed."""
        return self._changes.since(revision)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return self._namespace_labels.get(namespace) or {}

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Returns whether inter-pod constraints may have changed."""
        if (self._namespace_labels.get(name) or {}) == (labels or {}):
            return False
        if labels:
            self._namespace_labels[name] = labels
        else:
            self._namespace_labels.pop(name, None)
        self.namespaces_generation += 1
        self.retry_generation += 1
        return True

    def put_node(self, obj: Object) -> bool:
        """Returns whether a relevant field changed."""
        name, spec = obj["metadata"]["name"], obj.get("spec") or {}
        node = self.nodes.get(name) or NodeInfo(name)
        description = obj["metadata"].get("labels") or {}, spec.get("taints") or [], bool(spec.get("unschedulable"))
        room = allocatable(obj)
        if node.exists and description == (node.labels, node.taints, node.unschedulable) and room == node.allocatable:
            return False
        self.nodes[name] = node
        subtract_from(node.free, node.allocatable)
        add_to(node.free, room)
        node.exists, node.allocatable = True, room
        node.labels, node.taints, node.unschedulable = description
        self._record_change(node, is_improvement=True)
        self.retry_generation += 1
        node.description_revision = node.revision
        return True

    def remove_node(self, name: str) -> bool:
        node = self.nodes.get(name)
        if node is None or not node.exists:
            return False
        node.exists = False
        self._record_change(node, is_improvement=True)
        self.retry_generation += 1
        self._prune_node(node)
        return True

    def pod_info(self, key: PodKey) -> PodInfo | None:
        name = self.node_by_pod.get(key)
        return self.nodes[name].pods[key] if name is not None else None

    def assign(self, name: str, pod_info: PodInfo) -> bool:
        """Assigns the pod to this node only. Returns whether a node has more free resources now."""
        key = pod_info.key
        node = self.nodes.get(name)
        old = node.pods.get(key) if node is not None else None
        if node is not None and old is not None and old.equivalence is pod_info.equivalence:
            return self._replace_pod(node, old, pod_info)
        has_freed = self.remove_pod(key)
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = NodeInfo(name)
        self.node_by_pod[key] = name
        node.add_pod(pod_info)
        self.peers.add(pod_info.peer, name)
        self._count_pod(pod_info, 1)
        self._record_change(node)
        return has_freed

    def _replace_pod(self, node: NodeInfo, old: PodInfo, new: PodInfo) -> bool:
        """Replaces a pod that uses the same resources; its labels or terms may differ."""
        self._count_pod(new, 1)
        self._count_pod(old, -1)
        if old.peer is new.peer:
            node.pods[new.key] = new
            return False
        node.remove_pod(old)
        node.add_pod(new)
        self.peers.add(new.peer, node.name)
        self.peers.remove(old.peer, node.name)
        self._record_change(node)
        may_help = (old.peer.labels, old.peer.terms) != (new.peer.labels, new.peer.terms)
        self.retry_generation += may_help
        return may_help

    def remove_pod(self, key: PodKey, *, quietly: bool = False) -> bool:
        """Returns whether the pod was there. `quietly`: retries nothing, because the pod returns at once."""
        name = self.node_by_pod.pop(key, None)
        if name is None:
            return False
        node = self.nodes[name]
        pod_info = node.pods[key]
        node.remove_pod(pod_info)
        self.peers.remove(pod_info.peer, name)
        self._count_pod(pod_info, -1)
        self._record_change(node, is_improvement=node.exists)
        self.retry_generation += not quietly
        self._prune_node(node)
        return True

    def _count_pod(self, pod_info: PodInfo, sign: int) -> None:
        self.priorities[pod_info.priority] += sign
        if not self.priorities[pod_info.priority]:
            del self.priorities[pod_info.priority]
        pod_terms = pod_info.peer.terms
        if pod_terms is not None:
            self._count_terms(pod_terms, sign)

    def _count_terms(self, pod_terms: AffinityTerms, sign: int) -> None:
        if pod_terms not in self._terms:
            if len(self.pod_terms) > 2 * len(self._terms) + 64:
                self.pod_terms = list(self._terms)
            self.pod_terms.append(pod_terms)
            self.terms_generation += 1
        self._terms[pod_terms] += sign
        if not self._terms[pod_terms]:
            del self._terms[pod_terms]

    def _record_change(self, node: NodeInfo, *, is_improvement: bool = False) -> None:
        self._changes.add(node.name, len(self.nodes))
        node.revision = self.revision
        if is_improvement:
            self._improvements.add(node.name, len(self.nodes))

    def _prune_node(self, node: NodeInfo) -> None:
        if not node.exists and not node.pods:
            del self.nodes[node.name]
