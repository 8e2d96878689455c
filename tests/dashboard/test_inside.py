"""The nodes of a hosted cluster through the hub, for users who may read its kubeconfig."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.inprocess import Pipe
from shoal.assemble.up import Up, UpSettings, WorkersInside
from shoal.client.requests import Client, Kind
from shoal.kinds import fleet
from shoal.objects.wire import Request, StreamResponse
from tests.fleet.fleets import eventually
from tests.serving import HANG

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
MANAGED = Kind(fleet.GROUP, fleet.VERSION, "managedclusters")


async def with_a_node(hub: Client, name: str) -> None:
    obj = {
        "apiVersion": fleet.API_VERSION,
        "kind": fleet.MANAGED_CLUSTER,
        "metadata": {"name": name},
        "spec": {"nodes": 1},
    }
    await hub.create(MANAGED, obj, "default")

    async def there() -> bool:
        return fleet.status_of(await hub.get(MANAGED, name, "default")).get("nodes") == 1

    await eventually(there)


async def lines(up: Up, watches: Object) -> AsyncGenerator[Object, None]:
    token = up.hub.directory.admin_token()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    body = json.dumps({"watches": watches}).encode()
    answer = up.hub.server.app.handle(Request("POST", "/ui/stream", "", headers, body, remote="browser"))
    assert isinstance(answer, StreamResponse)
    pipe = Pipe()
    answer.start(pipe)
    async for piece in pipe.read():
        for line in piece.splitlines():
            yield json.loads(line)


async def test_nodes_and_costs_of_a_hosted_cluster_come_by_the_stream(tmp_path: Path) -> None:
    up = await Up.start(UpSettings(tmp_path / "data", port=0), WorkersInside(1))
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
