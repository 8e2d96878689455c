"""The scheduler on a server: bindings, queueing, requeueing, deletion, and the visible status."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import SystemClock
from shoal.fleet.controllers import new_hub_controllers
from shoal.fleet.health.controller import new_health_controllers
from shoal.fleet.resources import CONFIG_MAPS, LEASES, MANAGED_CLUSTERS, NAMESPACES, WORKERS
from shoal.fleet.scheduler.controller import FleetScheduler
from shoal.kinds.fleet import infrav1 as names
from shoal.objects.errors import Invalid
from tests.fleet.fleets import SYSTEM, Fleet, condition, eventually, fleet, gone, managed, phase, running, server

Object = dict[str, Any]
pytestmark = pytest.mark.anyio


async def worker(hub: Client, name: str, capacity: int = 1, ready: bool = True, **spec: Any) -> None:
    """A Worker with nobody behind it: it only has to look alive."""
    if await gone(hub, NAMESPACES, SYSTEM, ""):
        await hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    body: Object = {"apiVersion": names.API_VERSION, "kind": "Worker", "metadata": {"name": name}}
    await hub.create(WORKERS, {**body, "spec": {"capacity": capacity, **spec}}, SYSTEM)
    if ready:
        await beat(hub, name)


async def beat(hub: Client, name: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"worker-{name}"},
        "spec": {"renewTime": "2999-01-01T00:00:00.000000Z"},
    }
    await hub.create(LEASES, lease, SYSTEM)


def bound(obj: Object) -> str:
    return str((obj.get("status") or {}).get("assignedWorker", ""))


async def available(made: Fleet, name: str, count: int) -> None:
    await made.until_worker(name, lambda obj: (obj.get("status") or {}).get("availableCapacity") == count)


async def test_bindings_spread_and_never_exceed_capacity(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a", 3)
        await worker(made.hub, "b", 3)
        await asyncio.gather(*(made.create(f"c{number}") for number in range(8)))

        async def settled() -> list[Object] | None:
            found, _ = await made.hub.list_all(MANAGED_CLUSTERS)
            return found if all(phase(obj) for obj in found) and sum(bool(bound(obj)) for obj in found) == 6 else None

        found = await eventually(settled)
        assert sorted(bound(obj) for obj in found) == ["", "", "a", "a", "a", "b", "b", "b"]
        for obj in found:
            if bound(obj):
                assert obj["metadata"]["finalizers"] == [names.MANAGED_CLUSTER_FINALIZER]
                assert obj["status"]["epoch"] == 1
                assert phase(obj) == "Scheduled"
            else:
                assert phase(obj) == "Pending"
        await available(made, "a", 0)
        await available(made, "b", 0)


async def test_waiting_says_why_and_ends_with_the_change_that_makes_room(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await made.create("east")
        found = await made.until("east", phase)
        nobody = "there are no workers: start one with shoal worker, or shoal up --workers N"
        assert [error["message"] for error in found["status"]["errors"]] == [nobody]
        assert condition(found, "Scheduled")["status"] == "False"
        assert condition(found, "Scheduled")["reason"] == "NoWorkers"
        await worker(made.hub, "a", 0, ready=False)
        text = "0 of 1 worker fits: 1 is not ready"
        await made.until("east", lambda obj: obj["status"]["errors"][0]["message"] == text)
        await beat(made.hub, "a")
        text = "0 of 1 worker fits: 1 takes no clusters (capacity 0)"
        await made.until("east", lambda obj: obj["status"]["errors"][0]["message"] == text)
        await made.hub.merge_patch(WORKERS, "a", {"spec": {"capacity": 1}}, SYSTEM)
        found = await made.until("east", bound)
        assert "errors" not in found["status"]
        assert condition(found, "Scheduled")["status"] == "True"


async def test_a_freed_slot_goes_to_whoever_waits(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a")
        await made.create("first")
        await made.until("first", bound)
        await made.create("second")
        await made.until("second", lambda obj: phase(obj) == "Pending")
        await made.hub.delete(MANAGED_CLUSTERS, "first", "default")
        found = await made.until("first", lambda obj: phase(obj) == "Terminating")
        assert found["metadata"]["finalizers"] == [names.MANAGED_CLUSTER_FINALIZER]
        assert phase(await made.get("second")) == "Pending"
        await made.hub.update(MANAGED_CLUSTERS, names.without_finalizer(found))
        await made.until("second", bound)


async def test_one_that_nobody_hosts_goes_at_once(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        body = managed("east")
        body["metadata"]["finalizers"] = [names.MANAGED_CLUSTER_FINALIZER]
        await made.hub.create(MANAGED_CLUSTERS, body, "default")
        await made.until("east", phase)
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))


async def test_location_selector_taints_and_infrastructure(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a", 9, location="north")
        await worker(made.hub, "b", 9, taints=[{"key": "gpu", "effect": "NoSchedule"}])
        await made.hub.merge_patch(WORKERS, "a", {"metadata": {"labels": {"disk": "ssd"}}}, SYSTEM)
        await available(made, "b", 9)
        await made.create("north", location="north")
        await made.create("fast", workerSelector={"matchLabels": {"disk": "ssd"}})
        await made.create("hard", tolerations=[{"key": "gpu", "operator": "Exists"}], location="")
        await made.create("south", location="south")
        await made.create("real", infrastructure="kind")
        assert bound(await made.until("north", bound)) == "a"
        assert bound(await made.until("fast", bound)) == "a"
        assert bound(await made.until("hard", bound)) == "b"
        said = "0 of 2 workers fit: 2 are not in location south"
        await made.until("south", lambda obj: phase(obj) and obj["status"]["errors"][0]["message"] == said)
        said = "0 of 2 workers fit: 2 do not provide infrastructure kind"
        said += " (start a worker with --kind where kind and a container engine are installed: docs/kind.md)"
        await made.until("real", lambda obj: phase(obj) and obj["status"]["errors"][0]["message"] == said)


def why(obj: Object) -> tuple[str, str, str]:
    """Phase, reason and message of one that waits."""
    told = condition(obj, "Scheduled")
    return phase(obj), told.get("reason", ""), told.get("message", "")


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"version": "v1.30.2"}, "VersionNotOffered", "no worker offers version v1.30.2; offered: v1.35, v1.36"),
        (
            {"workerSelector": {"matchLabels": {"disk": "tape"}}},
            "SelectorMatchesNothing",
            "0 of 1 worker fits: 1 does not match workerSelector",
        ),
        ({"location": "moon"}, "NoWorkerInLocation", "0 of 1 worker fits: 1 is not in location moon"),
        ({"nodes": 50}, "NotEnoughResources", "0 of 1 worker fits: 1 has less than 50 nodes left"),
    ],
    ids=["version", "selector", "location", "nodes"],
)
async def test_what_nobody_can_host_is_told_and_hurts_nobody(
    tmp_path: Path, spec: Object, reason: str, message: str
) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a", 9, versions=["v1.36", "v1.35"], allocatable={"nodes": 10})
        await made.create("odd", **spec)
        await made.until("odd", lambda obj: why(obj) == ("Pending", reason, message))
        await made.create("plain", version="v1.36.2")
        await made.until("plain", bound)


async def test_nodes_count_against_what_a_worker_may_host(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a", 9, allocatable={"nodes": 5, "cpu": "100"})
        await made.create("big", nodes=4)
        await made.until("big", bound)
        await made.until_worker("a", lambda obj: obj["status"].get("available") == {"cpu": "84", "nodes": "1"})
        await made.create("other", nodes=2)
        await made.until("other", lambda obj: why(obj)[1] == "NotEnoughResources")
        await made.hub.merge_patch(MANAGED_CLUSTERS, "big", {"spec": {"nodes": 3}}, "default")
        await made.until("other", bound)


async def test_a_worker_is_asked_for_where_that_is_allowed(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await made.create("first", location="north")
        await made.create("second", location="north")
        await made.until("first", lambda obj: why(obj)[1] == "NoWorkers")
        await worker(made.hub, "a", 1, ready=False)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.AUTO_WORKERS_CONFIG_MAP}}
        await made.hub.create(CONFIG_MAPS, {**body, "data": {"max": "1", "capacity": "1"}}, SYSTEM)

        async def asked_for() -> Object | None:
            found, _ = await made.hub.list_all(WORKERS, labels=names.AUTO_WORKER_LABEL)
            return found[0] if found else None

        new = await eventually(asked_for)
        assert (new["spec"]["infrastructure"], new["spec"]["location"]) == ("process", "north")
        name = new["metadata"]["name"]
        for each in ("first", "second"):
            await made.until(each, lambda obj: why(obj)[1] == "WaitingForWorker" and name in why(obj)[2])
        await beat(made.hub, name)

        async def one_is_bound() -> bool:
            found = [await made.get(each) for each in ("first", "second")]
            waiting = [why(obj)[2] for obj in found if not bound(obj)]
            limit = "the limit of 1 auto-created workers is reached"
            return len(waiting) == 1 and limit in waiting[0]

        await eventually(one_is_bound)
        assert len((await made.hub.list_all(WORKERS, labels=names.AUTO_WORKER_LABEL))[0]) == 1


async def test_a_finalizer_somebody_took_off_is_put_back(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a")
        created = await made.create("east")
        assert created["metadata"]["finalizers"] == [names.MANAGED_CLUSTER_FINALIZER]
        found = await made.until("east", bound)
        await made.hub.update(MANAGED_CLUSTERS, names.without_finalizer(found))
        await made.until("east", lambda obj: obj["metadata"].get("finalizers") == [names.MANAGED_CLUSTER_FINALIZER])


async def test_one_without_a_finalizer_gets_it_before_its_worker(tmp_path: Path) -> None:
    """An API server that is not Shoal's gives it none."""
    async with fleet(tmp_path) as made:
        created = await made.create("east")
        found = await made.until("east", phase)
        await made.hub.update(MANAGED_CLUSTERS, names.without_finalizer(found))
        await worker(made.hub, "a")
        found = await made.until("east", bound)
        assert found["metadata"]["finalizers"] == [names.MANAGED_CLUSTER_FINALIZER]
        assert created["metadata"]["uid"] == found["metadata"]["uid"]


