"""Model of kube-scheduler's placement of a plan's pods. It binds one pod after the other to the feasible node with the
most headroom, so pods of several sizes are placed differently than planned, and some may stay pending. Pure.

Pods come largest first, as they are evicted. Pods with pod affinity, topology spread, volumes or host ports keep the
planned node, because the scheduler has little choice there.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from shoal.fit.affinity import matches_node_affinity
from shoal.fit.ports import host_ports
from shoal.fit.resource_score import resource_score
from shoal.fit.resources import CPU, MEMORY, Resources, fits, pod_requests, subtract, subtract_from, total
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import nodepool_template_labels, nodepool_template_spec
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.disruption.model import Command, DisruptionSettings
from shoal.provision.disruption.prices import available_offerings
from shoal.provision.pods import largest_first
from shoal.provision.settings import KARPENTER
from shoal.provision.simulation.model import ExistingNode, NewNodeClaim, NodePoolInput, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate

Object = dict[str, Any]
PodKey = tuple[bytes, tuple[tuple[str, int], ...]]

_NODE_SELECTION_FIELDS = ("nodeSelector", "affinity", "tolerations")


@dataclass(slots=True)
class NodeRoom:
    """A node while pods are added."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Object]
    free: Resources
    total_cpu: int
    total_memory: int
    """Total allocatable cpu and memory."""
    pods_added: int = 0
    """Number of pods added; invalidates older heap entries."""

    def copy(self) -> NodeRoom:
        return NodeRoom(self.name, self.labels, self.taints, dict(self.free), self.total_cpu, self.total_memory)

    def add_pod(self, requests: Resources) -> None:
        subtract_from(self.free, requests)
        self.pods_added += 1

    def headroom_after(self, requests: Resources) -> int:
        cpu = self.total_cpu - self.free.get(CPU, 0) + requests.get(CPU, 0)
        memory = self.total_memory - self.free.get(MEMORY, 0) + requests.get(MEMORY, 0)
        return resource_score(cpu, self.total_cpu, memory, self.total_memory)

    def admits(self, spec: Object) -> bool:
        tolerated = first_untolerated(self.taints, spec.get("tolerations") or ()) is None
        return tolerated and matches_node_affinity(spec, self.name, self.labels)


@dataclass(slots=True)
class _NodeHeap:
    """Heap of nodes by preference of pods with equal constraints."""

    requests: Resources
    heap: list[tuple[int, str, int, NodeRoom]] = field(default_factory=list)

    def push(self, room: NodeRoom) -> None:
        if fits(self.requests, room.free):
            heapq.heappush(self.heap, (-room.headroom_after(self.requests), room.name, room.pods_added, room))

    def best(self) -> NodeRoom | None:
        """Headroom only decreases, so a stale entry is never too low."""
        while self.heap:
            _, _, pushed_at, room = self.heap[0]
            if pushed_at == room.pods_added:
                return room
            heapq.heappop(self.heap)
            self.push(room)
        return None


def predict(command: Command, inputs: SchedulingInput, settings: DisruptionSettings) -> Command | None:
    """Adds the cost of nodes that must be bought in addition. Returns None if the command is then not worthwhile or
    pods would stay pending. Karpenter does not predict this.
    """
    if settings.planner == KARPENTER:
        return command
    placements, unplaced = predict_placements(inputs, command.results, command.replacements)
    if not unplaced:
        return replace(command, pod_placements=placements)
    extra = simulate(replace(inputs, pods=unplaced, existing_nodes=(), nominated={}))
    predicted = replace(command, pod_placements=placements, extra_cost=extra.cost)
    worth = (
        not (extra.failures or extra.awaiting_reservation)
        and predicted.savings > predicted.cost * settings.min_saving_share
    )
    return predicted if worth else None


def predict_placements(
    inputs: SchedulingInput, plan: Results, claims: Sequence[NewNodeClaim]
) -> tuple[dict[str, str], list[Object]]:
    """Like `place_pods`, for all pods of the plan. `claims`: new NodeClaims of the command."""
    pools = {pool.name: pool for pool in inputs.node_pools}
    planned = {pod["metadata"]["uid"]: name for pod, _, name in plan.nominations}
    planned |= {pod["metadata"]["uid"]: claim.name for claim in claims for pod in claim.pods}
    rooms = {node.name: room_of_node(node) for node in inputs.existing_nodes}
    rooms |= {claim.name: _cheapest_room(claim, pools[claim.pool]) for claim in claims}
    fixed, free = {}, []
    for pod in inputs.pods:
        uid = pod["metadata"]["uid"]
        if uid in planned and keeps_planned_node(pod):
            fixed[uid] = planned[uid]
            rooms[planned[uid]].add_pod(pod_requests(pod))
        elif uid in planned:
            free.append(pod)
    placements, unplaced = place_pods(free, rooms.values())
    return fixed | placements, unplaced


def place_pods(pods: Iterable[Object], rooms: Iterable[NodeRoom]) -> tuple[dict[str, str], list[Object]]:
    """Returns the node of each pod by uid, and the pods without one."""
    rooms = [room.copy() for room in rooms]
    heaps: dict[PodKey, _NodeHeap] = {}
    placements: dict[str, str] = {}
    unplaced = []
    for pod in largest_first(pods):
        requests = pod_requests(pod)
        key = orjson.dumps([pod["spec"].get(name) for name in _NODE_SELECTION_FIELDS]), tuple(requests.items())
        heap = heaps.get(key)
        if heap is None:
            heap = heaps[key] = _NodeHeap(requests)
            for room in rooms:
                if room.admits(pod["spec"]):
                    heap.push(room)
        best = heap.best()
        if best is None:
            unplaced.append(pod)
        else:
            best.add_pod(requests)
            placements[pod["metadata"]["uid"]] = best.name
    return placements, unplaced


def keeps_planned_node(pod: Object) -> bool:
    """True if the pod stays on the planned node because of other pods, volumes or ports."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    has_pod_constraints = (
        affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints")
    )
    has_volumes = any("persistentVolumeClaim" in each or "ephemeral" in each for each in spec.get("volumes") or ())
    return bool(has_pod_constraints) or has_volumes or bool(host_ports(pod))


def room_of_node(node: ExistingNode) -> NodeRoom:
    total_resources = total([node.free, *map(pod_requests, node.pods)])
    return NodeRoom(
        node.name,
        node.labels,
        node.taints,
        dict(node.free),
        total_resources.get(CPU, 0),
        total_resources.get(MEMORY, 0),
    )


def room_of_claim(claim: NewNodeClaim, kind: InstanceType, pool: NodePoolInput, name: str = "") -> NodeRoom:
    """Room of a node of this type launched for the claim."""
    cheapest = min(available_offerings(kind, claim), key=lambda each: each.price, default=None)
    labels = {
        **claim.requirements.labels(),
        **(cheapest.labels if cheapest is not None else {}),
        **claim.labels,
        **nodepool_template_labels(pool.node_pool),
    }
    taints = [*(nodepool_template_spec(pool.node_pool).get("taints") or ()), *claim.taints]
    allocatable = kind.allocatable
    overhead = subtract(claim.requests, total(map(pod_requests, claim.pods)))
    return NodeRoom(
        name or claim.name,
        labels,
        taints,
        subtract(allocatable, overhead),
        allocatable.get(CPU, 0),
        allocatable.get(MEMORY, 0),
    )


def _cheapest_room(claim: NewNodeClaim, pool: NodePoolInput) -> NodeRoom:
    """Room of the cheapest type of the claim."""
    return room_of_claim(claim, next(kind for kind in pool.types if kind.name == claim.types[0]), pool)
