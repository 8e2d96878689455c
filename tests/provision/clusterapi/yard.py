"""Fake of the rest of Cluster API: Machines are created, start and vanish as the test says.

The provider runs on a real server over a transport that may fail. Its callers (launch, termination) are played by the
test, call by call.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Transport, Unreachable
from shoal.kinds.karpenter.karpenter import MACHINE_ANNOTATION, NODE_CLAIM_UID_ANNOTATION, annotation_of, is_deleting
from shoal.objects.errors import AlreadyExists, Conflict, NotFound, StatusError
from shoal.provision.cloudprovider.types import InsufficientCapacity, NodeClaimNotFound, ProviderError
from shoal.provision.clusterapi.machine_assignment import MachineAssigner
from shoal.provision.clusterapi.machine_state import MACHINE_DEPLOYMENTS, MACHINES
from shoal.provision.clusterapi.provider import ClusterAPIProvider
from shoal.provision.management import StoreResolver
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, ClusterState
from tests.controlplane.world import World
from tests.provision.hosted import MEMBER, node_class, size_objects
from tests.transports import Passing

Object = dict[str, Any]
Late = Callable[[], Awaitable[Any]]

TEMPLATES = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachinetemplates")
INFRASTRUCTURE = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachines")
MARK, FINALIZER = "cluster.x-k8s.io/delete-machine", "machine.cluster.x-k8s.io"
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
TURNS = 3000
_yards = itertools.count(1)


class Wire(Passing):
    """Ends after a number of writes: the last is done but not answered, not sent, or on its way for long (`late`).
    Says 409 now and then."""

    def __init__(
        self, transport: Transport, dice: random.Random, writes: int | None, conflicts: float, late: list[Late]
    ) -> None:
        super().__init__(transport)
        self._dice, self._left, self._conflicts = dice, writes, conflicts
        self._late = late
        self.ended = False
        self.scalings = 0
        """Writes of replicas."""

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method == "GET":
            return await self.inner.request(method, path, query, headers, body)
        if self.ended:
            raise Unreachable("cut off")
        if self._dice.random() < self._conflicts:
            said = {"kind": "Status", "status": "Failure", "reason": "Conflict", "message": "changed", "code": 409}
            return 409, {}, orjson.dumps(said)
        if self._left is not None and self._left <= 0:
            self.ended = True
            fate = self._dice.choice(("done", "lost", "late"))
            if fate == "done":
                await self.inner.request(method, path, query, headers, body)
            elif fate == "late":
                self._late.append(lambda: self.inner.request(method, path, query, headers, body))
            raise Unreachable("cut off")
        if self._left is not None:
            self._left -= 1
        self.scalings += "/machinedeployments/" in path
        return await self.inner.request(method, path, query, headers, body)


class Process:
    """One life of the provider."""

    def __init__(self, given: World, wire: Wire) -> None:
        self.wire = wire
        homes = StoreResolver(Client(wire, "admin", cluster="root"))
        self.view = ClusterState(homes, given.clock)
        self.provider = ClusterAPIProvider(homes, self.view, given.clock)
        settling = MachineAssigner(self.provider, homes, self.view, given.clock).controller
        self._tasks = [asyncio.create_task(run()) for run in (self.view.run, settling.run)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Yard:
    def __init__(self, given: World, namespace: str, seed: int = 0) -> None:
        self.namespace, self.cluster = namespace, f"{namespace}.east"
        self.world, self.root, self.hosted = given, given.client, given.client.in_cluster(self.cluster)
        self.dice = random.Random(seed)
        self.slowness = 0.0
        """How likely it is that a Machine has no providerID after a turn."""
        self.late: list[Late] = []
        """Writes of those that have ended, which nobody has received yet."""
        self.process = self.start()
        self._numbers = 0

    @property
    def provider(self) -> ClusterAPIProvider:
        return self.process.provider

    def start(self, writes: int | None = None, conflicts: float = 0.0) -> Process:
        self.process = Process(self.world, Wire(self.world.server.transport(), self.dice, writes, conflicts, self.late))
        return self.process

    async def restart(self, writes: int | None = None, conflicts: float = 0.0) -> None:
        await self.process.stop()
        self.start(writes, conflicts)

    async def turn(self) -> None:
        """Everybody does something; a dead provider comes back, and then lives on."""
        if self.process.wire.ended:
            await self.restart()
        if self.late and self.dice.random() < 0.03:
            await self.late.pop(0)()
        await self.machines_act()
        await self.claims_act()
        await self.pause()

    async def pause(self) -> None:
        self.world.clock.step(0.05)
        await asyncio.sleep(0.001)

    async def synced(self) -> None:
        for _ in range(TURNS):
            if self.provider.has_synced:
                return
            await self.pause()
        raise AssertionError("the provider does not get to know what there is")

    async def until(self, look: Any, what: str) -> None:
        for _ in range(TURNS):
            if await look():
                return
            await self.turn()
        raise AssertionError(f"{what}: {await self.state()}")

    async def machines(self) -> list[Object]:
        return (await self.root.list_all(MACHINES, self.namespace))[0]

    async def claims(self) -> list[Object]:
        return (await self.hosted.list_all(NODE_CLAIMS))[0]

    async def replicas(self) -> dict[str, int]:
        found, _ = await self.root.list_all(MACHINE_DEPLOYMENTS, self.namespace)
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    async def state(self) -> Object:
        infrastructure, _ = await self.root.list_all(INFRASTRUCTURE, self.namespace)
        return {
            "claims": [(each["metadata"]["name"], is_deleting(each), _said(each)) for each in await self.claims()],
            "machines": [(each["metadata"]["name"], is_deleting(each), _said(each)) for each in await self.machines()],
            "infrastructure": [each["metadata"]["name"] for each in infrastructure],
            "replicas": await self.replicas(),
        }

    async def claim(self, name: str, *types: str, cpu: str = "1", of: str = "default") -> Object:
        reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": of}
        wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}
        spec = {
            "nodeClassRef": reference,
            "requirements": [wanted] if types else [],
            "resources": {"requests": {"cpu": cpu}},
        }
        metadata = {"name": name, "finalizers": ["karpenter.sh/termination"]}
        body = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}
        return await self.hosted.create(NODE_CLAIMS, body)

    async def claims_act(self) -> None:
        """As the life cycle of NodeClaims does, with a memory of nothing."""
        for claim in await self.claims():
            with suppress(StatusError, Unreachable):
                await self._advance(claim)

    async def _advance(self, claim: Object) -> None:
        metadata = claim["metadata"]
        try:
            if not is_deleting(claim):
                await self.provider.create(self.cluster, claim)
                return
            await self.provider.delete(self.cluster, claim)
        except InsufficientCapacity:
            await self.hosted.delete(NODE_CLAIMS, metadata["name"], uid=metadata["uid"])
        except NodeClaimNotFound:
            patch = {"metadata": {"uid": metadata["uid"], "finalizers": None}}
            await self.hosted.merge_patch(NODE_CLAIMS, metadata["name"], patch)
        except ProviderError:
            return

    async def machines_act(self) -> None:
        machines = await self.machines()
        for machine in machines:
            with suppress(NotFound, Conflict):
                await self._start_or_end(machine)
        deployments, _ = await self.root.list_all(MACHINE_DEPLOYMENTS, self.namespace)
        for deployment in deployments:
            await self._scale(deployment, machines)
        await self._collect()

    async def _collect(self) -> None:
        """As the garbage collector does: what is made after its owner has gone goes too."""
        infrastructure, _ = await self.root.list_all(INFRASTRUCTURE, self.namespace)
        owners = {each["metadata"]["uid"] for each in await self.machines()} if infrastructure else set()
        for each in infrastructure:
            if not any(owner["uid"] in owners for owner in each["metadata"]["ownerReferences"]):
                await self.root.delete(INFRASTRUCTURE, each["metadata"]["name"], self.namespace)

    async def _start_or_end(self, machine: Object) -> None:
        metadata, name = machine["metadata"], machine["metadata"]["name"]
        if is_deleting(machine):
            with suppress(NotFound):
                await self.root.delete(INFRASTRUCTURE, name, self.namespace)
            await self._patch(machine, {"metadata": {"finalizers": None}})
        elif not metadata.get("finalizers"):
            await self._patch(machine, {"metadata": {"finalizers": [FINALIZER]}})
        elif not machine["spec"].get("providerID") and self.dice.random() >= self.slowness:
            with suppress(NotFound):
                if not _deployment(machine):
                    await self.root.get(INFRASTRUCTURE, machine["spec"]["infrastructureRef"]["name"], self.namespace)
                await self._patch(machine, {"spec": {"providerID": f"yard://{name}"}})

    async def _scale(self, deployment: Object, machines: list[Object]) -> None:
        name = deployment["metadata"]["name"]
        here = [each for each in machines if _deployment(each) == name]
        staying = [each for each in here if not is_deleting(each)]
        for _ in range(deployment["spec"]["replicas"] - len(here)):
            await self._grow(deployment)
        surplus = len(staying) - deployment["spec"]["replicas"]
        living = (
            {each["metadata"]["uid"] for each in await self.claims() if not is_deleting(each)} if surplus > 0 else set()
        )
        marked = [each for each in staying if MARK in (each["metadata"].get("annotations") or {})]
        others = [each for each in staying if each not in marked]
        self.dice.shuffle(others)
        for machine in [*marked, *others][: max(0, surplus)]:
            assert machine in marked or annotation_of(machine, NODE_CLAIM_UID_ANNOTATION) not in living, (
                "one in use is scaled away"
            )
            await self.root.delete(MACHINES, machine["metadata"]["name"], self.namespace)

    async def _grow(self, deployment: Object) -> None:
        self._numbers += 1
        metadata = deployment["metadata"]
        name = f"{metadata['name']}-{self._numbers}"
        labels = {"cluster.x-k8s.io/cluster-name": "east", "cluster.x-k8s.io/deployment-name": metadata["name"]}
        reference = {"apiGroup": INFRASTRUCTURE.group, "kind": "EmbeddedMachine", "name": name}
        body = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": name, "labels": labels, "finalizers": [FINALIZER]},
            "spec": {"clusterName": "east", "infrastructureRef": reference},
        }
        with suppress(AlreadyExists):
            await self.root.create(MACHINES, body, self.namespace)

    async def vanish(self, machine: Object) -> None:
        """Somebody takes it away."""
        with suppress(NotFound):
            await self.root.delete(MACHINES, machine["metadata"]["name"], self.namespace)

    async def _patch(self, machine: Object, patch: Object) -> None:
        metadata = {"resourceVersion": machine["metadata"]["resourceVersion"], **(patch.get("metadata") or {})}
        await self.root.merge_patch(
            MACHINES, machine["metadata"]["name"], {**patch, "metadata": metadata}, self.namespace
        )


@asynccontextmanager
async def yard(given: World, *sizes: str, seed: int = 0) -> AsyncIterator[Yard]:
    """With a MachineDeployment of each size, and a node class `bare` that makes Machines by itself."""
    namespace = f"yard{next(_yards)}"
    await given.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    hosted = await given.cluster(f"{namespace}.east")
    for size in sizes:
        template, deployment = size_objects("east", size)
        await given.client.create(TEMPLATES, template, namespace)
        await given.client.create(MACHINE_DEPLOYMENTS, deployment, namespace)
    await given.client.create(TEMPLATES, bare_template(), namespace)
    await hosted.create(NODE_CLASSES, node_class())
    await hosted.create(NODE_CLASSES, bare_class())
    made = Yard(given, namespace, seed)
    try:
        yield made
    finally:
        await made.process.stop()


def bare_template(name: str = "bare", **spec: Any) -> Object:
    """Of Machines without a MachineDeployment."""
    found = size_objects("east", "medium")[0]
    found["metadata"] = {"name": name, "labels": {MEMBER: ""}}
    found["spec"]["template"]["spec"] |= {"instanceType": "bare", **spec}
    return found


def bare_class(name: str = "bare", **entry: Any) -> Object:
    found = node_class(name)
    reference = {"apiGroup": INFRASTRUCTURE.group, "kind": "EmbeddedMachineTemplate", "name": "bare"}
    capacity = {"cpu": "4", "memory": "16Gi"}
    given = {"name": "bare", "infrastructureRef": reference, "capacity": capacity, "failureDomain": "embedded-a"}
    found["spec"] = {"machineTemplates": [{**given, "price": "0.08", **entry}]}
    return found


def _deployment(machine: Object) -> str:
    return str((machine["metadata"].get("labels") or {}).get("cluster.x-k8s.io/deployment-name", ""))


def _said(obj: Object) -> Object:
    kept = ("karpenter.sh/nodeclaim", MACHINE_ANNOTATION, MARK, "karpenter.cluster.x-k8s.io/machine-deployment")
    annotations = obj["metadata"].get("annotations") or {}
    return {key.rpartition("/")[2]: annotations[key] for key in kept if key in annotations}
