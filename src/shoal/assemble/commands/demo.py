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

from shoal.assemble.commands.top import FleetPoller
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.server.remote_clients import connector_for
from shoal.assemble.server.worker import WorkerServer
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.migration.settings import CONFIG_MAP as MOVING
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.kinds.karpenter import karpenter
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import NotFound, ShoalError, StatusError
from shoal.provision.state import NODE_CLASSES, NODE_POOLS, NODES
from shoal.sync.remote_cluster import kubeconfig_of
from shoal.sync.resources import CLUSTERS

Object = dict[str, Any]
PrintLine = Callable[[str], None]

DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
FIELD_MANAGER = "shoal-demo"
NAMESPACE = "default"
CLUSTER_NAMES = ("east", "west")
WORKER_CAPACITY = 10
INITIAL_REPLICAS, SCALED_REPLICAS = 10, 60
"""The first fits on the initial nodes, the second does not."""
POLL_SECONDS = 0.2
GRACE_SECONDS = 5
"""How long a silent worker may take to come back, instead of a minute, because a demo is short."""
CHAPTER_TIMEOUT_SECONDS = 150.0
"""The limit for one chapter, many times what it takes; guards against hangs."""


class DemoFailed(ShoalError):
    def __init__(self, description: str) -> None:
        super().__init__(f"the demo timed out waiting for: {description}")
        self.hint = "shoal doctor checks this machine"


def run_demo(print_line: PrintLine) -> None:
    """Raises DemoFailed if a step did not happen. Leaves nothing behind, however it ends."""
    logging.getLogger("shoal").addHandler(logging.NullHandler())  # the demo prints its own line for a worker that dies
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as directory:
        try:
            uvloop.run(_run_chapters(Path(directory), print_line))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _run_chapters(directory: Path, print_line: PrintLine) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    print_line("Starting a hub and two workers in this process.")
    settings = ShoalServerSettings(directory, port=0)
    up = await HubWithWorkers.start(settings, InProcessWorkers(2, WORKER_CAPACITY))
    demo = Demo(up, settings, print_line)
    try:
        await demo.await_workers()
        print_line(f"To watch from another terminal: shoal top --kubeconfig {directory}/kubeconfig")
        await demo.create_clusters()
        await demo.deploy()
        await demo.scale_up()
        await demo.lose_worker()
        await demo.clean_up()
    finally:
        await up.stop()
    print_line("Everything was deleted. To start your own fleet: shoal up")


