"""Karpenter's scheduling algorithm: pods by size, each onto the first feasible node; new nodes keep all types that
still fit.

Existing nodes come first, then in-flight NodeClaims with the fewest pods, then a new NodeClaim of the heaviest feasible
NodePool. A pod that fits nowhere relaxes its preferences one by one. Then it is queued again as long as other pods are
still being placed. Pure. Pods with equal constraints share computed values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from shoal.fit.ports import clash
from shoal.fit.resources import CPU, MEMORY, add_to, fits, subtract_from
from shoal.fit.taints import PREFER_NO_SCHEDULE
from shoal.kinds.karpenter import template_spec
from shoal.provision.simulation.asking import Asking
from shoal.provision.simulation.bins import Claim, Claims, Spot
from shoal.provision.simulation.groups import APART, Group
from shoal.provision.simulation.intake import Spots, askings, in_order
from shoal.provision.simulation.model import BEST_EFFORT, NODES, Question
from shoal.provision.simulation.reserving import Reservations, Rooms
from shoal.provision.simulation.shapes import Shape, Shapes
from shoal.provision.simulation.states import State
from shoal.provision.simulation.templates import Template, templates
from shoal.provision.simulation.topology import Topology, selector_keys

Object = dict[str, Any]

PLACED = "placed"


class Round:
    """One run of the algorithm. Its attributes hold the decisions."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.templates = templates(question)
        places = in_order(question.places)
        keys = selector_keys(question)
        self.topology = Topology(question, places, keys)
        prefers = any(
            taint.get("effect") == PREFER_NO_SCHEDULE
            for pool in question.pools
            for taint in template_spec(pool.pool).get("taints") or ()
        )
        self.shapes = Shapes(self.topology, prefers)
        self.claims = Claims()
        self.reservations, self.rooms = Reservations(question), Rooms()
        self.left = {
            pool.name: {name: amount - pool.used.get(name, 0) for name, amount in pool.limits.items()}
            for pool in question.pools
        }
        """Remaining limits by NodePool."""
        self._within: dict[str, dict[Template, int]] = {}
        self.nominated: list[tuple[Object, Spot]] = []
        self.failed: list[tuple[Object, Asking | None, str]] = []
        """Pod, its PodData (None for an invalid pod), and the reservation it waits for or the error; empty if there is
        neither.
        """
        self._progress = 0
        self.askings = askings(question, keys)
        distinct = [each for each in {id(each): each for each in self.askings.values()}.values() if not each.problem]
        for each in distinct:
            self.shapes.oppose(each)
        for each in distinct:
            self.shapes.first(each)
        self.spots = Spots(places, distinct, self.topology)

    def run(self, stop: Callable[[], bool]) -> None:
        queue: deque[Object] = deque()
        for pod in sorted(self.question.pods, key=self._size):
            problem = self.askings[pod["metadata"]["uid"]].problem
            if problem:
                self.failed.append((pod, None, problem))
            elif not self._keep_promise(pod):
                queue.append(pod)
        last: dict[str, int] = {}
        waits: dict[str, str] = {}
        while queue and not stop():
            pod = queue[0]
            uid = pod["metadata"]["uid"]
            if last.get(uid) == len(queue):
                break  # every queued pod was tried since the last placement
            queue.popleft()
            waits[uid] = self._try(pod, self.shapes.first(self.askings[uid]))
            if waits[uid] != PLACED:
                queue.append(pod)
                last[uid] = len(queue)
        for pod in queue:
            uid = pod["metadata"]["uid"]
            self.failed.append((pod, self.askings[uid], waits.get(uid, "")))

    def _try(self, pod: Object, shape: Shape) -> str:
        """Returns PLACED, or the reservation the pod waits for, or ""."""
        first = shape
        if first.failed_at == self._progress:
            return first.failure
        while True:
            shape.scope.refresh()
            if self._to_places(pod, shape) or self._to_claims(pod, shape):
                return PLACED
            waits = self._to_new(pod, shape)
            if waits == PLACED:
                return PLACED
            less = self.shapes.relaxed(shape) if not waits else None
            if less is None:
                first.failed_at, first.failure = self._progress, waits
                return waits
            shape = less

    def _keep_promise(self, pod: Object) -> bool:
        spot = self.spots.by_name.get(self.question.promised.get(pod["metadata"]["uid"], ""))
        shape: Shape | None = self.shapes.first(self.askings[pod["metadata"]["uid"]]) if spot is not None else None
        while shape is not None and spot is not None:
            shape.scope.refresh()
            if self._to_places(pod, shape, spot.bit):
                return True
            shape = self.shapes.relaxed(shape)
        return False

    def _to_places(self, pod: Object, shape: Shape, among: int = -1) -> bool:
        suiting, scope = 0, shape.scope
        for state, bits in self.spots.by_state.items():
            if scope.options(state):
                suiting |= bits
        suiting &= among & ~shape.refused_places
        if not suiting:
            return False
        suiting &= scope.hosts(0)
        if (pod.get("spec") or {}).get("nodeName"):
            suiting &= ~self.spots.settling
        while suiting:
            bit = suiting & -suiting
            spot = self.spots.all[bit.bit_length() - 1]
            named = scope.host is None or scope.host.has(spot.host)
            if named and fits(shape.requests, spot.free) and not (shape.ports and clash(shape.ports, spot.ports)):
                subtract_from(spot.free, shape.requests)
                spot.ports |= shape.ports
                self.nominated.append((pod, spot))
                self._record(shape, spot.state, 0, bit, spot.host)
                return True
            shape.refused_places |= bit
            suiting ^= bit
        return False

    def _to_claims(self, pod: Object, shape: Shape) -> bool:
        scope, suiting = shape.scope, 0
        if not scope.allows_claims():
            return False
        refused = shape.refused
        for state, bits in self.claims.by_state.items():
            options = scope.options(state)
            if options:
                suiting |= bits & ~refused.get(options, 0)
        if suiting:
            suiting &= scope.hosts(1)
        if not suiting:
            return False
        for claim in self.claims.among(suiting):
            options = scope.options(claim.state)
            permanent = True
            for state in options:
                types = claim.types & state.mask & claim.template.space.holding(shape.requests, claim.used)
                if not types or not self._flexible(claim, types) or (shape.ports and self._clash(shape, claim, types)):
                    continue
                if shape.ports:
                    types &= ~claim.template.clashing(shape.ports)
                permanent = False  # a reservation or offering that is taken now may be released
                if self._add(pod, shape, claim, state, types) == PLACED:
                    return True
            if permanent:
                refused[options] = refused.get(options, 0) | claim.bit
        return False

    def _to_new(self, pod: Object, shape: Shape) -> str:
        """Returns PLACED, or the reservation the pod waits for, or ""."""
        if not shape.scope.allows_new():
            return ""
        for template in self.templates:
            within = self._limited(template)
            waits = ""
            for state in shape.scope.options(template.base) if within else ():
                types = within & state.mask & template.space.holding(shape.requests, {})
                if shape.ports:
                    types &= ~template.clashing(shape.ports)
                if not types:
                    continue
                claim = Claim(len(self.claims.all), template, state, types)
                if not self._flexible(claim, types) and not self._relax_flexibility(claim, types):
                    continue
                waits = self._add(pod, shape, claim, state, types)
                if waits == PLACED:
                    return PLACED
            if waits:
                return waits
        return ""

    def _add(self, pod: Object, shape: Shape, claim: Claim, state: State, types: int) -> str:
        template = claim.template
        if template.reserved:
            reserved, waits = self.reservations.open(claim, state, types)
            if waits:
                return waits
        if template.limited and not self.rooms.hold(claim, state, types):
            return ""
        if template.reserved:
            self.reservations.hold(claim, reserved)
        claim.types = types
        claim.pods.append((pod, shape))
        claim.ports |= shape.ports
        add_to(claim.used, shape.requests)
        if claim.count:
            self.claims.moved(claim, state)
        else:
            self.claims.append(claim)
            self._take_limits(template, types)
        self._record(shape, state, 1, claim.bit, claim.host)
        return PLACED

    def _record(self, shape: Shape, state: State, side: int, bit: int, host: str) -> None:
        self._progress += 1
        taints = state.side.taints
        for group in shape.counted(self.topology):
            if group.counted(state, taints):
                self._count(group, state, side, bit, host)
        for group in shape.opposing:
            self._count(group, state, side, bit, host)

    def _count(self, group: Group, state: State, side: int, bit: int, host: str) -> None:
        """Anti-affinity counts every possible domain of the node. Other groups count only a domain that is certain."""
        if group.by_host:
            group.record_host(host, side, bit)
            return
        known = state.requirements.get(group.key)
        if known is None or known.complement:
            return
        if group.kind == APART or len(known.values) == 1:
            for domain in known.values:
                group.record(domain)

    def _flexible(self, claim: Claim, types: int) -> bool:
        return all(claim.template.values(key, types) >= least for key, least in claim.least)

    def _relax_flexibility(self, claim: Claim, types: int) -> bool:
        if self.question.min_values != BEST_EFFORT:
            return False
        claim.least = tuple((key, min(least, claim.template.values(key, types))) for key, least in claim.least)
        claim.relaxed = True
        return True

    def _clash(self, shape: Shape, claim: Claim, types: int) -> bool:
        return clash(shape.ports, claim.ports) or not types & ~claim.template.clashing(shape.ports)

    def _limited(self, template: Template) -> int:
        """Types that the remaining limits of the pool allow."""
        known = self._within.setdefault(template.name, {})
        found = known.get(template)
        if found is None:
            left = self.left[template.name]
            found = template.all & template.capacity.within(left) if left.get(NODES, 1) > 0 else 0
            known[template] = found
        return found

    def _take_limits(self, template: Template, types: int) -> None:
        """Subtracts the largest of the types, because any of them may be launched."""
        left = self.left[template.name]
        for name in left:
            left[name] -= 1 if name == NODES else template.capacity.highest(name, types)
        if left:
            self._within.pop(template.name, None)

    def _size(self, pod: Object) -> tuple[int, int, str, str]:
        requests, metadata = self.askings[pod["metadata"]["uid"]].requests, pod["metadata"]
        return -requests.get(CPU, 0), -requests.get(MEMORY, 0), metadata.get("creationTimestamp") or "", metadata["uid"]
