"""Tracks the capacity of a cluster from its nodes and the pods on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fit import resources
from shoal.fit.resources import Resources
from shoal.fit.taints import HARD_EFFECTS
from shoal.kinds.workload.workloadcluster import NODE_GROUPS, NODE_POOLS, OMITTED_NODE_LABELS
from shoal.objects.conditions import condition_is
from shoal.sync.registration.node_groups import MAX_POOLS, NodeRoom, group_nodes, published_pool

Object = dict[str, Any]
Key = tuple[str, str]

FINISHED_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    ready: bool
    schedulable: bool
    capacity: Resources
    allocatable: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()


@dataclass(slots=True)
class ClusterCapacity:
    """Capacity of one cluster. Finished and unassigned pods use nothing."""

    nodes: dict[str, NodeCapacity] | None = None
    """None: not known yet."""
    pods: dict[Key, tuple[str, Resources]] | None = None
    """None: not known, or not readable."""
    pods_unreadable: bool = False
    """Pods cannot be read in this cluster."""
    used: dict[str, Resources] = field(default_factory=dict)
    """By node."""
    pools: dict[str, Object] | None = None
    """What each NodePool could buy; None: not known yet. A cluster without NodePools has none."""

    @property
    def is_known(self) -> bool:
        return self.nodes is not None and (self.pods is not None or self.pods_unreadable)

    def set_nodes(self, objects: list[Object]) -> None:
        self.nodes = {}
        for obj in objects:
            self.on_node("ADDED", obj)

    def on_node(self, event: str, obj: Object) -> None:
        if self.nodes is None:
            return
        if event == "DELETED":
            self.nodes.pop(obj["metadata"]["name"], None)
        else:
            self.nodes[obj["metadata"]["name"]] = _node_capacity(obj)

    def set_pods(self, objects: list[Object]) -> None:
        self.pods, self.used, self.pods_unreadable = {}, {}, False
        for obj in objects:
            self.on_pod("ADDED", obj)

    def on_pod(self, event: str, obj: Object) -> None:
        if self.pods is None:
            return
        key = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        node, requests = self.pods.pop(key, ("", {}))
        if node:
            resources.subtract_from(self.used[node], requests)
        node = (obj.get("spec") or {}).get("nodeName") or ""
        is_finished = (obj.get("status") or {}).get("phase") in FINISHED_PHASES
        if event != "DELETED" and node and not is_finished:
            requests = resources.pod_requests(obj)
            self.pods[key] = node, requests
            resources.add_to(self.used.setdefault(node, {}), requests)

    def set_pools(self, objects: list[Object]) -> None:
        self.pools = {}
        for obj in objects:
            self.on_pool("ADDED", obj)

    def on_pool(self, event: str, obj: Object) -> None:
        if self.pools is None:
            return
        pool = published_pool(obj) if event != "DELETED" else None
        if pool is None:
            self.pools.pop(obj["metadata"]["name"], None)
        else:
            self.pools[obj["metadata"]["name"]] = pool

    def totals(self) -> Object:
        """In the form of a workload Cluster's status."""
        ready = {name: node for name, node in (self.nodes or {}).items() if node.ready}
        totals = {
            "capacity": _quantities(resources.total(node.capacity for node in ready.values())),
            "allocatable": _quantities(resources.total(node.allocatable for node in ready.values())),
        }
        if self.pods is not None:
            available = (self._available_on(name, node) for name, node in ready.items() if node.schedulable)
            totals["available"] = _quantities(resources.total(available))
            if self.pools is not None:
                totals |= self._room(ready)
        return totals

    def _room(self, ready: dict[str, NodeCapacity]) -> Object:
        """The room for pods. It is published as a whole or not at all."""
        groups, omitted = group_nodes(
            NodeRoom(node.labels, node.taints, node.allocatable, self._available_on(name, node))
            for name, node in ready.items()
            if node.schedulable
        )
        pools = [pool for _, pool in sorted((self.pools or {}).items())][:MAX_POOLS]
        return {NODE_GROUPS: groups, NODE_POOLS: pools, OMITTED_NODE_LABELS: omitted}

    def _available_on(self, name: str, node: NodeCapacity) -> Resources:
        used = self.used.get(name) or {}
        return {resource: max(amount - used.get(resource, 0), 0) for resource, amount in node.allocatable.items()}


def crosses_zero(old_status: Object, new_status: Object) -> bool:
    """Whether a resource was used up or became available again: such a change is written at once."""
    old, new = old_status.get("available"), new_status.get("available")
    if old is None or new is None:
        return old is not new
    return any((old.get(name, "0") == "0") != (new.get(name, "0") == "0") for name in {*old, *new})


def _node_capacity(obj: Object) -> NodeCapacity:
    schedulable = not (obj.get("spec") or {}).get("unschedulable")
    taints = tuple(
        {key: each[key] for key in ("key", "value", "effect") if key in each}
        for each in (obj.get("spec") or {}).get("taints") or ()
        if each.get("effect") in HARD_EFFECTS
    )
    return NodeCapacity(
        condition_is(obj, "Ready"),
        schedulable,
        resources.capacity(obj),
        resources.allocatable(obj),
        obj["metadata"].get("labels") or {},
        taints,
    )


def _quantities(amounts: Resources) -> dict[str, str]:
    return dict(sorted(resources.to_quantities(amounts).items()))
