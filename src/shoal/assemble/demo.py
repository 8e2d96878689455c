"""`shoal demo`: a fleet is built, loaded, loses a worker and is taken down again, with a line for each step.

Everything is real, in one process, with simulated nodes, on a directory that is removed at the end. Every chapter waits
for what it announces; if that does not happen, the demo ends with what was missing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from shoal.assemble.connecting import connect_from
from shoal.assemble.top import Top
from shoal.assemble.up import Up, UpSettings, WorkersInside
from shoal.assemble.worker import Worker
from shoal.client.requests import Client, Kind
from shoal.fleet.moving.settings import NAME as MOVING
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet, karpenter, workload
from shoal.objects.errors import NotFound, ShoalError, StatusError
from shoal.provision.view import CLASSES, NODES, POOLS
from shoal.sync.connecting import kubeconfig_of
from shoal.sync.resources import CLUSTERS

Object = dict[str, Any]
Say = Callable[[str], None]

DEPLOYMENTS = Kind("apps", "v1", "deployments")
MANAGER = "shoal-demo"
NAMESPACE = "default"
NAMES = ("east", "west")
CAPACITY = 10
SMALL, LARGE = 10, 60
"""The first fits on the initial nodes, the second does not."""
LOOK_SECONDS = 0.2
GRACE_SECONDS = 5
"""How long a silent worker may take to come back, instead of a minute, because a demo is short."""
PATIENCE_SECONDS = 150.0
"""The limit for one chapter, many times what it takes; guards against hangs."""


class DemoFailed(ShoalError):
    def __init__(self, missing: str) -> None:
        super().__init__(f"the demo did not get to: {missing}")
        self.hint = "shoal doctor looks at this machine"


def run_demo(say: Say) -> None:
    """Raises DemoFailed if a step did not happen. Leaves nothing behind, however it ends."""
    logging.getLogger("shoal").addHandler(logging.NullHandler())  # the demo prints its own line for a worker that dies
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as directory:
        try:
            uvloop.run(_demo(Path(directory), say))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _demo(directory: Path, say: Say) -> None:
    itself = asyncio.current_task()
    assert itself is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, itself.cancel)
    say("A hub and two workers start, in this process.")
    settings = UpSettings(directory, port=0)
    up = await Up.start(settings, WorkersInside(2, CAPACITY))
    demo = Demo(up, settings, say)
    try:
        await demo.workers()
        say(f"To look on from another terminal: shoal top --kubeconfig {directory}/kubeconfig")
        await demo.clusters()
        await demo.deployment()
        await demo.load()
        await demo.death()
        await demo.end()
    finally:
        await up.stop()
    say("Nothing of it is left. Your own fleet: shoal up")


class Demo:
    def __init__(self, up: Up, settings: UpSettings, say: Say) -> None:
        self._up, self._settings, self._say = up, settings, say
        self._hub = up.hub.client("shoal-demo")
        self._connect = connect_from(up.hub.server.url, up.hub.server.transport(), "shoal-demo")

    async def workers(self) -> None:
        for worker in self._up.workers:
            name = _name(worker)
            await self._until(lambda name=name: self._is_in(name, fleet.RUNNING), f"Worker {name} is Running")  # type: ignore[misc]
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MOVING, "namespace": fleet.NAMESPACE}}
        await self._apply(CONFIG_MAPS, {**body, "data": {"grace": str(GRACE_SECONDS)}})

    async def clusters(self) -> None:
        self._say("Two clusters are asked for; should their worker be lost, they are to move.")
        for name in NAMES:
            await self._apply(MANAGED_CLUSTERS, _managed(name))
        for name in NAMES:
            await self._until(lambda name=name: self._is_running(name), f"ManagedCluster {name} is Running")  # type: ignore[misc]
            worker = fleet.assigned_worker(await self._managed(name))
            self._say(f"  {name} is Running on {worker}, with 2 nodes.")
        for name in NAMES:
            await self._until(lambda name=name: self._is_ready(name), f"workload Cluster {name} is Ready")  # type: ignore[misc]
            inside = await self._inside(name)
            for kind, obj in ((CLASSES, _node_class()), (POOLS, _node_pool())):
                await inside.apply(kind, obj, MANAGER)
        self._say("  Each has a NodePool: pods that find no room may buy nodes.")

    async def deployment(self) -> None:
        self._say(f"A Deployment of {SMALL} replicas is applied to the hub, once.")
        await self._until(self._is_learned, "the hub serves Deployments, which it learns from its clusters")
        await self._ready(SMALL)
        leaves, _ = await self._hub.list_all(DEPLOYMENTS, NAMESPACE, labels=workload.ASSIGNED)
        shares = ", ".join(f"{one['spec']['replicas']} in {workload.assigned_to(one)}" for one in leaves)
        self._say(f"  It is split: {shares}. All are ready.")
        await self._tell_cost()

    async def load(self) -> None:
        self._say(f"Load comes: {LARGE} replicas, more than the nodes hold.")
        await self._hub.merge(DEPLOYMENTS, "web", {"spec": {"replicas": LARGE}}, NAMESPACE)
        await self._ready(LARGE)
        for name in NAMES:
            nodes, _ = await (await self._inside(name)).list_all(NODES)
            bought = [one for one in nodes if karpenter.pool_of(one)]
            self._say(f"  {name} has bought {len(bought)} nodes, and has {len(nodes)} now.")
        await self._tell_cost()

    async def death(self) -> None:
        victim = fleet.assigned_worker(await self._managed("west"))
        worker = next(one for one in self._up.workers if _name(one) == victim)
        others = [_name(one) for one in self._up.workers if one is not worker]
        self._say(f"{victim} dies, and west with it. It is not missed at once: it might only be slow.")
        self._up.workers.remove(worker)
        await worker.stop()
        await self._until(lambda: self._is_in(victim, fleet.LOST), f"Worker {victim} is Lost")
        self._say(
            f"  After {fleet.SILENCE_SECONDS:.0f} s of silence {victim} is lost. What the hub has kept of west moves."
        )
        await self._until(lambda: self._is_on("west", others), f"west is Running on {', '.join(others)}")
        self._say(f"  west is Running on {fleet.assigned_worker(await self._managed('west'))}, with all it had.")
        await self._ready(LARGE)
        self._say(f"  {LARGE} of {LARGE} replicas are ready.")
        self._say(f"{victim} comes back, sees that west is not its own any more, and gives way.")
        self._up.workers.append(await self._up.start_worker(victim, self._settings, CAPACITY))
        await self._until(lambda: self._is_in(victim, fleet.RUNNING), f"Worker {victim} is Running again")

    async def end(self) -> None:
        self._say("All is deleted, in the order in which it came to be.")
        await self._hub.delete(DEPLOYMENTS, "web", NAMESPACE, cascade=True)
        await self._until(lambda: self._is_empty(DEPLOYMENTS), "the Deployment and its leaves are gone")
        for name in NAMES:
            await self._hub.delete(MANAGED_CLUSTERS, name, NAMESPACE)
        await self._until(lambda: self._is_empty(MANAGED_CLUSTERS), "the ManagedClusters are gone")

    # --- conditions ---

    async def _until(self, look: Callable[[], Awaitable[bool]], missing: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not await look():
            if time.monotonic() > end:
                raise DemoFailed(missing)
            await asyncio.sleep(LOOK_SECONDS)

    async def _ready(self, replicas: int) -> None:
        async def look() -> bool:
            found = await self._hub.get(DEPLOYMENTS, "web", NAMESPACE)
            return bool((found.get("status") or {}).get("readyReplicas") == replicas)

        await self._until(look, f"{replicas} replicas are ready")

    async def _managed(self, name: str) -> Object:
        return await self._hub.get(MANAGED_CLUSTERS, name, NAMESPACE)

    async def _is_running(self, name: str) -> bool:
        return fleet.phase_of(await self._managed(name)) == fleet.RUNNING

    async def _is_on(self, name: str, workers: list[str]) -> bool:
        found = await self._managed(name)
        return fleet.phase_of(found) == fleet.RUNNING and fleet.assigned_worker(found) in workers

    async def _is_in(self, worker: str, phase: str) -> bool:
        try:
            found = await self._hub.get(WORKERS, worker, fleet.NAMESPACE)
        except NotFound:
            return False
        return bool(fleet.status_of(found).get("phase") == phase)

    async def _is_ready(self, cluster: str) -> bool:
        try:
            return workload.is_ready(await self._hub.get(CLUSTERS, cluster))
        except NotFound:
            return False

    async def _is_learned(self) -> bool:
        try:
            await self._apply(DEPLOYMENTS, _deployment(SMALL))
        except StatusError:
            return False
        return True

    async def _is_empty(self, kind: Kind) -> bool:
        return not (await self._hub.list_all(kind, NAMESPACE))[0]

    # --- helpers ---

    async def _apply(self, kind: Kind, obj: Object) -> None:
        await self._hub.apply(kind, obj, MANAGER)

    async def _inside(self, name: str) -> Client:
        kubeconfig = await kubeconfig_of(self._hub, await self._hub.get(CLUSTERS, name))
        return kubeconfig.client(self._connect)

    async def _tell_cost(self) -> None:
        top = Top(self._hub)
        try:
            found = await top.look()
        finally:
            await top.close()
        self._say(f"  {found.nodes} nodes, {found.cost:.2f} an hour.")


def _name(worker: Worker) -> str:
    return worker.shoal.directory.path.name


def _managed(name: str) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {"nodes": 2, "onWorkerLost": "Move"}
    return {"apiVersion": fleet.API_VERSION, "kind": fleet.MANAGED_CLUSTER, "metadata": metadata, "spec": spec}


def _deployment(replicas: int) -> Object:
    requests = {"cpu": "500m", "memory": "256Mi"}
    container = {"name": "web", "image": "web:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _node_class() -> Object:
    api_version = f"{CLASSES.group}/{CLASSES.version}"
    return {"apiVersion": api_version, "kind": "ClusterAPINodeClass", "metadata": {"name": "default"}}


def _node_pool() -> Object:
    reference = {"group": CLASSES.group, "kind": "ClusterAPINodeClass", "name": "default"}
    linux = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": linux}}}
    return {
        "apiVersion": f"{POOLS.group}/{POOLS.version}",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {**spec, "limits": {"cpu": "200"}},
    }
