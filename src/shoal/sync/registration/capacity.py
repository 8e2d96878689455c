"""Tracks the capacity of a cluster from its nodes and the pods on them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.fit import resources
from shoal.fit.resources import Resources
from shoal.objects.conditions import condition_is

Object = dict[str, Any]
Key = tuple[str, str]

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node:
    ready: bool
    schedulable: bool
    capacity: Resources
    allocatable: Resources


@dataclass(slots=True)
class Ledger:
    """Capacity of one cluster. Finished and unassigned pods use nothing."""

    nodes: dict[str, Node] | None = None
    """None: not known yet."""
    pods: dict[Key, tuple[str, Resources]] | None = None
    """None: not known, or not readable."""
    unreadable: bool = False
    """Pods cannot be read in this cluster."""
    used: dict[str, Resources] = field(default_factory=dict)
    """By node."""

    @property
    def known(self) -> bool:
        return self.nodes is not None and (self.pods is not None or self.unreadable)

    def nodes_listed(self, found: list[Object]) -> None:
        self.nodes = {}
        for obj in found:
            self.node_changed("ADDED", obj)

    def node_changed(self, event: str, obj: Object) -> None:
        if self.nodes is None:
            return
        if event == "DELETED":
            self.nodes.pop(obj["metadata"]["name"], None)
        else:
            self.nodes[obj["metadata"]["name"]] = _node(obj)

    def pods_listed(self, found: list[Object]) -> None:
        self.pods, self.used, self.unreadable = {}, {}, False
        for obj in found:
            self.pod_changed("ADDED", obj)

    def pod_changed(self, event: str, obj: Object) -> None:
        if self.pods is None:
            return
        key = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        node, taken = self.pods.pop(key, ("", {}))
        if node:
            resources.subtract_from(self.used[node], taken)
        node = (obj.get("spec") or {}).get("nodeName") or ""
        ended = (obj.get("status") or {}).get("phase") in ENDED
        if event != "DELETED" and node and not ended:
            taken = resources.pod_requests(obj)
            self.pods[key] = node, taken
            resources.add_to(self.used.setdefault(node, {}), taken)

    def totals(self) -> Object:
        """In the form of a workload Cluster's status."""
        ready = {name: node for name, node in (self.nodes or {}).items() if node.ready}
        found = {
            "capacity": _wire(resources.total(node.capacity for node in ready.values())),
            "allocatable": _wire(resources.total(node.allocatable for node in ready.values())),
        }
        if self.pods is not None:
            left = (self._left(name, node) for name, node in ready.items() if node.schedulable)
            found["available"] = _wire(resources.total(left))
        return found

    def _left(self, name: str, node: Node) -> Resources:
        used = self.used.get(name) or {}
        return {resource: max(amount - used.get(resource, 0), 0) for resource, amount in node.allocatable.items()}


def crosses_zero(before: Object, after: Object) -> bool:
    """Whether a resource was used up or became available again: such a change is written at once."""
    old, new = before.get("available"), after.get("available")
    if old is None or new is None:
        return old is not new
    return any((old.get(name, "0") == "0") != (new.get(name, "0") == "0") for name in {*old, *new})


def _node(obj: Object) -> Node:
    schedulable = not (obj.get("spec") or {}).get("unschedulable")
    return Node(condition_is(obj, "Ready"), schedulable, resources.capacity(obj), resources.allocatable(obj))


def _wire(found: Resources) -> dict[str, str]:
    return dict(sorted(resources.quantities(found).items()))
