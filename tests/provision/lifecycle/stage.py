"""The lifecycle controllers alone, on a fake clock, with a scripted cloud provider.

Nothing else runs: the test acts as kubelet, scheduler and disruption controller.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from shoal.client.rest import GroupVersionResource
from shoal.clock import rfc3339
from shoal.kinds.karpenter.karpenter import NODE_CLASS, NODE_CLASS_GROUP, NODE_CLASS_VERSION, is_deleting
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import (
    Instance,
    InstanceType,
    NodeClaimHandler,
    NodeClaimNotFound,
    NodeClassKind,
    RepairPolicy,
)
from shoal.provision.controllers import new_lifecycle_controllers
from shoal.provision.management import StoreResolver
from shoal.provision.settings import FixedSettings, ProvisionerSettings
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, NODES, PODS, ClusterState
from shoal.runtime.event_recorder import EVENTS, EventRecorder
from tests.controlplane.world import World, world
from tests.provision.hosted import node_class, node_pool
from tests.provision.lifecycle.objects import CLASS

Object = dict[str, Any]
T = TypeVar("T")

CLUSTER = "team.east"
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
PRIORITIES = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
BUDGETS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
LOOKS = 9000
_numbers = itertools.count(1)


class Cloud:
    name = "cloud"
    has_synced = True

    def __init__(self) -> None:
        self.machines: dict[str, Instance] = {}
        """By uid of their NodeClaims."""
        self.errors: list[Exception] = []
        """What the next launches end with."""
        self.launches = 0
        self.slow = False
        """A machine that is let go stays for a while."""
        self._told: list[NodeClaimHandler] = []

    def add_event_handler(self, handler: NodeClaimHandler) -> None:
        self._told.append(handler)

    def tell(self, claim: str) -> None:
        for told in self._told:
            told(CLUSTER, claim)

    def supported_node_classes(self) -> tuple[NodeClassKind, ...]:
        return (NodeClassKind(NODE_CLASS_GROUP, NODE_CLASS_VERSION, NODE_CLASS),)

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return (RepairPolicy("Ready", "False", 600.0),)

    def instance_types(self, cluster: str, node_class: Object) -> list[InstanceType]:
        return []

    def node_class_error(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        return None

    async def create(self, cluster: str, claim: Object) -> Instance:
        self.launches += 1
        if self.errors:
            raise self.errors.pop(0)
        has = {"cpu": 4000, "memory": 8 * 2**30}
        labels = {"topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "spot"}
        made = Instance(f"cloud://{next(_numbers)}", labels, has, has, claim=claim["metadata"]["name"])
        return self.machines.setdefault(claim["metadata"]["uid"], made)

    async def delete(self, cluster: str, claim: Object) -> None:
        uid = claim["metadata"]["uid"]
        if uid not in self.machines:
            raise NodeClaimNotFound("gone")
        self.machines[uid] = replace(self.machines[uid], deleting=True)
        if not self.slow:
            del self.machines[uid]

    def get(self, cluster: str, claim: Object) -> Instance | None:
        return self.machines.get(claim["metadata"]["uid"])

    def list(self, cluster: str) -> Any:
        return [*self.machines.values()]

    def is_drifted(self, cluster: str, claim: Object) -> str:
        return ""

    def expected_instance(self, cluster: str, claim: Object) -> Instance | None:
        return self.get(cluster, claim)


class Stage:
    def __init__(self, given: World, cloud: Cloud) -> None:
        self.given, self.cloud, self.clock = given, cloud, given.clock
        self.client = given.client.in_cluster(CLUSTER)

    async def until(self, look: Callable[[], Awaitable[T]], step: float = 0.0) -> T:
        """`step`: seconds that pass between looks."""
        for _ in range(LOOKS):
            found = await look()
            if found:
                return found
            if step:
                self.clock.step(step)
            await asyncio.sleep(0.005)
        raise AssertionError(f"it does not happen: {await look()!r}")

    async def pool(self) -> Object:
        await self.client.create(NODE_CLASSES, node_class())
        return await self.client.create(NODE_POOLS, node_pool())

    async def claim(self, name: str = "one", pool: Object | None = None, **spec: Any) -> Object:
        metadata: Object = {"name": name}
        if pool is not None:
            owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default"}
            metadata["labels"] = {"karpenter.sh/nodepool": "default"}
            metadata["ownerReferences"] = [{**owner, "uid": pool["metadata"]["uid"]}]
        body = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata}
        return await self.client.create(
            NODE_CLAIMS, {**body, "spec": {"nodeClassRef": CLASS, "requirements": [], **spec}}
        )

    async def launched(self, name: str = "one") -> Object:
        return await self.when(name, "Launched")

    async def when(self, name: str, condition: str, status: str = "True") -> Object:
        async def look() -> Object | None:
            found = await self.client.get(NODE_CLAIMS, name)
            return found if condition_is(found, condition, status) else None

        found = await self.until(look)
        assert found is not None
        return found

    async def node(self, claim: Object, *taints: Object, cpu: str = "4") -> Object:
        """Its machine has started."""
        spec = {"providerID": claim["status"]["providerID"], "taints": list(taints or (UNREGISTERED,))}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{claim['metadata']['name']}"},
            "spec": spec,
        }
        made = await self.client.create(NODES, body)
        return await self.report(made["metadata"]["name"], "True", cpu)

    async def report(self, name: str, ready: str, cpu: str = "4") -> Object:
        stamp = rfc3339(self.clock.now())
        said = {"type": "Ready", "status": ready, "lastTransitionTime": stamp, "lastHeartbeatTime": stamp}
        has = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        status = {"conditions": [said], "capacity": has, "allocatable": has}
        return await self.client.merge_patch(NODES, name, {"status": status}, subresource="status")

    async def ready(self, name: str = "one", **spec: Any) -> tuple[Object, Object]:
        """A NodeClaim that has come all the way, and its node."""
        await self.claim(name, **spec)
        await self.node(await self.launched(name))
        found = await self.when(name, "Initialized")
        return found, await self.client.get(NODES, found["status"]["nodeName"])

    async def pod(
        self, name: str, node: Object, *, grace: int = 30, metadata: Object | None = None, **spec: Any
    ) -> Object:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}}
        containers = [{"name": "main", "image": "registry.example/main:1"}]
        spec = {"nodeName": node["metadata"]["name"], "terminationGracePeriodSeconds": grace, **spec}
        await self.client.create(PODS, {**body, "spec": {"containers": containers, **spec}}, "default")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(self.clock.now())}
        status = {"phase": "Running", "startTime": rfc3339(self.clock.now()), "conditions": [ready]}
        return await self.client.merge_patch(PODS, name, {"status": status}, "default", "status")

    async def budget(self, name: str, labels: dict[str, str]) -> None:
        """That allows nothing."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        await self.client.create(BUDGETS, body, "default")
        status = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
        status |= {"expectedPods": 1}
        await self.client.merge_patch(BUDGETS, name, {"status": status}, "default", "status")

    async def delete(self, name: str = "one") -> None:
        await self.client.delete(NODE_CLAIMS, name)

    async def going(self) -> list[Object]:
        """Pods that were asked or told to go."""
        found, _ = await self.client.list_all(PODS, "default")
        return [each for each in found if is_deleting(each)]

    async def reap(self, pod: Object) -> None:
        """The kubelet has ended it."""
        path = self.client.resource_path(PODS, pod["metadata"]["name"], "default")
        await self.client.request("DELETE", path, body={"gracePeriodSeconds": 0})

    async def gone(self, kind: GroupVersionResource, name: str) -> bool:
        return await self.given.is_gone(self.client, kind, name)

    async def all_gone(self) -> bool:
        claims, _ = await self.client.list_all(NODE_CLAIMS)
        nodes, _ = await self.client.list_all(NODES)
        return not claims and not nodes and not self.cloud.machines

    async def events(self, reason: str) -> list[str]:
        found, _ = await self.client.list_all(EVENTS, "default")
        return [each["message"] for each in found if each["reason"] == reason]

    async def reason(self, name: str, condition: str) -> str:
        try:
            found = await self.client.get(NODE_CLAIMS, name)
        except NotFound:
            return ""
        return str((get_condition(found, condition) or {}).get("reason", ""))


@asynccontextmanager
async def stage(directory: Path, *, repair: bool = False) -> AsyncIterator[Stage]:
    async with world(directory, loops=False) as given:
        cluster = await given.cluster(CLUSTER)
        await cluster.list_all(PRIORITIES)  # those of the system are there from the first look on
        homes, cloud = StoreResolver(given.client), Cloud()
        settings = FixedSettings(ProvisionerSettings(node_repair=repair))
        view, recorder = ClusterState(homes, given.clock), EventRecorder(homes.client, given.clock)
        loops = new_lifecycle_controllers(homes, view, cloud, recorder, given.clock, settings)
        tasks = [asyncio.create_task(each.run()) for each in (view, recorder, *loops)]
        try:
            yield Stage(given, cloud)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
