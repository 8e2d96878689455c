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

from shoal.fit.affinity import selected
from shoal.fit.headroom import headroom
from shoal.fit.ports import host_ports
from shoal.fit.resources import CPU, MEMORY, Resources, fits, pod_requests, subtract, subtract_from, total
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import template_labels, template_spec
from shoal.provision.cloudprovider import InstanceType
from shoal.provision.disruption.model import Command, Settings
from shoal.provision.disruption.prices import offerings
from shoal.provision.pods import largest_first
from shoal.provision.settings import KARPENTER
from shoal.provision.simulation.model import NewClaim, Place, Plan, Pool, Question
from shoal.provision.simulation.rule import simulate

Object = dict[str, Any]
Key = tuple[bytes, tuple[tuple[str, int], ...]]

_ASKS = ("nodeSelector", "affinity", "tolerations")


@dataclass(slots=True)
class Room:
    """A node while pods are added."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Object]
    free: Resources
    cpu: int
    memory: int
    """Total allocatable cpu and memory."""
    taken: int = 0
    """Number of pods added; invalidates older heap entries."""

    def copy(self) -> Room:
        return Room(self.name, self.labels, self.taints, dict(self.free), self.cpu, self.memory)

    def take(self, requests: Resources) -> None:
        subtract_from(self.free, requests)
        self.taken += 1

    def headroom(self, requests: Resources) -> int:
        cpu = self.cpu - self.free.get(CPU, 0) + requests.get(CPU, 0)
        memory = self.memory - self.free.get(MEMORY, 0) + requests.get(MEMORY, 0)
        return headroom(cpu, self.cpu, memory, self.memory)

    def welcomes(self, spec: Object) -> bool:
        tolerated = untolerated(self.taints, spec.get("tolerations") or ()) is None
        return tolerated and selected(spec, self.name, self.labels)


@dataclass(slots=True)
class _Line:
    """Heap of nodes by preference of pods with equal constraints."""

    requests: Resources
    heap: list[tuple[int, str, int, Room]] = field(default_factory=list)

    def offer(self, room: Room) -> None:
        if fits(self.requests, room.free):
            heapq.heappush(self.heap, (-room.headroom(self.requests), room.name, room.taken, room))

    def best(self) -> Room | None:
        """Headroom only decreases, so a stale entry is never too low."""
        while self.heap:
            _, _, taken, room = self.heap[0]
            if taken == room.taken:
                return room
            heapq.heappop(self.heap)
            self.offer(room)
        return None


def foreseen(command: Command, question: Question, settings: Settings) -> Command | None:
    """Adds the cost of nodes that must be bought in addition. Returns None if the command is then not worthwhile or
    pods would stay pending. Karpenter does not predict this.
    """
    if settings.planner == KARPENTER:
        return command
    went, left = outcome(question, command.plan, command.replacements)
    if not left:
        return replace(command, places=went)
    plan = simulate(replace(question, pods=left, places=(), promised={}))
    found = replace(command, places=went, spill=plan.cost)
    worth = not (plan.failures or plan.waiting) and found.savings > found.cost * settings.least_saving
    return found if worth else None


def outcome(question: Question, plan: Plan, claims: Sequence[NewClaim]) -> tuple[dict[str, str], list[Object]]:
    """Like `place_pods`, for all pods of the plan. `claims`: new NodeClaims of the command."""
    pools = {pool.name: pool for pool in question.pools}
    planned = {pod["metadata"]["uid"]: name for pod, _, name in plan.nominations}
    planned |= {pod["metadata"]["uid"]: claim.name for claim in claims for pod in claim.pods}
    rooms = {place.name: room_of(place) for place in question.places}
    rooms |= {claim.name: _bought(claim, pools[claim.pool]) for claim in claims}
    fixed, free = {}, []
    for pod in question.pods:
        uid = pod["metadata"]["uid"]
        if uid in planned and is_bound(pod):
            fixed[uid] = planned[uid]
            rooms[planned[uid]].take(pod_requests(pod))
        elif uid in planned:
            free.append(pod)
    went, left = placed(free, rooms.values())
    return fixed | went, left


def placed(pods: Iterable[Object], rooms: Iterable[Room]) -> tuple[dict[str, str], list[Object]]:
    """Returns the node of each pod by uid, and the pods without one."""
    rooms = [room.copy() for room in rooms]
    lines: dict[Key, _Line] = {}
    went: dict[str, str] = {}
    left = []
    for pod in largest_first(pods):
        requests = pod_requests(pod)
        key = orjson.dumps([pod["spec"].get(name) for name in _ASKS]), tuple(requests.items())
        line = lines.get(key)
        if line is None:
            line = lines[key] = _Line(requests)
            for room in rooms:
                if room.welcomes(pod["spec"]):
                    line.offer(room)
        best = line.best()
        if best is None:
            left.append(pod)
        else:
            best.take(requests)
            went[pod["metadata"]["uid"]] = best.name
    return went, left


def is_bound(pod: Object) -> bool:
    """True if the pod stays on the planned node because of other pods, volumes or ports."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    social = affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints")
    claims = any("persistentVolumeClaim" in each or "ephemeral" in each for each in spec.get("volumes") or ())
    return bool(social) or claims or bool(host_ports(pod))


def room_of(place: Place) -> Room:
    has = total([place.free, *map(pod_requests, place.pods)])
    return Room(place.name, place.labels, place.taints, dict(place.free), has.get(CPU, 0), has.get(MEMORY, 0))


def room_for(claim: NewClaim, kind: InstanceType, pool: Pool, name: str = "") -> Room:
    """Room of a node of this type launched for the claim."""
    cheapest = min(offerings(kind, claim), key=lambda each: each.price, default=None)
    labels = {
        **claim.requirements.labels(),
        **(cheapest.labels if cheapest is not None else {}),
        **claim.labels,
        **template_labels(pool.pool),
    }
    taints = [*(template_spec(pool.pool).get("taints") or ()), *claim.taints]
    has = kind.allocatable
    daemons = subtract(claim.requests, total(map(pod_requests, claim.pods)))
    return Room(name or claim.name, labels, taints, subtract(has, daemons), has.get(CPU, 0), has.get(MEMORY, 0))


def _bought(claim: NewClaim, pool: Pool) -> Room:
    """Room of the cheapest type of the claim."""
    return room_for(claim, next(kind for kind in pool.types if kind.name == claim.types[0]), pool)
