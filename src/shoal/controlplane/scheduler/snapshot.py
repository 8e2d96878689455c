"""The nodes of one hosted cluster and what their pods take of them, kept up to date change by change. Pure.

Nothing is counted apart from the pods: a node's free resources are what it has less what the pods placed on it ask
for, an assumed pod being placed as soon as it was decided. Every change has a number, so that whoever looked before
looks again only at the nodes that changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.controlplane.scheduler.shape import Shape
from shoal.fit.ports import HostPort
from shoal.fit.resources import Resources, add_to, allocatable, subtract_from

Object = dict[str, Any]
PodKey = tuple[str, str]
"""Namespace and name."""

LOG = 1024
"""Changes remembered at least; whoever missed more looks at all nodes."""


@dataclass(slots=True, eq=False)
class Node:
    name: str
    present: bool = False
    """False: only pods that name it are known."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Object] = field(default_factory=list)
    unschedulable: bool = False
    room: Resources = field(default_factory=dict)
    described: int = 0
    """Another number whenever one of the above changed."""
    revision: int = 0
    """Another number whenever anything about it changed."""

    free: Resources = field(default_factory=dict)
    cpu: int = 0
    memory: int = 0
    """What its pods are taken to use, for comparing nodes."""
    ports: list[HostPort] = field(default_factory=list)
    pods: int = 0


class Placed(NamedTuple):
    node: str
    shape: Shape


class Log:
    """Names by the number of their change; who was away for long finds the beginning gone."""

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
        self.placed: dict[PodKey, Placed] = {}
        self._changes = Log()
        self._gains = Log()

    @property
    def gains(self) -> int:
        """Another number whenever a pod that fitted nowhere might fit now, or does not for another reason."""
        return self._gains.number

    @property
    def revision(self) -> int:
        return self._changes.number

    def gained_since(self, gains: int) -> set[str] | None:
        """The names of the nodes that may be better than they were; None: so long ago that all may be."""
        return self._gains.since(gains)

    def changed_since(self, revision: int) -> set[str] | None:
        """The names of the nodes that are better or worse, or gone."""
        return self._changes.since(revision)

    def put_node(self, obj: Object) -> bool:
        """Whether anything that matters here is new."""
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
        node.described = node.revision
        return True

    def drop_node(self, name: str) -> bool:
        node = self.nodes.get(name)
        if node is None or not node.present:
            return False
        node.present = False
        self._changed(node, gain=True)
        self._forget(node)
        return True

    def place(self, key: PodKey, name: str, shape: Shape) -> bool:
        """Puts the pod there, and nowhere else. Whether another node, or this one, has more room now."""
        old = self.placed.get(key)
        if old is not None and old.node == name and old.shape is shape:
            return False
        gained = self.remove(key)
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name)
        self.placed[key] = Placed(name, shape)
        subtract_from(node.free, shape.requests)
        node.cpu += shape.cpu
        node.memory += shape.memory
        node.ports += shape.ports
        node.pods += 1
        self._changed(node)
        return gained

    def remove(self, key: PodKey) -> bool:
        """Whether it was there."""
        placed = self.placed.pop(key, None)
        if placed is None:
            return False
        node, shape = self.nodes[placed.node], placed.shape
        add_to(node.free, shape.requests)
        node.cpu -= shape.cpu
        node.memory -= shape.memory
        for port in shape.ports:
            node.ports.remove(port)
        node.pods -= 1
        self._changed(node, gain=node.present)
        self._forget(node)
        return True

    def _changed(self, node: Node, *, gain: bool = False) -> None:
        self._changes.add(node.name, len(self.nodes))
        node.revision = self.revision
        if gain:
            self._gains.add(node.name, len(self.nodes))

    def _forget(self, node: Node) -> None:
        if not node.present and not node.pods:
            del self.nodes[node.name]