class Demo:
    def __init__(self, up: HubWithWorkers, settings: ShoalServerSettings, print_line: PrintLine) -> None:
        self._up, self._settings, self._print = up, settings, print_line
        self._hub = up.hub.client("shoal-demo")
        self._connect = connector_for(up.hub.server.url, up.hub.server.transport(), "shoal-demo")

    async def await_workers(self) -> None:
        for worker in self._up.workers:
            name = _worker_name(worker)
            await self._wait_for(
                lambda name=name: self._worker_has_phase(name, infrav1.RUNNING),  # type: ignore[misc]
                f"Worker {name} is Running",
            )
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MOVING, "namespace": infrav1.NAMESPACE}}
        await self._apply(CONFIG_MAPS, {**body, "data": {"grace": str(GRACE_SECONDS)}})

    async def create_clusters(self) -> None:
        self._print("Creating two ManagedClusters that move if their Worker is lost.")
        for name in CLUSTER_NAMES:
            await self._apply(MANAGED_CLUSTERS, _managed_cluster(name))
        for name in CLUSTER_NAMES:
            await self._wait_for(lambda name=name: self._is_running(name), f"ManagedCluster {name} is Running")  # type: ignore[misc]
            worker = infrav1.assigned_worker(await self._get_managed_cluster(name))
            self._print(f"  {name} is Running on {worker}, with 2 nodes.")
        for name in CLUSTER_NAMES:
            await self._wait_for(lambda name=name: self._is_ready(name), f"workload Cluster {name} is Ready")  # type: ignore[misc]
            client = await self._cluster_client(name)
            for kind, obj in ((NODE_CLASSES, _node_class()), (NODE_POOLS, _node_pool())):
                await client.apply(kind, obj, FIELD_MANAGER)
        self._print("  Each has a NodePool: nodes are provisioned for pods that fit on no node.")

    async def deploy(self) -> None:
        self._print(f"Applying a Deployment of {INITIAL_REPLICAS} replicas to the hub.")
        await self._wait_for(self._try_deploy, "the hub serves Deployments, imported from its clusters")
        await self._wait_ready_replicas(INITIAL_REPLICAS)
        leaves, _ = await self._hub.list_all(DEPLOYMENTS, NAMESPACE, labels=workloadcluster.CLUSTER_LABEL)
        shares = ", ".join(f"{one['spec']['replicas']} in {workloadcluster.assigned_cluster(one)}" for one in leaves)
        self._print(f"  It is divided: {shares}. All replicas are ready.")
        await self._print_cost()

    async def scale_up(self) -> None:
        self._print(f"Scaling to {SCALED_REPLICAS} replicas, more than fit on the nodes.")
        await self._hub.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": SCALED_REPLICAS}}, NAMESPACE)
        await self._wait_ready_replicas(SCALED_REPLICAS)
        for name in CLUSTER_NAMES:
            nodes, _ = await (await self._cluster_client(name)).list_all(NODES)
            bought = [one for one in nodes if karpenter.nodepool_of(one)]
            self._print(f"  {name} has provisioned {len(bought)} nodes and has {len(nodes)} now.")
        await self._print_cost()

    async def lose_worker(self) -> None:
        victim = infrav1.assigned_worker(await self._get_managed_cluster("west"))
        worker = next(one for one in self._up.workers if _worker_name(one) == victim)
        others = [_worker_name(one) for one in self._up.workers if one is not worker]
        self._print(f"Stopping {victim}, which hosts west. The hub waits for its lease to expire.")
        self._up.workers.remove(worker)
        await worker.stop()
        await self._wait_for(lambda: self._worker_has_phase(victim, infrav1.LOST), f"Worker {victim} is Lost")
        self._print(
            f"  {victim} is Lost after {infrav1.LEASE_GRACE_SECONDS:.0f} s without a lease renewal. "
            "The hub restores its copy of west."
        )
        await self._wait_for(lambda: self._is_running_on("west", others), f"west is Running on {', '.join(others)}")
        self._print(f"  west is Running on {infrav1.assigned_worker(await self._get_managed_cluster('west'))} again.")
        await self._wait_ready_replicas(SCALED_REPLICAS)
        self._print(f"  {SCALED_REPLICAS} of {SCALED_REPLICAS} replicas are ready.")
        self._print(f"Restarting {victim}. It drops west, which is assigned to another Worker.")
        self._up.workers.append(await self._up.start_worker(victim, self._settings, WORKER_CAPACITY))
        await self._wait_for(
            lambda: self._worker_has_phase(victim, infrav1.RUNNING), f"Worker {victim} is Running again"
        )

    async def clean_up(self) -> None:
        self._print("Deleting everything.")
        await self._hub.delete(DEPLOYMENTS, "web", NAMESPACE, cascade=True)
        await self._wait_for(lambda: self._is_empty(DEPLOYMENTS), "the Deployment and its leaves are gone")
        for name in CLUSTER_NAMES:
            await self._hub.delete(MANAGED_CLUSTERS, name, NAMESPACE)
        await self._wait_for(lambda: self._is_empty(MANAGED_CLUSTERS), "the ManagedClusters are gone")

    # --- conditions ---

    async def _wait_for(self, condition: Callable[[], Awaitable[bool]], description: str) -> None:
        deadline = time.monotonic() + CHAPTER_TIMEOUT_SECONDS
        while not await condition():
            if time.monotonic() > deadline:
                raise DemoFailed(description)
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_ready_replicas(self, replicas: int) -> None:
        async def has_ready_replicas() -> bool:
            deployment = await self._hub.get(DEPLOYMENTS, "web", NAMESPACE)
            return bool((deployment.get("status") or {}).get("readyReplicas") == replicas)

        await self._wait_for(has_ready_replicas, f"{replicas} replicas are ready")

    async def _get_managed_cluster(self, name: str) -> Object:
        return await self._hub.get(MANAGED_CLUSTERS, name, NAMESPACE)

    async def _is_running(self, name: str) -> bool:
        return infrav1.phase_of(await self._get_managed_cluster(name)) == infrav1.RUNNING

    async def _is_running_on(self, name: str, workers: list[str]) -> bool:
        managed_cluster = await self._get_managed_cluster(name)
        return (
            infrav1.phase_of(managed_cluster) == infrav1.RUNNING and infrav1.assigned_worker(managed_cluster) in workers
        )

    async def _worker_has_phase(self, worker: str, phase: str) -> bool:
        try:
            worker_object = await self._hub.get(WORKERS, worker, infrav1.NAMESPACE)
        except NotFound:
            return False
        return bool(infrav1.status_of(worker_object).get("phase") == phase)

    async def _is_ready(self, cluster: str) -> bool:
        try:
            return workloadcluster.is_ready(await self._hub.get(CLUSTERS, cluster))
        except NotFound:
            return False

    async def _try_deploy(self) -> bool:
        try:
            await self._apply(DEPLOYMENTS, _deployment(INITIAL_REPLICAS))
        except StatusError:
            return False
        return True

    async def _is_empty(self, kind: GroupVersionResource) -> bool:
        return not (await self._hub.list_all(kind, NAMESPACE))[0]

    # --- helpers ---

    async def _apply(self, kind: GroupVersionResource, obj: Object) -> None:
        await self._hub.apply(kind, obj, FIELD_MANAGER)

    async def _cluster_client(self, name: str) -> Client:
        kubeconfig = await kubeconfig_of(self._hub, await self._hub.get(CLUSTERS, name))
        return kubeconfig.client(self._connect)

    async def _print_cost(self) -> None:
        poller = FleetPoller(self._hub)
        try:
            summary = await poller.poll()
        finally:
            await poller.close()
        self._print(f"  {summary.nodes} nodes, {summary.cost:.2f} per hour.")


def _worker_name(worker: WorkerServer) -> str:
    return worker.shoal.directory.path.name


def _managed_cluster(name: str) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {"nodes": 2, "onWorkerLost": "Move"}
    return {"apiVersion": infrav1.API_VERSION, "kind": infrav1.MANAGED_CLUSTER, "metadata": metadata, "spec": spec}


def _deployment(replicas: int) -> Object:
    requests = {"cpu": "500m", "memory": "256Mi"}
    container = {"name": "web", "image": "web:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _node_class() -> Object:
    api_version = f"{NODE_CLASSES.group}/{NODE_CLASSES.version}"
    return {"apiVersion": api_version, "kind": "ClusterAPINodeClass", "metadata": {"name": "default"}}


def _node_pool() -> Object:
    reference = {"group": NODE_CLASSES.group, "kind": "ClusterAPINodeClass", "name": "default"}
    linux = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": linux}}}
    return {
        "apiVersion": f"{NODE_POOLS.group}/{NODE_POOLS.version}",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {**spec, "limits": {"cpu": "200"}},
    }
