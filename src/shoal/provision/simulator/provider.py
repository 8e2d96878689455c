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
from shoal.kinds.karpenter.karpenter import (
    NODE_CLASS,
    NODE_CLASS_GROUP,
    NODE_CLASS_VERSION,
    annotation_of,
    is_deleting,
    node_class_ref,
)
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.provision.cloudprovider.overlay import OverlayResolver
from shoal.provision.cloudprovider.types import (
    Instance,
    InstanceType,
    InsufficientCapacity,
    LaunchPending,
    NodeClaimHandler,
    NodeClaimNotFound,
    NodeClassKind,
    NodeClassNotReady,
    NotSynced,
    ProviderError,
    RepairPolicy,
)
from shoal.provision.management import ManagementResolver
from shoal.provision.simulator.decide import (
    DRIFTED_ANNOTATION,
    instance_of,
    is_node_of_claim,
    is_simulated,
    launched_counts,
    matching_offerings,
    node_of,
    requirements_of,
    with_availability,
)
from shoal.provision.simulator.faults import FaultInjector
from shoal.provision.state import NODES, ClusterState
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]
ObjectKey = tuple[str, str]
"""Logical cluster and name of the NodeClaim."""

UNAVAILABLE_SECONDS = 180.0
"""Time for which an offering that failed to launch is listed as unavailable."""
RETRY_SECONDS = 1.0
UNHEALTHY_SECONDS = 600.0


