"""Simulated cloud provider: a NodeClaim gets a Node with the label of simulated nodes, like KWOK.

The Node is the instance, so nothing is lost when the process ends. An instance that has not registered yet is known
only in memory and is launched again from its NodeClaim. The kubelet of the Node is simulated elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.karpenter import CLASS_GROUP, CLASS_VERSION, NODE_CLASS, annotation, class_ref, is_going
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.provision.cloudprovider import (
    ClassKind,
    Instance,
    InstanceType,
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    NotYet,
    ProviderError,
    RepairPolicy,
    Told,
)
from shoal.provision.homes import Homes
from shoal.provision.overlaying import Overlays
from shoal.provision.simulator.decide import DRIFTED, is_of, is_ours, machine, node, sold, stocked, suiting, wishes
from shoal.provision.simulator.faults import Faults
from shoal.provision.view import NODES, View

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster and name of the NodeClaim."""

SOLD_OUT_SECONDS = 180.0
"""Time for which an offering that failed to launch is listed as unavailable."""
RETRY_SECONDS = 1.0
ILL_SECONDS = 600.0


class Simulator:
    name = "simulator"

    def __init__(
        self,
        homes: Homes,
        view: View,
        clock: Clock,
        types: Sequence[InstanceType],
        *,
        registration_seconds: float = 0.0,
        faults: Faults | None = None,
    ) -> None:
        """`registration_seconds`: delay between launch and Node."""
        self._homes, self._view, self._clock, self._overlays = homes, view, clock, Overlays(view)
        self._types = sorted(types, key=lambda each: each.name)
        self.registration_seconds, self.faults = registration_seconds, faults or Faults()
        self._starting: dict[Place, Object] = {}
        self._births: asyncio.Queue[Place] = asyncio.Queue()
        self._out: dict[str, float] = {}
        self._told: list[Told] = []

    async def run(self) -> None:
        """Registers Nodes after their delay."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._register(await self._births.get()))

    @property
    def synced(self) -> bool:
        return self._view.synced

    def listen(self, told: Told) -> None:
        self._told.append(told)

    def supported_node_classes(self) -> tuple[ClassKind, ...]:
        """Any node class works; nothing is read from it."""
        return (ClassKind(CLASS_GROUP, CLASS_VERSION, NODE_CLASS),)

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return tuple(RepairPolicy("Ready", status, ILL_SECONDS) for status in ("False", "Unknown"))

    def instance_types(self, cluster: str, node_class: Object) -> list[InstanceType]:
        nodes = [each for place in self._view.nodes.clusters() for each in self._nodes(place)]
        return stocked(self._types, *sold(nodes, self._types), self._unavailable())

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        return None

    async def create(self, cluster: str, claim: Object) -> Instance:
        await self.faults.met("create", self._clock)
        found = await self._find(cluster, claim)
        if found is not None:
            if is_going(found):
                raise InsufficientCapacity(f"machine {found['metadata']['name']} has gone")
            return machine(found)
        wanted = class_ref(claim["spec"]).get("name", "")
        node_class = self._view.classes.get(cluster, wanted)
        if node_class is None or is_going(node_class):
            raise NodeClassNotReady(f"there is no {NODE_CLASS} {wanted!r}")
        bought = self._buy(cluster, claim)
        if self.registration_seconds or self.faults.slow.get("register"):
            self._starting[cluster, claim["metadata"]["name"]] = bought
            self._births.put_nowait((cluster, claim["metadata"]["name"]))
            return machine(bought)
        return machine(await self._make(cluster, claim, bought))

    async def delete(self, cluster: str, claim: Object) -> None:
        await self.faults.met("delete", self._clock)
        name = claim["metadata"]["name"]
        self._starting.pop((cluster, name), None)
        found = await self._find(cluster, claim)
        if found is None or is_going(found):
            # A Node being deleted is held only by the termination finalizer: its instance is off.
            raise NodeClaimNotFound(f"no machine is behind NodeClaim {name}")
        with suppress(NotFound):
            await self._homes.client(cluster).delete(NODES, name, uid=found["metadata"]["uid"])

    def get(self, cluster: str, claim: Object) -> Instance | None:
        found = self._known(cluster, claim)
        return machine(found) if found is not None else None

    def list(self, cluster: str) -> list[Instance]:
        return [machine(each) for each in self._nodes(cluster)]

    def is_drifted(self, cluster: str, claim: Object) -> str:
        found = self._known(cluster, claim)
        if found is None:
            raise NodeClaimNotFound(f"no machine is behind NodeClaim {claim['metadata']['name']}")
        return annotation(found, DRIFTED)

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        found = self._known(cluster, claim)
        if found is None:
            best = suiting(self._priced(cluster, claim), *wishes(claim))
            found = node(claim, *best[0]) if best else None
        return machine(found) if found is not None else None

    def _buy(self, cluster: str, claim: Object) -> Object:
        """Launches the cheapest available offering and remembers unavailable ones."""
        for kind, offering in suiting(self._priced(cluster, claim), *wishes(claim)):
            if offering.name not in self.faults.sold_out:
                return node(claim, kind, offering)
            self._out[offering.name] = self._clock.now() + SOLD_OUT_SECONDS
        raise InsufficientCapacity("no offering that can be had satisfies the requirements and has the resources")

    def _priced(self, cluster: str, claim: Object) -> Sequence[InstanceType]:
        """Types with the overlays of the NodeClaim's pool, as the planner saw them."""
        return self._overlays.types(cluster, self.instance_types(cluster, {}), claim)

    def _unavailable(self) -> set[str]:
        now = self._clock.now()
        return {name for name, until in self._out.items() if until > now}

    def _nodes(self, cluster: str) -> Sequence[Object]:
        there = [each for each in self._view.nodes.of(cluster) if is_ours(each)]
        known = {each["metadata"]["name"] for each in there}
        starting = [each for (place, name), each in self._starting.items() if place == cluster and name not in known]
        return [*there, *starting]

    def _known(self, cluster: str, claim: Object) -> Object | None:
        name = claim["metadata"]["name"]
        found = self._view.nodes.get(cluster, name) or self._starting.get((cluster, name))
        return found if found is not None and is_of(found, claim) else None

    async def _find(self, cluster: str, claim: Object) -> Object | None:
        """Returns None only if the server confirms it: a missing Node may not have reached the cache yet."""
        if not self.synced:
            raise NotYet("the Nodes are not known yet")
        found = self._known(cluster, claim)
        if found is not None:
            return found
        try:
            found = await self._homes.client(cluster).get(NODES, claim["metadata"]["name"])
        except NotFound:
            return None
        return found if is_of(found, claim) else None

    async def _make(self, cluster: str, claim: Object, bought: Object) -> Object:
        try:
            made = await self._homes.client(cluster).create(NODES, bought)
        except AlreadyExists as error:
            found = await self._find(cluster, claim)
            if found is None:
                raise NotYet(f"another node is called {bought['metadata']['name']}") from error
            return found
        return self._view.nodes.learn(cluster, made)

    async def _register(self, place: Place) -> None:
        cluster, name = place
        await self._clock.sleep(self.registration_seconds)
        try:
            await self.faults.met("register", self._clock)
        except ProviderError:
            return  # the instance runs but never registers
        while (bought := self._starting.get(place)) is not None:
            try:
                made = await self._homes.client(cluster).create(NODES, bought)
            except AlreadyExists:
                made = None
            except (StatusError, Unreachable):
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if self._starting.get(place) is bought:
                del self._starting[place]
                if made is not None:
                    self._view.nodes.learn(cluster, made)
            elif made is not None:  # it was terminated meanwhile
                with suppress(StatusError, Unreachable):
                    await self._homes.client(cluster).delete(NODES, name, uid=made["metadata"]["uid"])
            for told in self._told:
                told(cluster, name)
            return
