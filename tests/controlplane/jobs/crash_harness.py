"""Jobs for a running server, a cluster with a simulated node, and controllers that crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.controllers import new_workload_controllers
from tests.controlplane.world import World
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
JOB_KIND, POD_KIND = GroupVersionResource("batch", "v1", "jobs"), GroupVersionResource("", "v1", "pods")
CAPACITY = {"cpu": "100", "memory": "400Gi", "pods": "1000"}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"shoal.dev/simulated": "true"}},
    "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
}


def job(name: str = "j", run_for: str = "10ms", simulate: str = "", **spec: Any) -> Object:
    annotations = {"shoal.dev/run-for": run_for} | ({"shoal.dev/simulate": simulate} if simulate else {})
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def cluster_with_node(server: Server) -> Cluster:
    cluster = fresh_cluster(server, profile="cluster")
    cluster.post("/api/v1/nodes", NODE).ok()
    return cluster


class CrashingTransport:
    """A transport whose client crashes with its n-th write: the write is executed, and no response arrives
    afterwards.
    """

    def __init__(self, inner: Any, writes: int) -> None:
        self._inner, self._left, self._under_way = inner, writes, 0
        self.dead = asyncio.Event()

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        counts = method != "GET" and not path.endswith("/events")
        if counts and self._left <= 0:
            await asyncio.Event().wait()
        self._left -= counts
        self._under_way += counts
        answer: tuple[int, Mapping[str, str], bytes] = await self._inner.request(method, path, query, headers, body)
        self._under_way -= counts
        if counts and self._left <= 0:
            if not self._under_way:  # writes in flight have completed too
                self.dead.set()
            await asyncio.Event().wait()
        return answer

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        found: tuple[int, AsyncIterator[bytes]] = await self._inner.stream(method, path, query, headers)
        return found

    async def close(self) -> None:
        return


async def run_with_crashes(given: World, writes: int, live: Callable[[], Awaitable[bool]]) -> int:
    """Restarts the workload controllers after every `writes` writes until `live` returns true. Returns the number of
    starts.
    """
    lives = 0
    while True:
        transport = CrashingTransport(given.server.transport(), writes)
        client = Client(transport, "admin", cluster="root")
        client.informers = {}
        tasks = [asyncio.create_task(loop.run()) for loop in new_workload_controllers(client, given.clock)]
        lives += 1
        try:
            while not transport.dead.is_set():
                if await live():
                    return lives
                await asyncio.sleep(0.002)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert lives < 500
