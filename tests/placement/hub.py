"""The hub as placement tests see it: clusters come and go, leaves report what the test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from shoal.client.rest import GroupVersionResource
from shoal.clock import rfc3339
from shoal.kinds.workload import apiresource, workloadcluster
from shoal.objects.errors import NotFound
from tests.controlplane.world import World

Object = dict[str, Any]

DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
CLUSTERS = GroupVersionResource(
    workloadcluster.GROUP, workloadcluster.VERSION, workloadcluster.PLURAL, namespaced=False
)
NEGOTIATED = GroupVersionResource(
    apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False
)
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
DONE = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"}


class Hub:
    def __init__(self, world: World) -> None:
        self.world, self.client = world, world.client

    async def learn(self, kind: str = "Deployment", group: str = "apps") -> None:
        """As if a cluster had taught the hub what a Deployment is, or another kind."""
        plural = f"{kind.lower()}s"
        spec = {
            "groupVersion": {"group": group, "version": "v1"},
            "scope": "Namespaced",
            "plural": plural,
            "singular": kind.lower(),
            "kind": kind,
            "listKind": f"{kind}List",
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "publish": True,
        }
        api_version = f"{apiresource.GROUP}/{apiresource.VERSION}"
        body = {
            "apiVersion": api_version,
            "kind": apiresource.NEGOTIATED_KIND,
            "metadata": {"name": f"{plural}.v1.{group}"},
        }
        await self.client.create(NEGOTIATED, {**body, "spec": spec})

    async def cluster(self, name: str, ready: str = "True", **spec: Any) -> None:
        body = {
            "apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}",
            "kind": "Cluster",
            "metadata": {"name": name},
        }
        await self.client.create(CLUSTERS, {**body, "spec": {"kubeconfig": "none", **spec}})
        await self.publish_room(name, {})
        await self.ready(name, ready)

    async def publish_room(self, name: str, labels: Object | None, pods: int = 10_000) -> None:
        """A cluster of one group of nodes with these labels, or without nodes."""
        free = {"cpu": str(pods), "memory": f"{pods}Gi", "pods": str(pods)}
        groups = [] if labels is None else [{"labels": labels, "nodes": 1, "free": free, "largestFree": free}]
        await self.client.merge_patch(CLUSTERS, name, {"status": {"nodeGroups": groups}}, subresource="status")

    async def ready(self, name: str, status: str) -> None:
        now = rfc3339(self.world.clock.now())
        condition = {"type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": now}
        await self.client.merge_patch(CLUSTERS, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def deploy(
        self, name: str = "web", replicas: int = 10, requests: Object | None = None, **metadata: Any
    ) -> Object:
        container = {"name": "c", "image": "web:1", "resources": {"requests": requests or {}}}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(DEPLOYMENTS, body, "default")

    async def get(self, name: str = "web") -> Object:
        return await self.client.get(DEPLOYMENTS, name, "default")

    async def patch(self, name: str, patch: Object, subresource: str = "") -> None:
        await self.client.merge_patch(DEPLOYMENTS, name, patch, "default", subresource)

    async def sizes(self) -> dict[str, int]:
        """Of what is assigned to clusters."""
        found, _ = await self.client.list_all(DEPLOYMENTS, "default", labels=workloadcluster.CLUSTER_LABEL)
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}

    async def becomes(self, **wanted: int) -> None:
        """Leaves of `web`, by cluster."""
        leaves = {f"web--{cluster}": size for cluster, size in wanted.items()}

        async def look() -> bool:
            return await self.sizes() == leaves

        try:
            await self.eventually(look)
        except AssertionError:
            raise AssertionError(f"wanted {leaves}, found {await self.sizes()}") from None

    async def run(self, name: str) -> None:
        """The leaf's cluster has done all that it asks for."""
        leaf = await self.get(name)
        counts = dict.fromkeys(COUNTS, leaf["spec"]["replicas"])
        status = {"observedGeneration": leaf["metadata"]["generation"], **counts, "conditions": [DONE]}
        await self.patch(name, {"status": status}, "status")

    async def eventually(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """Time goes on with every look, a little: who tries again after a pause does."""

        async def again() -> Any:
            self.world.clock.step(0.01)
            return await look()

        return await self.world.eventually(again)

    async def status(self) -> Object:
        found: Object = (await self.get()).get("status") or {}
        return found

    async def reason(self, kind: str = "Progressing") -> str:
        conditions = (await self.status()).get("conditions") or ()
        return next((str(one["reason"]) for one in conditions if one["type"] == kind), "")

    async def says(self, reason: str, kind: str = "Progressing") -> None:
        async def look() -> bool:
            return await self.reason(kind) == reason

        await self.eventually(look)

    async def gone(self, name: str) -> None:
        async def look() -> bool:
            try:
                await self.get(name)
            except NotFound:
                return True
            return False

        await self.eventually(look)
