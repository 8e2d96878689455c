"""Whole servers with all their controllers: a worker is lost, its cluster comes up elsewhere with its data, and the old
worker hands over.

All share one clock, which the test advances; live workers renew their Leases meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.shoal_server import ShoalServer, ShoalServerSettings
from shoal.client.rest import Client
from shoal.clock import SystemClock
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS
from shoal.kinds.fleet import migration
from shoal.kinds.fleet.infrav1 import HEARTBEAT_SECONDS
from shoal.objects.errors import Unavailable
from tests.fleet.worker.fleets import (
    CONFIG_MAPS,
    WORKERS,
    Fleet,
    Shift,
    condition,
    config_map,
    eventually,
    phase,
    refused,
)

pytestmark = pytest.mark.anyio

STEP = 5.0


class Jumping(Shift):
    """Who sleeps wakes up when the time has come, however it came."""

    def __init__(self) -> None:
        super().__init__()
        self._system = SystemClock()
        self._jumped = asyncio.Event()

    def jump(self, seconds: float) -> None:
        self.added += seconds
        self._jumped.set()
        self._jumped = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        due = self.monotonic() + seconds
        while (left := due - self.monotonic()) > 0:
            try:
                # Not wait_for: where the jump and a cancellation meet, that of Python 3.11 loses the cancellation.
                async with asyncio.timeout(left):
                    await self._jumped.wait()
            except TimeoutError:
                return
        await asyncio.sleep(0)


class Lives(Fleet):
    def __init__(self, directory: Path, hub: ShoalServer, clock: Jumping, *workers: str) -> None:
        super().__init__(directory, hub)
        self.clock = clock
        self.clocks = dict.fromkeys(workers, clock)
        self.alive = set(workers)

    async def pass_time(self, seconds: float) -> None:
        """No step is taken before all that are alive have renewed as they should."""
        while seconds > 0:
            self.clock.jump(STEP)
            seconds -= STEP
            for name in self.alive:
                await eventually(lambda name=name: self._has_renewed(name))  # type: ignore[misc]

    async def _has_renewed(self, name: str) -> bool:
        lease = await self.hub.get(LEASES, f"worker-{name}", "shoal-system")
        age = self.clock.now() - datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
        return age < HEARTBEAT_SECONDS + 1.0

    async def meanwhile(self, work: Coroutine[Any, Any, object]) -> None:
        """Time passes until that is done."""
        task = asyncio.create_task(work)
        while not task.done():
            await self.pass_time(STEP)
            await asyncio.wait((task,), timeout=0.1)
        task.result()


@asynccontextmanager
async def lives(directory: Path, *workers: str) -> AsyncIterator[Lives]:
    clock = Jumping()
    hub = await ShoalServer.start(ShoalServerSettings(directory / "hub", port=0, clock=clock))
    made = Lives(directory, hub, clock, *workers)
    try:
        await ensure_worker_namespace(made.hub)
        for name in workers:
            await made.start(name)
        yield made
    finally:
        for name in list(made.workers):
            await made.stop(name)
        await hub.stop()


async def test_a_lost_worker_s_cluster_goes_on_elsewhere_and_the_one_that_comes_back_gives_way(tmp_path: Path) -> None:
    async with lives(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=1, onWorkerLost="Move")
        free = {"spec": {"workerSelector": None}}
        await made.hub.merge_patch(MANAGED_CLUSTERS, "east", free, "default")
        first = made.inside("w1")

        await eventually(lambda: written(first, "one"))
        await made.meanwhile(made.backed_up("w1"))

        made.lines["w1"].cut()
        made.alive.discard("w1")
        await made.pass_time(45)
        error = await refused(first.create(CONFIG_MAPS, config_map("too-late"), "default"))
        assert error.status_code == 503
        assert (await first.get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"
        assert (await made.get())["status"]["assignedWorker"] == "w1"

        await made.pass_time(80)
        found = await made.until(lambda obj: obj["status"]["assignedWorker"] == "w2" and phase(obj) == "Running")
        assert found["status"]["epoch"] == 2
        assert migration.former_workers(found) == ["w1"]
        assert condition(found, "Restored")["status"] == "True"
        second = made.inside("w2")
        assert (await second.get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"

        await eventually(lambda: written(second, "two"))
        await made.until(lambda obj: condition(obj, "Moving").get("reason") == "Moved")

        made.lines["w1"].mend()
        made.alive.add("w1")
        await made.pass_time(15)

        async def gave_way() -> bool:
            await refused(first.create(CONFIG_MAPS, config_map("three"), "default"))
            return not made.workers["w1"].shoal.cluster_moves.storage.contents("default.east").entries  # type: ignore[union-attr]

        await eventually(gave_way)
        assert (await made.get())["status"]["epoch"] == 2
        await eventually(lambda: healthy(made))


async def written(inside: Client, name: str) -> bool:
    """False: nobody may change it yet."""
    try:
        await inside.create(CONFIG_MAPS, config_map(name), "default")
    except Unavailable:
        return False
    return True


async def healthy(made: Lives) -> bool:
    found = await made.hub.get(WORKERS, "w1", "shoal-system")
    return condition(found, "Ready").get("status") == "True" and not condition(found, "Evacuated")
