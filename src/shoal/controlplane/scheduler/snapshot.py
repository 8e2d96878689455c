"""Nodes of one hosted cluster and the resources their pods use, updated incrementally. Pure.

Free resources of a node are its allocatable ones minus the requests of its pods. An assumed pod counts as soon as it is
decided. Every change has a number, so that a reader evaluates only the nodes that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.scheduler.shape import Shape
from shoal.fit.podaffinity import Peer, Terms
from shoal.fit.ports import HostPort
from shoal.fit.resources import Resources, add_to, allocatable, subtract_from

Object = dict[str, Any]
PodKey = tuple[str, str]
"""Namespace and name."""

LOG = 1024
"""Minimum number of changes kept. A reader that missed more evaluates all nodes."""


@dataclass(slots=True, eq=False)
class Resident:
    """A pod on a node, or assumed or nominated there."""

    key: PodKey
    uid: str
    shape: Shape
    peer: Peer
    priority: int = 0
    started: str = ""
    """Start time of its containers; empty if not started."""
    preempted: bool = False
    """It is a victim of preemption."""


@dataclass(slots=True, eq=False)
class Node:
    name: str
    present: bool = False
    """False: the Node object does not exist, only pods that name it."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Object] = field(default_factory=list)
    unschedulable: bool = False
    room: Resources = field(default_factory=dict)
    described: int = 0
    """Changes with any of the fields above."""
    revision: int = 0
    """Changes with any field."""

    free: Resources = field(default_factory=dict)
    cpu: int = 0
    memory: int = 0
    """Assumed usage of its pods, for comparing nodes."""
    ports: list[HostPort] = field(default_factory=list)
    pods: dict[PodKey, Resident] = field(default_factory=dict)
    peers: dict[Peer, int] = field(default_factory=dict)
    """Number of its pods by peer."""

    def take_in(self, resident: Resident) -> None:
        shape, peer = resident.shape, resident.peer
        self.pods[resident.key] = resident
        subtract_from(self.free, shape.requests)
        self.cpu += shape.cpu
        self.memory += shape.memory
        self.ports += shape.ports
        self.peers[peer] = self.peers.get(peer, 0) + 1

    def let_go(self, resident: Resident) -> None:
        shape, peer = resident.shape, resident.peer
        del self.pods[resident.key]
        add_to(self.free, shape.requests)
        self.cpu -= shape.cpu
        self.memory -= shape.memory
        for port in shape.ports:
            self.ports.remove(port)
        self.peers[peer] -= 1
        if not self.peers[peer]:
            del self.peers[peer]

    def copy(self) -> Node:
        """Returns a copy for a dry run. Its changes are not logged."""
        return Node(
            self.name, self.present, self.labels, self.taints, self.unschedulable, self.room, self.described,
            self.revision, dict(self.free), self.cpu, self.memory, list(self.ports), dict(self.pods), dict(self.peers),
        )  # fmt: skip


