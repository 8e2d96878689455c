"""The worker process supervisor on a real server with fake processes: which hub acts, and what is never done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.storage.datadir import DataDirError
from shoal.client.rest import Client
from shoal.clock import FakeClock, SystemClock
from shoal.fleet.controllers import new_supervisor_controllers
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scaledown.controller import ScaleDownReconciler
from shoal.fleet.workerprocesses.interface import ProcessState
from shoal.fleet.workerprocesses.supervisor_leases import SupervisorLeases
from shoal.kinds.fleet import infrav1 as names
from tests.fleet.fleets import SYSTEM, condition, eventually, gone, managed, running, server

Object = dict[str, Any]
pytestmark = pytest.mark.anyio


class Played:
    """Processes that are numbers, and data directories that are entries."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.here: dict[str, ProcessState] = {}
        self.did: list[tuple[str, str]] = []
        self._told: Callable[[str], None] = lambda _: None

    def add_exit_handler(self, handler: Callable[[str], None]) -> None:
        self._told = handler

    def state_of(self, name: str) -> ProcessState:
        return self.here.get(name, ProcessState(directory=f"/{name}"))

    async def start(self, name: str, uid: str) -> None:
        self.did.append(("start", name))
        await asyncio.sleep(0)
        self.here[name] = replace(self.state_of(name), pid=len(self.did), changed_at=0.0, owner_uid=uid)

    async def stop(self, name: str) -> None:
        self.did.append(("stop", name))
        self.here[name] = replace(self.state_of(name), pid=0)

    async def remove(self, name: str) -> None:
        self.did.append(("remove", name))
        del self.here[name]

    def die(self, name: str, failures: int = 0) -> None:
        self.here[name] = replace(self.state_of(name), pid=0, failures=failures, exit_message="exit code 3: error: no")
        self._told(name)


@asynccontextmanager
async def supervised(directory: Path, *places: Played | None) -> AsyncIterator[Client]:
    async with server(directory / "hub") as hub:
        await ensure_worker_namespace(hub)
        clock = SystemClock()
        async with running([loop for place in places for loop in new_supervisor_controllers(hub, clock, place)]):
            yield hub


async def declare(hub: Client, name: str, namespace: str = SYSTEM, **metadata: Any) -> Object:
    body = {"apiVersion": names.API_VERSION, "kind": "Worker", "metadata": {"name": name, **metadata}, "spec": {}}
    return await hub.create(WORKERS, body, namespace)


async def said(hub: Client, name: str, reason: str, namespace: str = SYSTEM) -> Object:
    async def told() -> Object | None:
        found = await hub.get(WORKERS, name, namespace)
        return found if condition(found, "Supervised").get("reason") == reason else None

    return await eventually(told)


async def test_of_several_hubs_one_runs_a_worker(tmp_path: Path) -> None:
    a, b = Played("a"), Played("b")
    async with supervised(tmp_path, a, b, None) as hub:
        for number in range(6):
            await declare(hub, f"w{number}")
        owners = {}
        for number in range(6):
            found = await said(hub, f"w{number}", "ProcessRunning")
            owners[f"w{number}"] = found["metadata"]["annotations"][names.SUPERVISOR_ANNOTATION]
            assert found["metadata"]["finalizers"] == [names.PROCESS_FINALIZER]
        for place in (a, b):
            assert sorted(name for _, name in place.did) == sorted(
                n for n, owner in owners.items() if owner == place.id
            )


async def test_one_that_ends_is_started_again_and_says_why(tmp_path: Path) -> None:
    place = Played("a")
    async with supervised(tmp_path, place) as hub:
        await declare(hub, "one")
        await said(hub, "one", "ProcessRunning")
        place.here["one"] = replace(place.here["one"], changed_at=SystemClock().monotonic())
        place.die("one", failures=1)
        found = await said(hub, "one", "ProcessExited")
        assert condition(found, "Supervised")["message"] == "exit code 3: error: no; restarting"
        assert [error["reason"] for error in found["status"]["errors"]] == ["ProcessExited"]
        await said(hub, "one", "ProcessRunning")
        assert place.did == [("start", "one"), ("start", "one")]


async def test_a_deleted_one_that_is_given_a_cluster_at_the_last_moment_goes_on(tmp_path: Path) -> None:
    """Its finalizer of hosting is gone, and still it hosts: the API has the last word."""
    place = Played("a")
    async with supervised(tmp_path, place) as hub:
        await declare(hub, "one")
        await said(hub, "one", "ProcessRunning")
        await hub.create(MANAGED_CLUSTERS, managed("east"), "default")
        await hub.merge_patch(MANAGED_CLUSTERS, "east", {"status": {"assignedWorker": "one"}}, "default", "status")
        await hub.delete(WORKERS, "one", SYSTEM)
        place.die("one")
        await eventually(lambda: _did(place, ("start", "one"), ("start", "one")))
        await hub.merge_patch(MANAGED_CLUSTERS, "east", {"status": {"assignedWorker": None}}, "default", "status")
        place.die("one")
        await eventually(lambda: gone(hub, WORKERS, "one", SYSTEM))
        assert place.did[-1] == ("remove", "one")


async def _did(place: Played, *what: tuple[str, str]) -> bool:
    return place.did == list(what)


async def test_one_whose_finalizers_were_taken_off_ends_and_its_data_stays(tmp_path: Path) -> None:
    place = Played("a")
    async with supervised(tmp_path, place) as hub:
        await declare(hub, "one")
        await said(hub, "one", "ProcessRunning")
        await hub.merge_patch(WORKERS, "one", {"metadata": {"finalizers": []}}, SYSTEM)
        await hub.delete(WORKERS, "one", SYSTEM)
        await eventually(lambda: _did(place, ("start", "one"), ("stop", "one")))
        await declare(hub, "one")
        found = await said(hub, "one", "DirectoryTaken")
        wanted = "/one holds the data of another worker; move it away, or choose another name"
        assert condition(found, "Supervised")["message"] == wanted
        assert place.did == [("start", "one"), ("stop", "one")]


async def test_what_is_refused_says_why(tmp_path: Path) -> None:
    place = Played("a")
    async with supervised(tmp_path, place) as hub:
        await declare(hub, "there", annotations={names.STORE_ANNOTATION: "x"})
        await said(hub, "there", "JoinedFromElsewhere")
        await hub.merge_patch(WORKERS, "there", {"spec": {"infrastructure": "external"}}, SYSTEM)

        async def silent() -> bool:
            return not condition(await hub.get(WORKERS, "there", SYSTEM), "Supervised")

        await eventually(silent)
        await declare(hub, "astray", "default")
        await said(hub, "astray", "WrongNamespace", "default")
        assert not place.did


async def test_a_hub_that_is_gone_for_good_is_found_out(tmp_path: Path) -> None:
    """One that never ran is started elsewhere; of one that did, the data is not here; nothing holds up a deletion."""
    clock, place = FakeClock(), Played("a")
    async with server(tmp_path / "hub", clock) as hub:
        await ensure_worker_namespace(hub)
        claim, held = {names.SUPERVISOR_ANNOTATION: "gone"}, [names.PROCESS_FINALIZER]
        await declare(hub, "fresh", annotations=claim, finalizers=held)
        await declare(hub, "joined", annotations={**claim, names.STORE_ANNOTATION: "x"}, finalizers=held)
        async with running(new_supervisor_controllers(hub, clock, place)):
            began = clock.now()
            stepping = asyncio.create_task(_step(clock))
            try:
                await said(hub, "fresh", "ProcessRunning")
                found = await said(hub, "joined", "SupervisorSilent")
                assert clock.now() - began >= names.LEASE_GRACE_SECONDS
                wanted = "no heartbeat from the hub that runs it and has its data (shoal.dev/supervisor: gone)"
                assert condition(found, "Supervised")["message"] == wanted
                assert place.did == [("start", "fresh")]
                await hub.delete(WORKERS, "joined", SYSTEM)
                await eventually(lambda: gone(hub, WORKERS, "joined", SYSTEM))
            finally:
                stepping.cancel()


async def _step(clock: FakeClock) -> None:
    while True:
        clock.step(2)
        await asyncio.sleep(0.005)


async def test_hubs_that_run_processes_say_that_they_are_there(tmp_path: Path) -> None:
    clock = FakeClock()
    async with server(tmp_path / "hub", clock) as hub:
        await ensure_worker_namespace(hub)
        writing, reading = SupervisorLeases(hub, clock, "a"), SupervisorLeases(hub, clock, "b")
        clock.step(100)
        assert (reading.remaining("a"), writing.remaining("a")) == (0.0, names.LEASE_GRACE_SECONDS)
        tasks = [asyncio.create_task(writing.run_heartbeat()), asyncio.create_task(reading.leases.run())]
        try:

            async def heard() -> bool:
                return reading.remaining("a") == names.LEASE_GRACE_SECONDS

            await eventually(heard)
            first = reading._renewals["a"]

            async def heard_again() -> bool:
                clock.step(1)
                return reading._renewals["a"] != first

            await eventually(heard_again)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        clock.step(names.LEASE_GRACE_SECONDS)
        assert (reading.remaining("a"), reading.remaining("unheard of")) == (0.0, 0.0)


async def test_a_hub_that_runs_none_says_so(tmp_path: Path) -> None:
    async with supervised(tmp_path, None) as hub:
        await declare(hub, "one")
        found = await said(hub, "one", "NoWorkerProcesses")
        wanted = "this hub runs no worker processes; run it yourself: shoal worker --name one"
        assert condition(found, "Supervised")["message"] == wanted
        assert "annotations" not in found["metadata"]


async def test_an_auto_worker_that_stays_empty_is_deleted(tmp_path: Path) -> None:
    clock = FakeClock()
    async with server(tmp_path / "hub", clock) as hub:
        await ensure_worker_namespace(hub)
        loop = ScaleDownReconciler(hub, clock).controller
        async with running([loop]):
            for name, labels in (
                ("full", {names.AUTO_WORKER_LABEL: "x"}),
                ("empty", {names.AUTO_WORKER_LABEL: "x"}),
                ("own", {}),
            ):
                await declare(hub, name, labels=labels)
            await hub.create(MANAGED_CLUSTERS, managed("east"), "default")
            await hub.merge_patch(MANAGED_CLUSTERS, "east", {"status": {"assignedWorker": "full"}}, "default", "status")
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.AUTO_WORKERS_CONFIG_MAP}}
            await hub.create(CONFIG_MAPS, {**body, "data": {"max": "2"}}, SYSTEM)
            began = clock.now()

            async def deleted() -> bool:
                clock.step(30)
                return await gone(hub, WORKERS, "empty", SYSTEM)

            await eventually(deleted)
            assert clock.now() - began >= 600, "the time it may be empty"
            for name in ("full", "own"):
                assert not await gone(hub, WORKERS, name, SYSTEM)


async def test_a_worker_inside_takes_no_declared_ones_data(tmp_path: Path) -> None:
    data = tmp_path / "workers" / "worker-1"
    data.mkdir(parents=True)
    (data / "worker-uid").write_text("x\n")
    with pytest.raises(DataDirError, match="worker-1 belongs to a Worker with infrastructure process"):
        await HubWithWorkers.start(ShoalServerSettings(tmp_path, port=0), InProcessWorkers(1))
