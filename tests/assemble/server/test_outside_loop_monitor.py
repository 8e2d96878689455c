"""A loop that the hub leaves out and that no process runs is named: in ControllersHealthy and by `shoal status`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.controller_health import CONTROLLERS_HEALTHY, LOGICAL_CLUSTERS
from shoal.assemble.server.loop_publisher import LoopPublisher
from shoal.assemble.server.outside_loops import MAX_CHECKS, OutsideLoopMonitor
from shoal.cli.status import read_status
from shoal.kinds.rbac.loop_accounts import health_condition_of
from shoal.kinds.rbac.loop_settings import LoopSettings
from shoal.objects.conditions import get_condition, set_condition
from shoal.runtime.leader_election import LEASES
from tests.controlplane.world import World, world

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
NOW = "2026-11-19T05:00:00Z"


class Renewed:
    """The Lease of a loop, whose process renews it when the test says so."""

    def __init__(self, given: World, loop: str, namespace: str = "kube-system") -> None:
        self.client, self.name, self.namespace = given.client.in_cluster("root"), f"shoal-controllers-{loop}", namespace
        self.count = 0

    async def renew(self, holder: str = "process-1") -> None:
        self.count += 1
        spec = {"holderIdentity": holder, "renewTime": f"2026-11-19T05:00:{self.count:02}.000000Z"}
        if self.count == 1:
            metadata = {"name": self.name, "namespace": self.namespace}
            await self.client.create(LEASES, {"metadata": metadata, "spec": spec}, self.namespace)
        else:
            await self.client.merge_patch(LEASES, self.name, {"spec": spec}, self.namespace)


async def test_a_loop_without_a_renewed_lease_is_named(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        reports: list[str] = []
        monitor = OutsideLoopMonitor(
            given.client.in_cluster("root"), given.clock, {"splitter", "capi"}, lambda _, error: reports.append(error)
        )

        async def check(times: int, *renewed: Renewed) -> str:
            for _ in range(times):
                for lease in renewed:
                    await lease.renew()
                await monitor.check()
            return reports[-1]

        capi, splitter = Renewed(given, "capi"), Renewed(given, "splitter", "default")
        assert await check(MAX_CHECKS) == ""
        assert await check(1) == "no process runs capi,splitter: start shoal controllers --loops capi,splitter"
        assert await check(1, capi) == "no process runs splitter: start shoal controllers --loops splitter"
        assert await check(MAX_CHECKS + 1, capi, splitter) == ""
        assert await check(MAX_CHECKS, capi) == "", "another process may take over meanwhile"
        assert await check(1, capi) == "no process runs splitter: start shoal controllers --loops splitter"
        await splitter.renew(holder="")
        assert "splitter" in await check(1, capi), "a Lease that was released has no holder"
        assert await check(1, capi, splitter) == ""


async def test_a_hub_says_that_nobody_runs_a_loop(tmp_path: Path) -> None:
    async with world(tmp_path, outside_loops=frozenset({"splitter"})) as given:
        client, lease = given.client.in_cluster("root"), Renewed(given, "splitter")

        async def problem() -> str:
            given.clock.step(5)
            await asyncio.sleep(0)
            rows = (await read_status(client)).get("hub", [])
            return ", ".join(f"{row['name']}: {row['problem']}" for row in rows)

        expected = "no process runs splitter: start shoal controllers --loops splitter"

        async def is_named() -> bool:
            return await problem() == f"controllers: loops outside the hub: {expected}"

        async def is_healthy() -> bool:
            await lease.renew()
            found = get_condition(await client.get(LOGICAL_CLUSTERS, "root"), CONTROLLERS_HEALTHY)
            return await problem() == "" and found is not None and found["status"] == "True"

        await given.eventually(is_named)
        await given.eventually(is_healthy)


async def test_what_an_outside_process_reported_is_shown_until_the_hub_runs_the_loop(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = given.client.in_cluster("root")
        for loop in ("fleet", "splitter"):
            root = await client.get(LOGICAL_CLUSTERS, "root")
            condition = health_condition_of(loop)
            failed = set_condition(root, condition, "False", reason="ControllerFailed", message=f"{loop}: x", now=NOW)
            await client.update(LOGICAL_CLUSTERS, failed, "status")

        async def problems() -> list[str]:
            return [f"{row['name']}: {row['problem']}" for row in (await read_status(client)).get("hub", [])]

        assert await problems() == ["loop fleet: fleet: x", "loop splitter: splitter: x"]
        settings = LoopSettings(frozenset({"fleet"}), "", "", "")
        await LoopPublisher(client, given.clock, lambda: settings).publish()
        assert await problems() == ["loop fleet: fleet: x"]
