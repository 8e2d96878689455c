"""Model of kube-scheduler's placement of a plan's pods. It binds one pod after the other to the feasible node with the
most headroom and few pods of the same controller nearby, so pods of several sizes are placed differently than planned,
and some may stay pending. Pure.

The pods of one controller stand for those that its selector and its Services select. A Service of pods without such a
controller is not modelled.
Pods come largest first, as they are evicted. Pods with pod affinity, topology spread, volumes or host ports keep the
planned node, because the scheduler has little choice there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from shoal.fit.affinity import matches_node_affinity
from shoal.fit.default_spread import ZONE, DomainSizes, owner_reference, spread_score
from shoal.fit.ports import host_ports
from shoal.fit.resource_score import resource_score
from shoal.fit.resources import CPU, MEMORY, Resources, fits, pod_requests, subtract, subtract_from, total
from shoal.fit.taints import first_untolerated
from shoal.fit.topology import SPREAD_WEIGHT, normalized_skew
from shoal.kinds.karpenter.karpenter import is_deleting, nodepool_template_labels, nodepool_template_spec
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
    pods_by_owner: dict[str, int] = field(default_factory=dict)
    """Number of pods by the uid of their controller."""
    pods_added: int = 0
    """Number of pods added; invalidates older heap entries."""

    def copy(self) -> NodeRoom:
        room = NodeRoom(self.name, self.labels, self.taints, dict(self.free), self.total_cpu, self.total_memory)
        room.pods_by_owner = dict(self.pods_by_owner)
        return room

    def add_pod(self, requests: Resources, owner: str) -> None:
        subtract_from(self.free, requests)
        self.pods_added += 1
        if owner:
            self.pods_by_owner[owner] = self.pods_by_owner.get(owner, 0) + 1

    def headroom_after(self, requests: Resources) -> int:
        cpu = self.total_cpu - self.free.get(CPU, 0) + requests.get(CPU, 0)
        memory = self.total_memory - self.free.get(MEMORY, 0) + requests.get(MEMORY, 0)
        return resource_score(cpu, self.total_cpu, memory, self.total_memory)

    def admits(self, spec: Object) -> bool:
        tolerated = first_untolerated(self.taints, spec.get("tolerations") or ()) is None
        return tolerated and matches_node_affinity(spec, self.name, self.labels)


_Spread = tuple[str | None, int]
"""Zone of a node, and the number of pods of the controller on it."""
_Entry = tuple[int, str, int, NodeRoom]
"""Negated headroom, name, and the number of pods added so far."""


class _NodeHeap:
    """Nodes by preference of pods with equal constraints and one controller. Nodes of one zone with equally many pods
    of the controller differ in headroom only: each such set has a heap.
    """

    def __init__(self, requests: Resources, owner: str, entries: Sequence[_Entry]) -> None:
        """`entries` of all nodes that admit the pods. Their headroom may have decreased since."""
        self._requests, self._owner = requests, owner
        self._heaps: dict[_Spread, list[_Entry]] = {}
        self._zones: Counter[str | None] = Counter()
        """Number of pods of the controller by zone."""
        for entry in entries:
            spread = zone, pods = self._spread_of(entry[3])
            self._heaps.setdefault(spread, []).append(entry)
            self._zones[zone] += pods
        self._sizes = DomainSizes(len(entries), len(self._zones))
        for heap in self._heaps.values():
            heapq.heapify(heap)

    def push(self, room: NodeRoom) -> None:
        if fits(self._requests, room.free):
            heapq.heappush(self._heaps.setdefault(self._spread_of(room), []), _entry(room, self._requests))

    def pod_added(self, room: NodeRoom) -> None:
        """Called when a pod was placed in the room that `take_best` returned."""
        self._zones[room.labels.get(ZONE)] += 1
        self.push(room)

    def _spread_of(self, room: NodeRoom) -> _Spread:
        return (room.labels.get(ZONE), room.pods_by_owner.get(self._owner, 0)) if self._owner else (None, 0)

    def take_best(self) -> NodeRoom | None:
        """The caller places a pod in the room and calls `pod_added`."""
        tops = [(spread, top) for spread, heap in tuple(self._heaps.items()) if (top := self._top(heap)) is not None]
        if not tops:
            return None
        spread, (_, _, _, room) = tops[0] if len(tops) == 1 else self._least_skewed(tops)
        heapq.heappop(self._heaps[spread])
        return room

    def _least_skewed(self, tops: Sequence[tuple[_Spread, _Entry]]) -> tuple[_Spread, _Entry]:
        zones = self._zones
        skews = [spread_score(pods, zones[zone] if zone is not None else None, self._sizes) for (zone, pods), _ in tops]
        fewest, most = min(skews), max(skews)
        scores = [SPREAD_WEIGHT * normalized_skew(skew, fewest, most) for skew in skews]
        return min(
            zip(scores, tops, strict=True),
            key=lambda candidate: (candidate[1][1][0] - candidate[0], candidate[1][1][1]),
        )[1]

    def _top(self, heap: list[_Entry]) -> _Entry | None:
        """Headroom only decreases, so a stale entry is never too low."""
        while heap:
            top = heap[0]
            if top[2] == top[3].pods_added and fits(self._requests, top[3].free):
                return top
            heapq.heappop(heap)
            self.push(top[3])
        return None


def _entry(room: NodeRoom, requests: Resources) -> _Entry:
    return -room.headroom_after(requests), room.name, room.pods_added, room


def predict(command: Command, inputs: SchedulingInput, settings: DisruptionSettings) -> Command | None:
    """Adds the cost of nodes that must be bought in addition. Returns None if the command is then not worthwhile, if
    pods would stay pending or move to a node that takes no moved pods yet, or if a replacement would stay empty.
    Karpenter does not predict this.
    """
    if settings.planner == KARPENTER:
        return command
    placements, unplaced = predict_placements(inputs, command.results, command.replacements)
    used = set(placements.values())
    if _moved_to_recent_node(inputs, placements) or any(claim.name not in used for claim in command.replacements):
        return None
    if not unplaced:
        return replace(command, pod_placements=placements)
    extra = simulate(replace(inputs, pods=unplaced, existing_nodes=(), nominated={}))
    predicted = replace(command, pod_placements=placements, extra_cost=extra.cost)
    worth = (
        not (extra.failures or extra.awaiting_reservation)
        and predicted.savings > predicted.cost * settings.min_saving_share
    )
    return predicted if worth else None


def _moved_to_recent_node(inputs: SchedulingInput, placements: Mapping[str, str]) -> bool:
    recent = {node.name for node in inputs.existing_nodes if node.pending_pods_only}
    running = (pod for pod in inputs.pods if pod["spec"].get("nodeName")) if recent else ()
    return any(placements.get(pod["metadata"]["uid"]) in recent for pod in running)


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
            rooms[planned[uid]].add_pod(pod_requests(pod), _owner(pod))
        elif uid in planned:
            free.append(pod)
    placements, unplaced = place_pods(free, rooms.values())
    return fixed | placements, unplaced


def place_pods(pods: Iterable[Object], rooms: Iterable[NodeRoom]) -> tuple[dict[str, str], list[Object]]:
    """Returns the node of each pod by uid, and the pods without one."""
    rooms = [room.copy() for room in rooms]
    heaps: dict[tuple[bytes, tuple[tuple[str, int], ...], str], _NodeHeap] = {}
    entries: dict[PodKey, list[_Entry]] = {}
    placements: dict[str, str] = {}
    unplaced = []
    for pod in largest_first(pods):
        requests = pod_requests(pod)
        selection, owner = [pod["spec"].get(name) for name in _NODE_SELECTION_FIELDS], _owner(pod)
        key = orjson.dumps(selection), tuple(requests.items())
        heap = heaps.get((*key, owner))
        if heap is None:
            if key not in entries:
                entries[key] = [_entry(room, requests) for room in rooms if room.admits(pod["spec"])]
            heap = heaps[*key, owner] = _NodeHeap(requests, owner, entries[key])
        best = heap.take_best()
        if best is None:
            unplaced.append(pod)
        else:
            best.add_pod(requests, owner)
            heap.pod_added(best)
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


def _owner(pod: Object) -> str:
    """Returns the uid of the controller whose pods the pod is kept apart from by default; empty if there is none."""
    found = owner_reference(pod)
    return str(found[1].get("uid", "")) if found is not None else ""


def room_of_node(node: ExistingNode) -> NodeRoom:
    total_resources = total([node.free, *map(pod_requests, node.pods)])
    return NodeRoom(
        node.name,
        node.labels,
        node.taints,
        dict(node.free),
        total_resources.get(CPU, 0),
        total_resources.get(MEMORY, 0),
        Counter(owner for pod in node.pods if not is_deleting(pod) and (owner := _owner(pod))),
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
