"""Nodes, NodeClaims and pods for disruption decisions without a server, and the effect of a command on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.clock import rfc3339
from shoal.fit.resources import Resources, pod_requests, subtract_from
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODE_POOL_LABEL,
    ZONE,
    nodepool_template_spec,
)
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.disruption.model import Command, DisruptionSnapshot, StateNode
from shoal.provision.disruption.prices import available_offerings, node_price
from shoal.provision.simulation.model import ExistingNode, NewNodeClaim, NodePoolInput, SchedulingInput
from tests.provision.catalogue import pool as pool_of

Object = dict[str, Any]
NOW = 1_700_000_000.0
_numbers = itertools.count(1)


def conditions(*names: str, at: float = NOW - 3600) -> list[Object]:
    return [{"type": name, "status": "True", "lastTransitionTime": rfc3339(at)} for name in names]


@dataclass
class Node:
    name: str
    kind: InstanceType
    pods: list[Object]
    pool: str = "default"
    zone: str = "a"
    capacity_type: str = "on-demand"
    ready: bool = True
    busy: bool = False
    nominated: bool = False
    conditions: list[Object] = field(default_factory=lambda: conditions("Launched", "Initialized", "Consolidatable"))
    annotations: dict[str, str] = field(default_factory=dict)
    claim_annotations: dict[str, str] = field(default_factory=dict)
    spec: Object = field(default_factory=dict)
    going: bool = False

    @property
    def labels(self) -> dict[str, str]:
        return {
            INSTANCE_TYPE: self.kind.name,
            ZONE: self.zone,
            CAPACITY_TYPE: self.capacity_type,
            NODE_POOL_LABEL: self.pool,
            HOSTNAME: self.name,
        }

    @property
    def free(self) -> Resources:
        left = dict(self.kind.allocatable)
        for pod in self.pods:
            subtract_from(left, pod_requests(pod))
        return left

    def standing(self) -> StateNode:
        ready = [{"type": "Ready", "status": "True" if self.ready else "False"}]
        stamp: Object = {"deletionTimestamp": rfc3339(NOW)} if self.going else {}
        metadata = {"name": self.name, "uid": f"node-{self.name}", "labels": self.labels}
        node = {
            "metadata": {**metadata, "annotations": self.annotations},
            "spec": {"providerID": f"p://{self.name}"},
            "status": {"conditions": ready},
        }
        claim = {
            "metadata": {
                "name": f"c-{self.name}",
                "uid": f"claim-{self.name}",
                "labels": self.labels,
                "annotations": self.claim_annotations,
                "creationTimestamp": rfc3339(NOW - 7200),
                **stamp,
            },
            "spec": {"requirements": [], **self.spec},
            "status": {"providerID": f"p://{self.name}", "conditions": self.conditions},
        }
        return StateNode(node, claim, tuple(self.pods), self.nominated, self.busy)

    def place(self, taints: Sequence[Object] = ()) -> ExistingNode:
        return ExistingNode(
            self.name, "Node", self.labels, taints, self.free, pods=list(self.pods), node_claim=f"c-{self.name}"
        )


class Fleet:
    def __init__(self, *pools: NodePoolInput) -> None:
        self.pools = list(pools) or [pool_of(disruption=every())]
        self.nodes: list[Node] = []
        self.pending: list[Object] = []
        self.pdbs: list[Object] = []

    def add(self, kind: InstanceType, pods: Iterable[Object] = (), **more: Any) -> Node:
        node = Node(more.pop("name", "") or f"n{next(_numbers):04}", kind, [], **more)
        for pod in pods:
            self.bind(pod, node)
        self.nodes.append(node)
        return node

    def bind(self, pod: Object, node: Node) -> None:
        node.pods.append({**pod, "spec": {**pod["spec"], "nodeName": node.name}})

    def snapshot(self, now: float = NOW) -> DisruptionSnapshot:
        taints = {pool.name: nodepool_template_spec(pool.node_pool).get("taints") or () for pool in self.pools}
        question = SchedulingInput(
            pods=list(self.pending),
            existing_nodes=[
                node.place(taints.get(node.pool, ())) for node in self.nodes if not (node.going or node.busy)
            ],
            node_pools=list(self.pools),
        )
        return DisruptionSnapshot(question, tuple(node.standing() for node in self.nodes), tuple(self.pdbs), now)

    @property
    def cost(self) -> float:
        return sum(node_price(self._kind(node), node.labels) for node in self.nodes)

    def priced(self, change: Callable[[InstanceType], float]) -> None:
        """Other prices from now on."""
        self.pools = [
            replace(
                pool,
                types=[
                    replace(kind, offerings=tuple(replace(each, price=change(kind)) for each in kind.offerings))
                    for kind in pool.types
                ],
            )
            for pool in self.pools
        ]

    def apply(self, command: Command, choose: Callable[[Sequence[str]], str] = lambda types: types[0]) -> None:
        """`choose`: which of the types that a replacement may have it gets."""
        gone = {each.name for each in command.candidates}
        self.nodes = [node for node in self.nodes if node.name not in gone]
        waited = {pod["metadata"]["uid"] for pod in self.pending}
        moved = [pod for each in command.candidates for pod in each.pods]
        by_uid = {pod["metadata"]["uid"]: pod for pod in [*self.pending, *moved]}
        for pod, _, name in command.results.nominations:
            self.bind(by_uid.pop(pod["metadata"]["uid"]), next(node for node in self.nodes if node.name == name))
        for claim in command.replacements:
            self._buy(claim, choose(claim.types), by_uid)
        self.pending = [pod for uid, pod in by_uid.items() if uid in waited]
        assert not set(by_uid) - waited, "a pod lost its node"
        for node in self.nodes:
            assert all(amount >= 0 for amount in node.free.values()), f"{node.name} holds more than it has"

    def _buy(self, claim: NewNodeClaim, type_: str, by_uid: dict[str, Object]) -> None:
        pool = next(pool for pool in self.pools if pool.name == claim.pool)
        kind = next(kind for kind in pool.types if kind.name == type_)
        cheapest = min(available_offerings(kind, claim), key=lambda each: each.price)
        pods = [by_uid.pop(pod["metadata"]["uid"]) for pod in claim.pods]
        self.add(kind, pods, pool=claim.pool, zone=cheapest.labels[ZONE], capacity_type=cheapest.labels[CAPACITY_TYPE])

    def _kind(self, node: Node) -> InstanceType:
        pool = next(pool for pool in self.pools if pool.name == node.pool)
        return next(kind for kind in pool.types if kind.name == node.kind.name)


def every(nodes: str = "100%", **more: Any) -> Object:
    return {"consolidateAfter": "0s", "budgets": [{"nodes": nodes}], **more}


def names(command: Command | None) -> list[str]:
    return sorted(each.name for each in command.candidates) if command is not None else []


def pdb(labels: dict[str, str], allowed: int, namespace: str = "default", **spec: Any) -> Object:
    return {
        "metadata": {"name": f"pdb{next(_numbers)}", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }
