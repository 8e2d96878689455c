"""The nodes of a hosted cluster through the hub, for users of the hub who may enter it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.inprocess import Pipe
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.fleet import infrav1
from shoal.objects.wire import Request, StreamResponse
from tests.fleet.fleets import eventually
from tests.serving import HANG

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
MANAGED = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "managedclusters")


async def with_a_node(hub: Client, name: str) -> None:
    obj = {
        "apiVersion": infrav1.API_VERSION,
        "kind": infrav1.MANAGED_CLUSTER,
        "metadata": {"name": name},
        "spec": {"nodes": 1},
    }
    await hub.create(MANAGED, obj, "default")

    async def there() -> bool:
        return infrav1.status_of(await hub.get(MANAGED, name, "default")).get("nodes") == 1

    await eventually(there)


async def lines(up: HubWithWorkers, watches: Object) -> AsyncGenerator[Object, None]:
    token = up.hub.directory.admin_token()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    body = json.dumps({"watches": watches}).encode()
    answer = up.hub.server.app.handle(Request("POST", "/ui/stream", "", headers, body, remote_addr="browser"))
    assert isinstance(answer, StreamResponse)
    pipe = Pipe()
    answer.start(pipe)
    async for piece in pipe.read():
        for line in piece.splitlines():
            yield json.loads(line)


async def test_nodes_and_costs_of_a_hosted_cluster_come_by_the_stream(tmp_path: Path) -> None:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(1))
    try:
        await with_a_node(up.hub.client("test"), "east")
        inside = {"inside": "default/east"}
        watches = {"nodes": {"path": "/api/v1/nodes", **inside}, "costs": {"path": "/metrics", **inside}}
        nodes: list[str] = []
        wanted = {("nodes", "BOOKMARK"), ("costs", "TEXT")}
        async with asyncio.timeout(HANG), aclosing(lines(up, watches)) as told:
            async for line in told:
                assert line["type"] != "ERROR", line
                wanted.discard((line.get("id", ""), line["type"]))
                if line["type"] == "ADDED":
                    nodes.append(line["object"]["metadata"]["labels"]["shoal.dev/simulated"])
                if not wanted:
                    break
        assert nodes == ["true"]
    finally:
        await up.stop()
