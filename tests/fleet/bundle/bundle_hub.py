"""A hub with only the bundle controllers, on a fake clock, and clusters to install bundles in.

The clusters are logical clusters of the same server. The test plays the Deployment controller; a cut link is a cluster
that does not answer.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from shoal.assemble.server.remote_clients import connector_for
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Transport, Unreachable
from shoal.fleet.bundle.controller import BundleSettings, new_bundle_controllers
from shoal.fleet.bundle.objects import NAMESPACE
from shoal.fleet.bundle.remote_cluster import BUNDLE_RESOURCES
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import SECRETS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound
from tests.controlplane.world import World, world
from tests.fleet.fleets import condition, running

Object = dict[str, Any]
T = TypeVar("T")

HUB = "https://hub.example:6443"
AUTHORITY = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
ELSEWHERE = "https://elsewhere.example"
DEPLOYMENTS = BUNDLE_RESOURCES["Deployment"]


class Link:
    """A way to the server that tests cut."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.cut: set[str] = set()
        """Clusters that do not answer."""
        self.asked: list[tuple[str, str]] = []
        """What was asked of clusters other than root: method and path."""

    def _check(self, method: str, path: str) -> None:
        if any(path.startswith(f"/clusters/{name}/") for name in self.cut):
            raise Unreachable("the link is cut")
        self.asked.append((method, path))

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._check(method, path)
        return await self._transport.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        self._check(method, path)
        return await self._transport.stream(method, path, query, headers)

    async def close(self) -> None:
        pass

    def writes(self) -> list[tuple[str, str]]:
        return [one for one in self.asked if one[0] != "GET"]


class Place:
    def __init__(self, made: World) -> None:
        self.world, self.hub, self.clock = made, made.client, made.clock
        self.link = Link(made.server.transport())

    @asynccontextmanager
    async def bundles(self, version: str = "1.0.0", url: str = HUB, image: str = "") -> AsyncIterator[None]:
        """The loops of a hub of that version."""
        client = Client(self.world.server.transport(), "admin", cluster="root")
        settings = BundleSettings(url, AUTHORITY, image, version)
        async with running(new_bundle_controllers(client, self.clock, connector_for(ELSEWHERE, self.link), settings)):
            yield

    async def cluster(self, name: str) -> Client:
        """A cluster, with its kubeconfig in a Secret of the hub."""
        found = await self.world.cluster(name)
        await self.secret(f"{name}-admin", kubeconfig(name))
        return found

    async def secret(self, name: str, text: str, **metadata: Any) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, **metadata},
            "data": {"value": base64.b64encode(text.encode()).decode()},
        }
        await self.hub.create(SECRETS, body, NAMESPACE)

    async def worker(self, name: str, cluster: str = "", **spec: Any) -> Object:
        reference = {"namespace": NAMESPACE, "name": f"{cluster}-admin"}
        asked = {"infrastructure": "kind", **({"kubeconfigSecretRef": reference} if cluster else {}), **spec}
        body = {
            "apiVersion": infrav1.API_VERSION,
            "kind": infrav1.WORKER,
            "metadata": {"name": name},
            "spec": asked,
        }
        return await self.hub.create(WORKERS, body, NAMESPACE)

    async def get(self, name: str) -> Object:
        return await self.hub.get(WORKERS, name, NAMESPACE)

    async def eventually(self, look: Callable[[], Awaitable[T]]) -> T:
        """Time goes by meanwhile: what was missing is looked for again."""

        async def looked() -> T:
            found = await look()
            if not found:
                self.clock.step(1.0)
            return found

        return await self.world.eventually(looked)

    async def says(self, name: str, reason: str) -> Object:
        """The Worker, once its condition has that reason."""

        async def look() -> Object | None:
            obj = await self.get(name)
            return obj if condition(obj, "BundleApplied").get("reason") == reason else None

        found = await self.eventually(look)
        assert found is not None
        return found

    async def installed(self, name: str, inside: Client, version: str = "1.0.0") -> Object:
        """The Worker once its bundle is applied and its Deployment was said to run."""

        async def applied() -> bool:
            try:
                deployment = await inside.get(DEPLOYMENTS, f"shoal-worker-{name}", NAMESPACE)
            except NotFound:
                return False
            return bool(deployment["metadata"]["labels"]["shoal.dev/bundle-version"] == version)

        await self.eventually(applied)
        await self.run(name, inside)
        return await self.says(name, "Applied")

    async def run(self, name: str, inside: Client) -> None:
        """What the controllers of a cluster would say of its Deployment."""
        found = await inside.get(DEPLOYMENTS, f"shoal-worker-{name}", NAMESPACE)
        status = {"observedGeneration": found["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1}
        status |= {"readyReplicas": 1, "availableReplicas": 1}
        await inside.merge_patch(DEPLOYMENTS, f"shoal-worker-{name}", {"status": status}, NAMESPACE, "status")

    async def heard(self, name: str, ready: str = "True", store: str = "a-store") -> None:
        """As if its worker had joined."""
        worker = await self.get(name)
        others = [one for one in worker["status"]["conditions"] if one["type"] != "Ready"]
        now = "2026-01-01T00:00:00Z"
        said = {"type": "Ready", "status": ready, "reason": "Test", "message": "", "lastTransitionTime": now}
        await self.hub.merge_patch(
            WORKERS, name, {"metadata": {"annotations": {infrav1.STORE_ANNOTATION: store}}}, NAMESPACE
        )
        await self.hub.merge_patch(WORKERS, name, {"status": {"conditions": [*others, said]}}, NAMESPACE, "status")

    async def gone(self, client: Client, kind: GroupVersionResource, name: str, namespace: str = NAMESPACE) -> None:
        await self.eventually(lambda: self.world.is_gone(client, kind, name, namespace))


def kubeconfig(cluster: str, token: str = "admin") -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"{ELSEWHERE}/clusters/{cluster}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
        "users": [{"name": "u", "user": {"token": token}}],
    }
    return yaml.safe_dump(config)


def said(worker: Object) -> tuple[str, str, str]:
    found = condition(worker, "BundleApplied")
    return found["status"], found["reason"], found["message"]


def hub_of(secret: Object) -> Object:
    """The kubeconfig that a worker joins by."""
    found: Object = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    return found


@asynccontextmanager
async def place(directory: Path) -> AsyncIterator[Place]:
    async with world(directory, loops=False) as made:
        await ensure_worker_namespace(made.client)
        yield Place(made)
