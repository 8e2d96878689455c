"""A fleet whose evicted pods are placed by the real scheduler code."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.fit.resources import fits, pod_requests, to_quantities
from shoal.provision.disruption.decide import decide
from shoal.provision.disruption.model import Command, DisruptionSettings
from shoal.provision.pods import largest_first
from shoal.provision.simulation.model import SchedulingInput
from shoal.provision.simulation.simulate import simulate
from tests.provision.catalogue import kind, pod, pool
from tests.provision.disruption.fleet import Fleet, Node, every

Object = dict[str, Any]
FAMILIES = {"compute": (2, 0.0425), "general": (4, 0.048), "memory": (8, 0.063)}
"""GiB, and price an hour, for each CPU."""
TYPES = {
    f"{family}-{cpu}": kind(f"{family}-{cpu}", cpu, f"{cpu * ratio}Gi", cpu * price)
    for family, (ratio, price) in FAMILIES.items()
    for cpu in (2, 4, 8, 16)
}
Shape = tuple[str, str]


class Scheduled:
    def __init__(self, budget: str = "20%", settings: DisruptionSettings | None = None) -> None:
        self.fleet = Fleet(pool(types=tuple(TYPES.values()), disruption=every(budget)))
        self.bought: list[str] = []
        """Types, of nodes that no command had asked for."""
        self._settings, self._shapes, self._numbers = (
            settings or DisruptionSettings(),
            EquivalenceClasses(),
            itertools.count(1),
        )

    def scatter(self, replicas: Mapping[Shape, int], types: Iterable[str], seed: int) -> None:
        """What a large fleet looks like when most of its pods have left."""
        dice = random.Random(seed)
        nodes = [self._add(name) for name in types]
        pods = [self._anew(pod(*shape)) for shape, count in replicas.items() for _ in range(count)]
        dice.shuffle(pods)
        for each in pods:
            fitting = [node for node in nodes if fits(pod_requests(each), node.free)]
            self.fleet.bind(each, dice.choice(fitting))
        self.fleet.nodes = [node for node in self.fleet.nodes if node.pods]

    def rest(self, most: int) -> list[Command]:
        """All commands until there is none any more."""
        found: list[Command] = []
        while (command := decide(self.fleet.snapshot(), self._settings).command) is not None:
            found.append(command)
            assert len(found) <= most, "it does not come to rest"
            self.carry_out(command)
        return found

    def carry_out(self, command: Command) -> None:
        gone = {each.name for each in command.candidates}
        moved = [each for node in self.fleet.nodes if node.name in gone for each in node.pods]
        self.fleet.nodes = [node for node in self.fleet.nodes if node.name not in gone]
        for claim in command.replacements:
            self._add(claim.types[0])
        left = self._schedule([self._anew(each) for each in largest_first(moved)])
        while left:
            plan = simulate(SchedulingInput(left, [node.place() for node in self.fleet.nodes], self.fleet.pools))
            for claim in plan.new_node_claims:
                self.bought.append(claim.types[0])
                self._add(claim.types[0])
            left = self._schedule(left)

    def _schedule(self, pods: Iterable[Object]) -> list[Object]:
        """One after the other, as they come; those that are left."""
        home = ClusterScheduler(self._shapes, lambda name: crc32(name.encode()))
        nodes = {node.name: node for node in self.fleet.nodes}
        for node in nodes.values():
            home.on_node(node.name, _object(node))
            for there in node.pods:
                home.on_pod(("default", there["metadata"]["name"]), there)
        left = []
        for each in pods:
            home.on_pod(("default", each["metadata"]["name"]), each)
            binds = [bind for bind in home.schedule_pending(1) if bind.pod.key[1] == each["metadata"]["name"]]
            if binds:
                self.fleet.bind(each, nodes[binds[0].node])
            else:
                left.append(each)
        return left

    def _anew(self, old: Object) -> Object:
        """What a ReplicaSet makes in its place."""
        number = next(self._numbers)
        spec = {key: value for key, value in old["spec"].items() if key != "nodeName"}
        return {**old, "metadata": {**old["metadata"], "name": f"r{number:04}", "uid": f"r-{number:04}"}, "spec": spec}

    def _add(self, type_: str) -> Node:
        """Names and uids are the same in every run: ties are broken by them."""
        return self.fleet.add(TYPES[type_], name=f"n{next(self._numbers):04}")


def _object(node: Node) -> Object:
    status = {"allocatable": to_quantities(node.kind.allocatable)}
    return {"metadata": {"name": node.name, "labels": node.labels}, "spec": {}, "status": status}
