"""Tests that controllers which are run again continue their work: the manager restarts a failed controller in place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.controllers import new_workload_controllers
from shoal.controlplane.eventttl.controller import EVENT_TTL_SECONDS, EventTTLController
from shoal.controlplane.garbagecollector.controller import new_garbage_collector
from shoal.controlplane.namespaces.controller import new_namespace_controller
from shoal.controlplane.node_controllers import new_node_controllers
from shoal.controlplane.resourcequota.controller import ResourceQuotaController
from shoal.controlplane.scheduler.controller import new_scheduler_controllers
from shoal.runtime.manager import Runnable
from tests.controlplane.world import world

pytestmark = pytest.mark.anyio
Object = dict[str, Any]

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS, EVENTS = GroupVersionResource("", "v1", "pods"), GroupVersionResource("", "v1", "events")
QUOTAS = GroupVersionResource("", "v1", "resourcequotas")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)


def deployment(name: str, replicas: int) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


class Restarted:
    def __init__(self, controllers: list[Runnable]) -> None:
        self._controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(each.run(), name=each.name) for each in self._controllers]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_controllers_that_run_again_continue(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        shared = Client(given.server.transport(), "admin", cluster="root")
        shared.informers = {}
        controllers: list[Runnable] = [
            *new_workload_controllers(shared, given.clock),
            *new_scheduler_controllers(shared, given.clock),
            *new_node_controllers(shared, given.clock),
            ResourceQuotaController(shared, given.clock),
            EventTTLController(shared, given.clock),
            new_garbage_collector(shared, given.clock),
            new_namespace_controller(shared, given.clock),
        ]
        restarted = Restarted(controllers)
        restarted.start()
        client = await given.cluster("a")
        await client.create(NODES, {"metadata": {"name": "n1", "labels": {"shoal.dev/simulated": "true"}}})
        await client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}}, "default")

        async def runs(name: str, replicas: int) -> bool:
            pods, _ = await client.list_all(PODS, "default", labels=f"app={name}")
            ready = sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
            quota = await client.get(QUOTAS, "q", "default")
            given.clock.step(0.1)
            return ready == len(pods) == replicas and bool((quota.get("status") or {}).get("used"))

        async def used(pods: int) -> bool:
            given.clock.step(0.1)
            quota = await client.get(QUOTAS, "q", "default")
            return bool(quota["status"]["used"] == {"pods": str(pods)})

        await client.create(DEPLOYMENTS, deployment("web", 2), "default")
        await given.eventually(lambda: runs("web", 2))
        await given.eventually(lambda: used(2))
        for number in range(2):
            await restarted.stop()
            # What changes while nothing runs is found afterwards.
            await client.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3 + number}}, "default")
            restarted.start()
            await given.eventually(lambda wanted=3 + number: runs("web", wanted))  # type: ignore[misc]
            await given.eventually(lambda wanted=3 + number: used(wanted))  # type: ignore[misc]
        await restarted.stop()
        await client.delete(DEPLOYMENTS, "web", "default")
        await client.create(NAMESPACES, {"metadata": {"name": "gone"}})
        await client.delete(NAMESPACES, "gone")
        restarted.start()
        await given.eventually(lambda: used(0))
        await given.eventually(lambda: given.is_gone(client, NAMESPACES, "gone"))
        given.clock.step(EVENT_TTL_SECONDS + 1)

        async def expired() -> bool:
            return not (await client.list_all(EVENTS, "default"))[0]

        await given.eventually(expired)
        await restarted.stop()


async def test_one_failing_controller_stops_no_other(tmp_path: Path) -> None:
    """The informers of the others keep their state: nothing is listed again for them."""
    async with world(tmp_path, loops=False) as given:
        shared = Client(given.server.transport(), "admin", cluster="root")
        shared.informers = {}
        controllers = new_workload_controllers(shared, given.clock)
        tasks = {each.name: asyncio.create_task(each.run()) for each in controllers}
        client = await given.cluster("a")

        async def pods(name: str, number: int) -> bool:
            found, _ = await client.list_all(PODS, "default", labels=f"app={name}")
            return len(found) == number

        await client.create(DEPLOYMENTS, deployment("web", 2), "default")
        await given.eventually(lambda: pods("web", 2))
        for name, task in tasks.items():
            if name not in ("hosted-clusters", "deployments", "replicasets"):
                task.cancel()
        await client.create(DEPLOYMENTS, deployment("later", 3), "default")
        await given.eventually(lambda: pods("later", 3))
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