class Log:
    """Node names by change number. Old entries are dropped."""

    def __init__(self) -> None:
        self.number = 0
        self._names: list[str] = []

    def add(self, name: str, kept: int) -> None:
        if len(self._names) > LOG + kept:
            del self._names[: LOG // 2]
        self.number += 1
        self._names.append(name)

    def since(self, number: int) -> set[str] | None:
        behind = self.number - number
        return set(self._names[len(self._names) - behind :]) if behind <= len(self._names) else None


class Snapshot:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.placed: dict[PodKey, str] = {}
        """Node by pod."""
        self.helps = 0
        """Changes when an unschedulable pod might fit now, or be unschedulable for another reason."""
        self.priorities: Counter[int] = Counter()
        self._terms: Counter[Terms] = Counter()
        """Number of pods by affinity terms."""
        self.said: list[Terms] = []
        """Affinity terms of all pods, in order of appearance; replaced by a new list when compacted."""
        self.sayings = 0
        """Changes when new terms appear."""
        self._labels: dict[str, Mapping[str, str]] = {}
        self.namespaces = 0
        """Changes when the labels of a namespace change."""
        self._changes = Log()
        self._gains = Log()

    @property
    def gains(self) -> int:
        """Changes when a node may have become better for some pod."""
        return self._gains.number

    @property
    def revision(self) -> int:
        return self._changes.number

    def gained_since(self, gains: int) -> set[str] | None:
        """Returns the names of nodes that may have improved; None if the log does not reach back that far."""
        return self._gains.since(gains)

    def changed_since(self, revision: int) -> set[str] | None:
        """Returns the names of nodes that changed or were removed."""
        return self._changes.since(revision)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return self._labels.get(namespace) or {}

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Returns whether inter-pod constraints may have changed."""
        if (self._labels.get(name) or {}) == (labels or {}):
            return False
        if labels:
            self._labels[name] = labels
        else:
            self._labels.pop(name, None)
        self.namespaces += 1
        self.helps += 1
        return True

    def put_node(self, obj: Object) -> bool:
        """Returns whether a relevant field changed."""
        name, spec = obj["metadata"]["name"], obj.get("spec") or {}
        node = self.nodes.get(name) or Node(name)
        said = obj["metadata"].get("labels") or {}, spec.get("taints") or [], bool(spec.get("unschedulable"))
        room = allocatable(obj)
        if node.present and said == (node.labels, node.taints, node.unschedulable) and room == node.room:
            return False
        self.nodes[name] = node
        subtract_from(node.free, node.room)
        add_to(node.free, room)
        node.present, node.room = True, room
        node.labels, node.taints, node.unschedulable = said
        self._changed(node, gain=True)
        self.helps += 1
        node.described = node.revision
        return True

    def drop_node(self, name: str) -> bool:
        node = self.nodes.get(name)
        if node is None or not node.present:
            return False
        node.present = False
        self._changed(node, gain=True)
        self.helps += 1
        self._forget(node)
        return True

    def resident(self, key: PodKey) -> Resident | None:
        name = self.placed.get(key)
        return self.nodes[name].pods[key] if name is not None else None

    def place(self, name: str, resident: Resident) -> bool:
        """Assigns the pod to this node only. Returns whether a node has more free resources now."""
        key = resident.key
        node = self.nodes.get(name)
        old = node.pods.get(key) if node is not None else None
        if node is not None and old is not None and old.shape is resident.shape:
            return self._exchange(node, old, resident)
        gained = self.remove(key)
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name)
        self.placed[key] = name
        node.take_in(resident)
        self._count(resident, 1)
        self._changed(node)
        return gained

    def _exchange(self, node: Node, old: Resident, new: Resident) -> bool:
        """Replaces a pod that uses the same resources; its labels or terms may differ."""
        self._count(new, 1)
        self._count(old, -1)
        if old.peer is new.peer:
            node.pods[new.key] = new
            return False
        node.let_go(old)
        node.take_in(new)
        self._changed(node)
        helps = (old.peer.labels, old.peer.terms) != (new.peer.labels, new.peer.terms)
        self.helps += helps
        return helps

    def remove(self, key: PodKey, *, quietly: bool = False) -> bool:
        """Returns whether the pod was there. `quietly`: retries nothing, because the pod returns at once."""
        name = self.placed.pop(key, None)
        if name is None:
            return False
        node = self.nodes[name]
        resident = node.pods[key]
        node.let_go(resident)
        self._count(resident, -1)
        self._changed(node, gain=node.present)
        self.helps += not quietly
        self._forget(node)
        return True

    def _count(self, resident: Resident, sign: int) -> None:
        self.priorities[resident.priority] += sign
        if not self.priorities[resident.priority]:
            del self.priorities[resident.priority]
        said = resident.peer.terms
        if said is not None:
            self._say(said, sign)

    def _say(self, said: Terms, sign: int) -> None:
        if said not in self._terms:
            if len(self.said) > 2 * len(self._terms) + 64:
                self.said = list(self._terms)
            self.said.append(said)
            self.sayings += 1
        self._terms[said] += sign
        if not self._terms[said]:
            del self._terms[said]

    def _changed(self, node: Node, *, gain: bool = False) -> None:
        self._changes.add(node.name, len(self.nodes))
        node.revision = self.revision
        if gain:
            self._gains.add(node.name, len(self.nodes))

    def _forget(self, node: Node) -> None:
        if not node.present and not node.pods:
            del self.nodes[node.name]
