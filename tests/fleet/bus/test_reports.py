"""Reports that could not be sent while the link was cut are sent once when it is back, and nothing else is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import FakeClock
from shoal.fleet.bus import watch_bus
from shoal.fleet.bus.link_metrics import LinkMetrics
from shoal.fleet.controllers import FleetRunnable, new_worker_controllers
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.fleet.worker.informers import MACHINE_DEPLOYMENTS, WorkerInformers
from shoal.fleet.worker.reporter import controller as reporting
from shoal.fleet.worker.reporter.controller import TokenBucket
from shoal.fleet.worker.settings import WorkerSettings
from shoal.runtime.controller import Controller
from tests.fleet.bus.contract import CuttableTransport
from tests.fleet.fleets import Fleet, as_worker, eventually, fleet, phase, provision, running, server

Object = dict[str, Any]
NAMES = tuple(f"c{number}" for number in range(8))
CHANGED = NAMES[:5]


@dataclass
class Hosting:
    """A worker whose clusters all run, and its link."""

    fleet: Fleet
    own: Client
    link: CuttableTransport
    traffic: LinkMetrics
    loops: list[FleetRunnable]

    async def is_live(self, wanted: bool) -> None:
        async def so() -> bool:
            return self.traffic.is_live == wanted

        await eventually(so)

    async def sees(self, ready: int) -> None:
        """The worker's own view has come that far."""
        root = next(each for each in self.loops if isinstance(each, WorkerInformers))

        async def so() -> bool:
            pools = [root.get(MACHINE_DEPLOYMENTS, "default", f"{name}-default") for name in CHANGED]
            return all(pool is not None and pool.get("status", {}).get("readyReplicas") == ready for pool in pools)

        await eventually(so)

    async def at_rest(self) -> str:
        """Nobody has anything to do, and what was written has been heard; the hub's revision then."""

        async def look() -> tuple[list[Object], str, bool]:
            queues = [
                each.queue for each in self.loops if isinstance(each, Controller) and each.name != "fleet-registration"
            ]
            busy = any(queue._queue or queue._processing for queue in queues)
            return *(await self.fleet.hub.list_all(MANAGED_CLUSTERS)), busy

        async def so() -> str | None:
            before, _, busy = await look()
            await asyncio.sleep(0.05)
            now, revision, still_busy = await look()
            return revision if now == before and not busy and not still_busy else None

        return await eventually(so)


@asynccontextmanager
async def hosting(directory: Path) -> AsyncIterator[Hosting]:
    async with fleet(directory) as made, server(directory / "own") as own:
        link, traffic = CuttableTransport(made.hub._transport), LinkMetrics(made.clock)
        hub = as_worker(made.hub, "w1").with_transport(lambda _: link)
        settings = WorkerSettings("w1", 100, "", "v1.36.4", "https://hub:6443", "-----CA-----\n")
        loops = new_worker_controllers(hub, own, made.clock, settings, link_metrics=traffic)
        async with running(loops):
            await asyncio.gather(*(made.create(name, nodes=3) for name in NAMES))
            await asyncio.gather(*(provision(own, name) for name in NAMES))
            for name in NAMES:
                await made.until(name, lambda obj: phase(obj) == "Running")
            yield Hosting(made, own, link, traffic, loops)


class Writes:
    """Of ManagedClusters at the hub, from now on."""

    def __init__(self, hub: Client, since: str) -> None:
        self.count: Counter[str] = Counter()
        self._events = hub.watch(MANAGED_CLUSTERS, query={"resourceVersion": since})
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for event in self._events:
            self.count[event["object"]["metadata"]["name"]] += 1

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.mark.anyio
async def test_each_is_said_once_and_only_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_bus, "FIRST_PAUSE", 0.01)
    async with hosting(tmp_path) as made:
        since = await made.at_rest()
        made.link.cut()
        await made.is_live(False)
        for ready in (1, 2, 3):
            for name in CHANGED:
                status = {"status": {"replicas": 3, "readyReplicas": ready}}
                await made.own.merge_patch(MACHINE_DEPLOYMENTS, f"{name}-default", status, "default", "status")
        await made.sees(3)
        writes = Writes(made.fleet.hub, since)
        made.link.asked.clear()
        made.link.restore()
        for name in CHANGED:
            await made.fleet.until(name, lambda obj: obj["status"].get("nodes") == 3)
        await made.at_rest()
        assert writes.count == dict.fromkeys(CHANGED, 1)
        put = [path.split("/")[-2] for method, path in made.link.asked if method == "PUT"]
        assert sorted(put) == sorted(CHANGED)
        # Nothing has changed: nothing is written, and no kubeconfig is looked at.
        made.link.cut()
        await made.is_live(False)
        made.link.asked.clear()
        made.link.restore()
        await made.is_live(True)
        await made.at_rest()
        await writes.close()
        assert writes.count == dict.fromkeys(CHANGED, 1)
        assert not [path for _, path in made.link.asked if "/secrets/" in path or "/managedclusters/" in path]


@pytest.mark.anyio
async def test_a_kubeconfig_that_somebody_deleted_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hosting(tmp_path) as made:
        hub = made.fleet.hub
        await hub.delete(SECRETS, "c0-kubeconfig", "default")
        monkeypatch.setattr(reporting, "VERIFY_SECONDS", 0.0)  # an hour has passed
        # Anything that makes the worker look at it, though it has nothing new to say.
        await made.own.merge_patch(MACHINE_DEPLOYMENTS, "c0-default", {"metadata": {"labels": {"a": "b"}}}, "default")

        async def back() -> bool:
            names = {obj["metadata"]["name"] for obj in (await hub.list_all(SECRETS, "default"))[0]}
            return "c0-kubeconfig" in names

        await eventually(back)


@pytest.mark.anyio
async def test_many_at_once_are_paced() -> None:
    clock = FakeClock()
    pace = TokenBucket(clock, 10.0, 5)
    done: list[float] = []

    async def one() -> None:
        await pace.wait()
        done.append(clock.monotonic())

    start = clock.monotonic()
    tasks = [asyncio.create_task(one()) for _ in range(15)]
    for _ in range(12):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock.step(0.1)
    await asyncio.gather(*tasks)
    assert [round(each - start, 1) for each in done] == [0.0] * 5 + [round(0.1 * number, 1) for number in range(1, 11)]