class SimulatorProvider:
    name = "simulator"

    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        clock: Clock,
        types: Sequence[InstanceType],
        *,
        registration_seconds: float = 0.0,
        faults: FaultInjector | None = None,
    ) -> None:
        """`registration_seconds`: delay between launch and Node."""
        self._resolver, self._state, self._clock, self._overlays = resolver, state, clock, OverlayResolver(state)
        self._types = sorted(types, key=lambda each: each.name)
        self.registration_seconds, self.faults = registration_seconds, faults or FaultInjector()
        self._unregistered: dict[ObjectKey, Object] = {}
        self._registrations: asyncio.Queue[ObjectKey] = asyncio.Queue()
        self._unavailable_until: dict[str, float] = {}
        self._handlers: list[NodeClaimHandler] = []

    async def run(self) -> None:
        """Registers Nodes after their delay. May be called again: the delays then start anew."""
        self._registrations = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for key in self._unregistered:
                group.create_task(self._register(key))
            while True:
                group.create_task(self._register(await self._registrations.get()))

    @property
    def has_synced(self) -> bool:
        return self._state.has_synced

    def add_event_handler(self, handler: NodeClaimHandler) -> None:
        self._handlers.append(handler)

    def supported_node_classes(self) -> tuple[NodeClassKind, ...]:
        """Any node class works; nothing is read from it."""
        return (NodeClassKind(NODE_CLASS_GROUP, NODE_CLASS_VERSION, NODE_CLASS),)

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return tuple(RepairPolicy("Ready", status, UNHEALTHY_SECONDS) for status in ("False", "Unknown"))

    def instance_types(self, cluster: str, node_class: Object) -> list[InstanceType]:
        nodes = [
            each for cluster_name in self._state.clusters_in(self._state.nodes) for each in self._nodes(cluster_name)
        ]
        return with_availability(self._types, *launched_counts(nodes, self._types), self._unavailable())

    def node_class_error(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        return None

    async def create(self, cluster: str, claim: Object) -> Instance | LaunchPending:
        await self.faults.inject("create", self._clock)
        existing = await self._find(cluster, claim)
        if existing is not None:
            if is_deleting(existing):
                raise InsufficientCapacity(f"machine {existing['metadata']['name']} was deleted")
            return instance_of(existing)
        class_name = node_class_ref(claim["spec"]).get("name", "")
        node_class = self._state.node_classes.get((cluster, "", class_name))
        if node_class is None or is_deleting(node_class):
            raise NodeClassNotReady(f"there is no {NODE_CLASS} {class_name!r}")
        launched = self._launch(cluster, claim)
        if self.registration_seconds or self.faults.delays.get("register"):
            self._unregistered[cluster, claim["metadata"]["name"]] = launched
            self._registrations.put_nowait((cluster, claim["metadata"]["name"]))
            return instance_of(launched)
        node = await self._create_node(cluster, claim, launched)
        if node is None:
            return LaunchPending(f"another node is called {launched['metadata']['name']}")
        return instance_of(node)

    async def delete(self, cluster: str, claim: Object) -> None:
        await self.faults.inject("delete", self._clock)
        name = claim["metadata"]["name"]
        self._unregistered.pop((cluster, name), None)
        existing = await self._find(cluster, claim)
        if existing is None or is_deleting(existing):
            # A Node being deleted is held only by the termination finalizer: its instance is off.
            raise NodeClaimNotFound(f"there is no machine for NodeClaim {name}")
        with suppress(NotFound):
            await self._resolver.client(cluster).delete(NODES, name, uid=existing["metadata"]["uid"])

    def get(self, cluster: str, claim: Object) -> Instance | None:
        existing = self._node_of(cluster, claim)
        return instance_of(existing) if existing is not None else None

    def list(self, cluster: str) -> list[Instance]:
        return [instance_of(each) for each in self._nodes(cluster)]

    def is_drifted(self, cluster: str, claim: Object) -> str:
        existing = self._node_of(cluster, claim)
        if existing is None:
            raise NodeClaimNotFound(f"there is no machine for NodeClaim {claim['metadata']['name']}")
        return annotation_of(existing, DRIFTED_ANNOTATION)

    def expected_instance(self, cluster: str, claim: Object) -> Instance | None:
        existing = self._node_of(cluster, claim)
        if existing is None:
            matches = matching_offerings(self._overlaid_types(cluster, claim), *requirements_of(claim))
            existing = node_of(claim, *matches[0]) if matches else None
        return instance_of(existing) if existing is not None else None

    def _launch(self, cluster: str, claim: Object) -> Object:
        """Launches the cheapest available offering and remembers unavailable ones."""
        for kind, offering in matching_offerings(self._overlaid_types(cluster, claim), *requirements_of(claim)):
            if offering.name not in self.faults.unavailable:
                return node_of(claim, kind, offering)
            self._unavailable_until[offering.name] = self._clock.now() + UNAVAILABLE_SECONDS
        raise InsufficientCapacity("no available offering satisfies the requirements and resource requests")

    def _overlaid_types(self, cluster: str, claim: Object) -> Sequence[InstanceType]:
        """Types with the overlays of the NodeClaim's pool, as the planner saw them."""
        return self._overlays.instance_types(cluster, self.instance_types(cluster, {}), claim)

    def _unavailable(self) -> set[str]:
        now = self._clock.now()
        return {name for name, until in self._unavailable_until.items() if until > now}

    def _nodes(self, cluster: str) -> Sequence[Object]:
        registered = [each for each in self._state.nodes.by_index(by_cluster, cluster) if is_simulated(each)]
        names = {each["metadata"]["name"] for each in registered}
        starting = [
            each
            for (cluster_name, name), each in self._unregistered.items()
            if cluster_name == cluster and name not in names
        ]
        return [*registered, *starting]

    def _node_of(self, cluster: str, claim: Object) -> Object | None:
        name = claim["metadata"]["name"]
        existing = self._state.nodes.get((cluster, "", name)) or self._unregistered.get((cluster, name))
        return existing if existing is not None and is_node_of_claim(existing, claim) else None

    async def _find(self, cluster: str, claim: Object) -> Object | None:
        """Returns None only if the server confirms it: a missing Node may not have reached the cache yet."""
        if not self.has_synced:
            raise NotSynced("the Nodes are not listed yet")
        existing = self._node_of(cluster, claim)
        if existing is not None:
            return existing
        try:
            existing = await self._resolver.client(cluster).get(NODES, claim["metadata"]["name"])
        except NotFound:
            return None
        return existing if is_node_of_claim(existing, claim) else None

    async def _create_node(self, cluster: str, claim: Object, node_object: Object) -> Object | None:
        """Returns None if another node has the name."""
        try:
            created = await self._resolver.client(cluster).create(NODES, node_object)
        except AlreadyExists:
            return await self._find(cluster, claim)
        return self._state.nodes.observe_write(created, cluster)

    async def _register(self, key: ObjectKey) -> None:
        cluster, name = key
        await self._clock.sleep(self.registration_seconds)
        try:
            await self.faults.inject("register", self._clock)
        except ProviderError:
            return  # the instance runs but never registers
        while (node_object := self._unregistered.get(key)) is not None:
            try:
                created = await self._resolver.client(cluster).create(NODES, node_object)
            except AlreadyExists:
                created = None
            except (StatusError, Unreachable):
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if self._unregistered.get(key) is node_object:
                del self._unregistered[key]
                if created is not None:
                    self._state.nodes.observe_write(created, cluster)
            elif created is not None:  # it was terminated meanwhile
                with suppress(StatusError, Unreachable):
                    await self._resolver.client(cluster).delete(NODES, name, uid=created["metadata"]["uid"])
            for handler in self._handlers:
                handler(cluster, name)
            return