async def test_one_taken_from_its_worker_goes_back_there(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await worker(made.hub, "a", 9)
        await worker(made.hub, "b", 9, ready=False)
        await made.create("east")
        assert bound(await made.until("east", bound)) == "a"
        await beat(made.hub, "b")
        await made.until_worker("b", lambda obj: phase(obj) == "Running")
        await made.hub.merge_patch(MANAGED_CLUSTERS, "east", {"status": {"assignedWorker": None}}, "default", "status")
        found = await made.until("east", lambda obj: obj["status"].get("epoch") == 2)
        assert bound(found) == "a"


async def test_another_scheduler_takes_over_where_the_first_was_killed(tmp_path: Path) -> None:
    """The finalizer is there, the binding is not; and a binding that is there is counted."""
    async with server(tmp_path / "hub") as hub:
        clock = SystemClock()
        await worker(hub, "a", 2)
        half = managed("half")
        half["metadata"]["finalizers"] = [names.MANAGED_CLUSTER_FINALIZER]
        await hub.create(MANAGED_CLUSTERS, half, "default")
        whole = await hub.create(MANAGED_CLUSTERS, managed("whole"), "default")
        status = {"phase": "Running", "assignedWorker": "a", "epoch": 1}
        await hub.update(MANAGED_CLUSTERS, {**whole, "status": status}, "status")
        await hub.create(MANAGED_CLUSTERS, managed("third"), "default")
        async with running(new_hub_controllers(hub, clock)):

            async def settled() -> bool:
                found, _ = await hub.list_all(MANAGED_CLUSTERS)
                free = (await hub.get(WORKERS, "a", SYSTEM)).get("status", {}).get("availableCapacity")
                said = [error["message"] for obj in found for error in (obj.get("status") or {}).get("errors") or ()]
                return free == 0 and said == ["0 of 1 worker fits: 1 has no free slot"]

            await eventually(settled)
        assert (await hub.get(MANAGED_CLUSTERS, "whole", "default"))["status"] == status
        assert sum(bool(bound(obj)) for obj in (await hub.list_all(MANAGED_CLUSTERS))[0]) == 2
        before = (await hub.list_all(MANAGED_CLUSTERS))[0]
        async with running(new_hub_controllers(hub, clock)):
            await asyncio.sleep(0.1)
        # The objects, not the revision of the list: an Event about them may still be on its way.
        assert (await hub.list_all(MANAGED_CLUSTERS))[0] == before, "nothing is written that is so already"


async def test_nothing_is_decided_on_half_a_list(tmp_path: Path) -> None:
    """A list is told object by object: the one that takes the last slot may be the last."""
    async with server(tmp_path / "hub") as hub:
        await worker(hub, "a", 1)
        await hub.create(MANAGED_CLUSTERS, managed("first"), "default")
        last = await hub.create(MANAGED_CLUSTERS, managed("last"), "default")
        await hub.update(MANAGED_CLUSTERS, {**last, "status": {"assignedWorker": "a", "epoch": 1}}, "status")
        scheduler = FleetScheduler(hub, SystemClock())

        async def known() -> bool:
            return any(phase(obj) == "Running" for obj in scheduler._workers.objects.values())

        async def workers_first() -> None:
            await eventually(known)
            await scheduler._managed.run()

        scheduler.controller.sources[0] = workers_first
        async with running([*scheduler.controllers, *new_health_controllers(hub, SystemClock())]):

            async def told() -> bool:
                return phase(await hub.get(MANAGED_CLUSTERS, "first", "default")) == "Pending"

            await eventually(told)
        assert bound(await hub.get(MANAGED_CLUSTERS, "first", "default")) == ""


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("a.b", {}, "metadata.name"),
        ("x" * 39, {}, "metadata.name"),
        ("a", {"nodes": -1}, "spec.nodes"),
        ("a", {"version": "1.36"}, "spec.version"),
        ("a", {"infrastructure": "docker"}, "spec.infrastructure"),
        ("a", {"onWorkerLost": "Delete"}, "spec.onWorkerLost"),
        ("a", {"preferredLocations": ["x" * 64]}, "spec.preferredLocations[0]"),
    ],
)
async def test_what_is_refused(tmp_path: Path, name: str, spec: Object, field: str) -> None:
    async with server(tmp_path / "hub") as hub:
        with pytest.raises(Invalid) as refused:
            await hub.create(MANAGED_CLUSTERS, managed(name, **spec), "default")
        assert [cause.field for cause in refused.value.causes] == [field]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"capacity": -1}, "spec.capacity"),
        ({"cost": "cheap"}, "spec.cost"),
        ({"versions": ["1.36"]}, "spec.versions[0]"),
        ({"allocatable": {"cpu": "-1"}}, "spec.allocatable.cpu"),
    ],
)
async def test_what_is_refused_of_a_worker(tmp_path: Path, spec: Object, field: str) -> None:
    async with server(tmp_path / "hub") as hub:
        with pytest.raises(Invalid) as refused:
            await worker(hub, "a", **spec)
        assert [cause.field for cause in refused.value.causes] == [field]
