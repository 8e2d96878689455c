"""A hub with its real controllers, and fake workers: the test writes Leases and status as a worker would.

The clock is the test's: time passes only by `pass_time`, in steps of one heartbeat, with live workers renewing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.client.rest import Client
from shoal.clock import FakeClock, rfc3339, rfc3339_micro
from shoal.fleet.controllers import FleetRunnable, new_hub_controllers
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import CONFIG_MAPS, LEASES, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1 as names
from shoal.objects.conditions import set_condition
from shoal.objects.errors import Conflict, NotFound
from tests.fleet.fleets import SYSTEM, condition, managed, phase, running, server

Object = dict[str, Any]
STEP = 10.0


class Hub:
    def __init__(self, client: Client, clock: FakeClock) -> None:
        self.client, self.clock = client, clock
        self.alive: set[str] = set()
        self.annotations: dict[str, dict[str, str]] = {}
        """Of Leases by Worker, beside that it fences."""

    async def worker(self, name: str, capacity: int = 10, **spec: Any) -> None:
        body: Object = {"apiVersion": names.API_VERSION, "kind": "Worker", "metadata": {"name": name}}
        await self.client.create(WORKERS, {**body, "spec": {"capacity": capacity, **spec}}, SYSTEM)
        self.alive.add(name)
        await self.beat(name)
        await self.until_worker(name, lambda obj: condition(obj, "Ready").get("status") == "True")

    async def beat(self, name: str) -> None:
        renewed = {"renewTime": rfc3339_micro(self.clock.now()), "leaseDurationSeconds": 40}
        annotations = {names.FENCES_ANNOTATION: "true", **self.annotations.get(name, {})}
        metadata = {"name": f"worker-{name}", "annotations": annotations}
        try:
            await self.client.merge_patch(LEASES, f"worker-{name}", {"metadata": metadata, "spec": renewed}, SYSTEM)
        except NotFound:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": renewed}
            await self.client.create(LEASES, body, SYSTEM)

    async def pass_time(self, seconds: float) -> None:
        """In steps, and what is due has its turn after each."""
        while seconds > 0:
            step = min(STEP, seconds)
            seconds -= step
            for name in sorted(self.alive):
                await self.beat(name)
            await self.settle()
            self.clock.step(step)
            await self.settle()

    async def settle(self) -> None:
        """Lets the loops see what was written: a round trip through the server, a few times."""
        for _ in range(10):
            await self.client.get(MANAGED_CLUSTERS, "", "default")
            await asyncio.sleep(0)

    async def lose(self, name: str) -> None:
        self.alive.discard(name)
        await self.pass_time(50)
        await self.until_worker(name, lambda obj: phase(obj) in ("Lost", "Terminating"))

    async def create(self, name: str, worker: str = "", **spec: Any) -> Object:
        """Given to that Worker, where it names one that must be."""
        await self.client.create(MANAGED_CLUSTERS, managed(name, nodes=0, **spec), "default")
        return await self.until(name, lambda obj: _on(obj) == worker if worker else _on(obj))

    async def get(self, name: str) -> Object:
        return await self.client.get(MANAGED_CLUSTERS, name, "default")

    async def tell(self, name: str, **status: Any) -> Object:
        """As its worker says it: by compare-and-swap."""

        def changed(obj: Object) -> Object:
            return {**obj, "status": {**names.status_of(obj), **status}}

        return await self._change(name, changed)

    async def _change(self, name: str, changed: Callable[[Object], Object]) -> Object:
        while True:
            try:
                return await self.client.update(MANAGED_CLUSTERS, changed(await self.get(name)), "status")
            except Conflict:
                continue

    async def hold(self, name: str) -> Object:
        """Confirms it, and sends a backup."""
        obj, now = await self.get(name), rfc3339(self.clock.now())
        mark = {"worker": _on(obj), "epoch": names.epoch(obj)}
        backup = {**mark, "revision": 900, "time": now, "bytes": 1, "complete": True}
        return await self.tell(name, held={**mark, "time": now}, backup=backup)

    async def ready(self, name: str) -> Object:
        def changed(obj: Object) -> Object:
            told = set_condition(obj, "Ready", "True", reason="Running", now=rfc3339(self.clock.now()))
            return {**told, "status": {**told["status"], "phase": "Running", "version": "v1.36.4"}}

        return await self._change(name, changed)

    async def send(self, name: str) -> Object:
        """What the worker does when it is asked to send it on: it freezes it, and the rest of its log is there."""
        obj = await self.until(name, names.migration_target)
        mark = {"worker": _on(obj), "epoch": names.epoch(obj)}
        backup = {**mark, "revision": 950, "time": rfc3339(self.clock.now()), "complete": True, "final": True}
        return await self.tell(name, backup=backup)

    async def until(self, name: str, look: Callable[[Object], Any]) -> Object:
        return await self._until(lambda: self.get(name), look)

    async def _until(self, get: Callable[[], Awaitable[Object]], look: Callable[[Object], Any]) -> Object:
        """Time passes between looks, first a little: some things are told at a calm pace."""
        for number in range(2000):
            obj = await get()
            if look(obj):
                return obj
            await self.pass_time(min(5.0, 0.1 * 1.05**number))
        raise AssertionError(f"still {await get()!r}")

    async def until_on(self, name: str, worker: str) -> Object:
        return await self.until(name, lambda obj: _on(obj) == worker)

    async def until_any_moves(self) -> Object:
        async def look() -> Object:
            found, _ = await self.client.list_all(MANAGED_CLUSTERS)
            return next((each for each in found if names.migration_target(each)), {})

        return await self._until(look, bool)

    async def get_worker(self, name: str) -> Object:
        return await self.client.get(WORKERS, name, SYSTEM)

    async def until_worker(self, name: str, look: Callable[[Object], Any]) -> Object:
        return await self._until(lambda: self.get_worker(name), look)

    async def says(self, worker: str, type_: str, reason: str) -> Object:
        found = await self.until_worker(worker, lambda obj: condition(obj, type_).get("reason") == reason)
        return condition(found, type_)

    async def change(self, worker: str, **spec: Any) -> None:
        await self.client.merge_patch(WORKERS, worker, {"spec": spec}, SYSTEM)

    async def configure(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await self.client.create(CONFIG_MAPS, body, SYSTEM)


def _on(obj: Object) -> str:
    return names.assigned_worker(obj)


@asynccontextmanager
async def hub(
    directory: Path, loops: Callable[[Client, FakeClock], list[FleetRunnable]] = new_hub_controllers
) -> AsyncIterator[Hub]:
    clock = FakeClock()
    async with server(directory / "hub", clock) as client:
        await ensure_worker_namespace(client)
        async with running(loops(client, clock)):
            yield Hub(client, clock)
