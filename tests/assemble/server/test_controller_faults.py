"""A fault in any controller of a hub and its workers restarts that controller alone, and everything heals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.inprocess import InProcessTransport
from shoal.assemble.server.embedded_controllers import USER_AGENT
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime import manager
from shoal.runtime.metrics import restarts
from tests.story.story import example

pytestmark = pytest.mark.anyio
Object = dict[str, Any]

MANAGED = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "managedclusters")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
HANG = 120.0
FAILING = {3: RuntimeError, 5: OSError, 11: TypeError, 20: asyncio.CancelledError}
"""Of the requests of an account, those that fail, and how."""


class FaultyController:
    """Runs a controller until a fault is injected, which ends it as an unhandled exception would."""

    def __init__(self, inner: manager.Runnable) -> None:
        self.name, self.inner = inner.name, inner
        self.fault: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.runs = 0

    def inject(self, error: BaseException) -> None:
        self.fault.set_result(error)

    async def run(self) -> None:
        self.runs += 1
        self.fault = asyncio.get_running_loop().create_future()
        work = asyncio.ensure_future(self.inner.run())
        try:
            waiters: set[asyncio.Future[Any]] = {work, self.fault}
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
            if self.fault.done():
                raise self.fault.result()
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(HANG):
        while not await look():  # noqa: ASYNC110  what is looked at tells nobody
            await asyncio.sleep(0.05)


async def test_each_controller_restarts_alone_and_everything_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers: list[FaultyController] = []
    run_with_restarts = manager._run_with_restarts

    async def run_faulty(inner: manager.Runnable, *rest: Any) -> None:
        faulty = FaultyController(inner)
        controllers.append(faulty)
        await run_with_restarts(faulty, *rest)

    monkeypatch.setattr(manager, "_run_with_restarts", run_faulty)
    monkeypatch.setattr(manager, "BASE_DELAY", 0.002)
    restarts.clear()
    running = await HubWithWorkers.start(ShoalServerSettings(tmp_path, port=0), InProcessWorkers(2))
    try:
        client = running.hub.client("test")
        await create(client, "clusters.yaml")
        await eventually(lambda: clusters_run(client))
        await create(client, "deployment.yaml")
        await eventually(lambda: has_ready(client, 10))
        assert not any(restarts.values()), dict(restarts)
        for number, controller in enumerate(controllers):
            before = dict(restarts)
            kind = (KeyError, OSError, asyncio.CancelledError)[number % 3]
            controller.inject(kind("injected"))
            async with asyncio.timeout(HANG):
                while controller.runs < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            name = controller.name.partition(" ")[0]
            rose = {
                each: count - before.get(each, 0) for each, count in restarts.items() if count != before.get(each, 0)
            }
            assert rose == {name: 1}
        assert len(controllers) > 100
        await client.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": 14}}, "default")
        await eventually(lambda: has_ready(client, 14))
        for obj in example("clusters.yaml"):
            await client.delete(MANAGED, obj["metadata"]["name"], "default")
        await eventually(lambda: clusters_gone(client))
        assert all(controller.runs == 2 for controller in controllers), "none failed by itself"
    finally:
        await running.stop()


async def test_what_controllers_await_may_fail_in_any_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each account, four requests fail as no request should, and every watch once after its first piece."""
    requests: Counter[str] = Counter()
    broken: set[tuple[str, str]] = set()
    send, stream = InProcessTransport.request, InProcessTransport.stream

    async def fragile_request(
        self: InProcessTransport, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        account = headers.get("authorization", "")
        if headers.get("user-agent") == USER_AGENT:
            requests[account] += 1
            if requests[account] in FAILING:
                raise FAILING[requests[account]]("injected")
        return await send(self, method, path, query, headers, body)

    async def fragile_stream(
        self: InProcessTransport, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        status, chunks = await stream(self, method, path, query, headers)
        watch = headers.get("authorization", ""), path
        if headers.get("user-agent") != USER_AGENT or watch in broken:
            return status, chunks
        broken.add(watch)
        return status, _breaking(chunks)

    monkeypatch.setattr(InProcessTransport, "request", fragile_request)
    monkeypatch.setattr(InProcessTransport, "stream", fragile_stream)
    monkeypatch.setattr(manager, "MAX_DELAY", 0.2)
    monkeypatch.setattr(manager, "BASE_DELAY", 0.05)
    running = await HubWithWorkers.start(ShoalServerSettings(tmp_path, port=0), InProcessWorkers(2))
    try:
        client = running.hub.client("test")
        await create(client, "clusters.yaml")
        await eventually(lambda: clusters_run(client))
        await create(client, "deployment.yaml")
        await eventually(lambda: has_ready(client, 10))
        for obj in example("clusters.yaml"):
            await client.delete(MANAGED, obj["metadata"]["name"], "default")
        await eventually(lambda: clusters_gone(client))
        assert len(requests) > 20
    finally:
        await running.stop()


async def _breaking(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(chunks) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            yield piece
            raise RuntimeError("injected")


async def create(client: Client, file: str) -> None:
    for obj in example(file):

        async def apply(obj: Object = obj) -> bool:
            """Retried: the hub serves Deployments only after it has imported them."""
            try:
                gvr = MANAGED if obj["kind"] == "ManagedCluster" else DEPLOYMENTS
                await client.apply(gvr, {**obj, "metadata": {"namespace": "default", **obj["metadata"]}}, "test")
            except StatusError:
                return False
            return True

        await eventually(apply)


async def clusters_run(client: Client) -> bool:
    objects, _ = await client.list_all(MANAGED)
    return len(objects) == 2 and all((obj.get("status") or {}).get("phase") == "Running" for obj in objects)


async def clusters_gone(client: Client) -> bool:
    return (await client.list_all(MANAGED))[0] == []


async def has_ready(client: Client, replicas: int) -> bool:
    try:
        deployment = await client.get(DEPLOYMENTS, "web", "default")
    except NotFound:
        return False
    return bool((deployment.get("status") or {}).get("readyReplicas") == replicas)
