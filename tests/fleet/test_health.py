"""Worker heartbeats by the hub's clock: no Worker counts as lost that was not silent, and nothing is ever deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import FakeClock, rfc3339_micro
from shoal.fleet.health.controller import new_health_controllers
from shoal.fleet.health.decide import Heartbeat, decide_health, observe_heartbeat, reachability_status
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet.infrav1 import LEASE_GRACE_SECONDS
from tests.fleet.fleets import SYSTEM, Fleet, condition, eventually, fleet, gone, phase, running, server

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"
START = 1_700_000_000.0
FIRST = "must be moved (spec.drain: true) or deleted first"


def lease_at(seconds: float) -> Object:
    return {"spec": {"renewTime": rfc3339_micro(seconds)}}


def worker(ready: str = "", **metadata: Any) -> Object:
    obj: Object = {"metadata": {"name": "w", "generation": 3, **metadata}, "spec": {}}
    if ready:
        obj["status"] = {"conditions": [{"type": "Ready", "status": ready}]}
    return obj


@pytest.mark.parametrize(
    ("age", "was_ready", "silent"),
    [
        (0.0, False, 0.0),
        (30.0, False, 30.0),
        (100.0, False, 100.0),
        (-500.0, False, 0.0),
        (30.0, True, 25.0),
        (100.0, True, 25.0),
        (5.0, True, 5.0),
    ],
)
def test_a_lease_found_at_the_start(age: float, was_ready: bool, silent: float) -> None:
    found = observe_heartbeat(None, lease_at(START - age), was_ready, START, 1000.0)
    assert 1000.0 - found.heard_at == pytest.approx(silent)


def test_afterwards_only_a_change_counts_whatever_time_it_tells() -> None:
    first = Heartbeat("a", 1000.0)
    assert observe_heartbeat(first, {"spec": {"renewTime": "a"}}, True, START, 1030.0) is first
    wrong_clock = rfc3339_micro(START - 9999)
    assert observe_heartbeat(first, {"spec": {"renewTime": wrong_clock}}, True, START, 1030.0) == Heartbeat(
        wrong_clock, 1030.0
    )


def test_a_lease_without_a_time_is_silence() -> None:
    found = observe_heartbeat(None, {"spec": {}}, False, START, 1000.0)
    assert decide_health(worker(), found, 1000.0, NOW).status is not None
    assert decide_health(worker(), found, 1000.0, NOW).requeue_after is None


@pytest.mark.parametrize(
    ("heard", "ready", "phase_", "reason", "again"),
    [
        (None, "Unknown", "Pending", "NeverHeard", None),
        (Heartbeat("a", 1000.0), "True", "Running", "Heartbeat", 40.0),
        (Heartbeat("a", 970.0), "True", "Running", "Heartbeat", 10.0),
        (Heartbeat("a", 960.0), "Unknown", "Lost", "HeartbeatMissing", None),
    ],
)
def test_health(heard: Heartbeat | None, ready: str, phase_: str, reason: str, again: float | None) -> None:
    found = decide_health(worker(), heard, 1000.0, NOW)
    assert found.requeue_after == again
    assert found.status is not None
    assert found.status["phase"] == phase_
    (said,) = found.status["conditions"]
    assert (said["type"], said["status"], said["reason"], said["observedGeneration"]) == ("Ready", ready, reason, 3)
    assert (
        decide_health({**worker(), "status": {**found.status, "availableCapacity": 1}}, heard, 1000.0, NOW).status
        is None
    )


def test_a_worker_without_the_bus_is_heard_and_its_clusters_are_not_known() -> None:
    lease = lease_at(START)
    lease["metadata"] = {"annotations": {"shoal.dev/bus-down-since": NOW}}
    heard = observe_heartbeat(None, lease, True, START, 1000.0)
    found = decide_health(worker(), heard, 1000.0, NOW)
    assert found.status is not None
    assert found.status["phase"] == "Running"
    cut_off = {**worker(), "status": found.status}
    assert {one["type"]: one["status"] for one in found.status["conditions"]} == {
        "Ready": "True",
        "BusConnected": "False",
    }
    managed = {"metadata": {"generation": 1}, "status": {"assignedWorker": "w", "phase": "Running"}}
    unknown = reachability_status(managed, cut_off, NOW)
    assert unknown is not None
    assert unknown["phase"] == "Unknown"
    (said,) = unknown["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("WorkerReady", "Unknown", "BusNotConnected")
    assert said["message"] == (
        f"worker w: no connection to the bus since {NOW}: no change reaches the worker, and no status arrives; the "
        "hosted cluster may still run"
    )
    again = observe_heartbeat(heard, lease_at(START + 10), True, START, 1010.0)
    back = decide_health(cut_off, again, 1010.0, NOW)
    assert back.status is not None
    status = reachability_status({**managed, "status": unknown}, {**worker(), "status": back.status}, NOW)
    assert status is not None
    assert condition({"status": status}, "WorkerReady")["status"] == "True"


def test_one_that_is_being_deleted_says_so() -> None:
    found = decide_health(worker(deletionTimestamp=NOW), Heartbeat("a", 1000.0), 1000.0, NOW)
    assert found.status is not None
    assert found.status["phase"] == "Terminating"


@given(st.lists(st.floats(0, 30), max_size=20), st.floats(-1e6, 1e6))
def test_whoever_is_heard_in_time_is_never_lost(pauses: list[float], skew: float) -> None:
    """However wrong the worker's clock is."""
    now, heard = 5000.0, None
    for pause in pauses:
        now += pause
        told = lease_at(START + now + skew)
        heard = observe_heartbeat(heard, told, True, START + now, now)
        status = decide_health(worker(), heard, now, NOW).status
        assert status is not None
        assert status["phase"] == "Running"


# --- on a server, with a clock the test moves ---


async def settle(made: Fleet, name: str, wanted: str) -> Object:
    return await made.until_worker(name, lambda obj: phase(obj) == wanted)


@pytest.mark.anyio
async def test_silence_makes_a_worker_lost_and_a_word_brings_it_back(tmp_path: Path) -> None:
    clock = FakeClock()
    async with fleet(tmp_path, clock) as made:
        await made.join("w1")
        found = await settle(made, "w1", "Running")
        assert condition(found, "Ready")["status"] == "True"
        await made.create("east")
        before = await made.until(
            "east", lambda obj: condition(obj, "InfrastructureReady").get("reason") == "Provisioning"
        )
        await made.part("w1")
        clock.step(39)
        assert phase(await made.worker("w1")) == "Running"
        clock.step(2)
        lost = await settle(made, "w1", "Lost")
        assert condition(lost, "Ready")["status"] == "Unknown"
        assert condition(lost, "Ready")["message"] == "no heartbeat for more than 40 seconds"
        unknown = await made.until("east", lambda obj: phase(obj) == "Unknown")
        said = condition(unknown, "WorkerReady")
        assert (said["status"], said["reason"]) == ("Unknown", "HeartbeatMissing")
        wanted = "worker w1: no heartbeat for more than 40 seconds; the hosted cluster may still run"
        assert said["message"] == wanted
        for field in ("assignedWorker", "epoch", "nodePools", "observedGeneration"):
            assert unknown["status"][field] == before["status"][field]
        assert condition(unknown, "InfrastructureReady") == condition(before, "InfrastructureReady")
        await made.join("w1")
        assert condition(await settle(made, "w1", "Running"), "Ready")["status"] == "True"
        found = await made.until("east", lambda obj: phase(obj) == "Provisioning")
        assert condition(found, "WorkerReady")["message"] == "worker w1 is heard again"


@pytest.mark.anyio
async def test_heartbeats_keep_it_running(tmp_path: Path) -> None:
    clock = FakeClock()
    async with fleet(tmp_path, clock) as made:
        await made.join("w1")
        await settle(made, "w1", "Running")
        began = clock.now()
        for _ in range(9):
            before = await made.hub.get(LEASES, "worker-w1", SYSTEM)

            async def renewed(before: Object = before) -> bool:
                clock.step(1)
                return bool((await made.hub.get(LEASES, "worker-w1", SYSTEM))["spec"] != before["spec"])

            await eventually(renewed)
        await settle(made, "w1", "Running")
        assert clock.now() - began > 2 * LEASE_GRACE_SECONDS


@pytest.mark.anyio
async def test_silence_is_noticed_by_controllers_that_run_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with server(tmp_path / "hub", clock) as hub:
        await ensure_worker_namespace(hub)
        body = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Worker", "metadata": {"name": "w1"}}
        await hub.create(WORKERS, body, SYSTEM)
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "worker-w1"}}
        await hub.create(LEASES, lease | lease_at(clock.now()), SYSTEM)
        controllers = new_health_controllers(hub, clock)

        async def is_now(expected: str) -> bool:
            return phase(await hub.get(WORKERS, "w1", SYSTEM)) == expected

        async def is_lost() -> bool:
            clock.step(1)
            return await is_now("Lost")

        async with running(controllers):
            await eventually(lambda: is_now("Running"))
        async with running(controllers):
            await asyncio.sleep(0.2)  # The Worker is reconciled, and nothing more happens before its Lease expires.
            await eventually(is_lost)


@pytest.mark.anyio
async def test_a_declared_worker_waits_for_somebody(tmp_path: Path) -> None:
    async with fleet(tmp_path, FakeClock()) as made:
        body = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Worker", "metadata": {"name": "w"}}
        await made.hub.create(WORKERS, body, "default")

        async def told() -> Object | None:
            obj = await made.hub.get(WORKERS, "w", "default")
            return obj if phase(obj) else None

        found = await eventually(told)
        assert phase(found) == "Pending"
        assert condition(found, "Ready")["reason"] == "NeverHeard"
        assert found["spec"] == {"capacity": 100, "infrastructure": "process", "provides": ["embedded"]}


@pytest.mark.anyio
async def test_a_worker_deleted_while_it_hosts_stays_until_its_clusters_are_gone(tmp_path: Path) -> None:
    async with fleet(tmp_path, FakeClock()) as made:
        own = await made.join("w1", 5)
        found = await settle(made, "w1", "Running")
        assert found["metadata"]["finalizers"] == ["infrastructure.cluster.x-k8s.io/worker"]
        await made.create("east")
        await made.until("east", lambda obj: condition(obj, "Ready"))
        await made.hub.delete(WORKERS, "w1", SYSTEM)
        waiting = await made.until_worker("w1", lambda obj: condition(obj, "Deleting"))
        assert phase(waiting) == "Terminating"
        said = condition(waiting, "Deleting")
        assert (said["status"], said["reason"]) == ("True", "HostsManagedClusters")
        assert said["message"] == f"1 ManagedCluster {FIRST}: default/east; no new ones are assigned"
        await made.create("west")
        west = await made.until("west", lambda obj: condition(obj, "Scheduled"))
        assert condition(west, "Scheduled")["reason"] == "WorkersLeaving"
        assert not await gone(own, MANAGED_CLUSTERS, "east"), "nothing is deleted at the worker"
        uid = waiting["metadata"]["uid"]
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))

        async def let_go() -> bool:
            if await gone(made.hub, WORKERS, "w1", SYSTEM):
                return True
            return bool((await made.worker("w1"))["metadata"]["uid"] != uid)

        await eventually(let_go)


@pytest.mark.anyio
async def test_a_worker_that_hosts_nothing_goes_at_once(tmp_path: Path) -> None:
    async with fleet(tmp_path, FakeClock()) as made:
        await made.join("w1")
        await settle(made, "w1", "Running")
        await made.part("w1")
        await made.hub.delete(WORKERS, "w1", SYSTEM)
        await eventually(lambda: gone(made.hub, WORKERS, "w1", SYSTEM))


@pytest.mark.parametrize(
    ("hosted", "reason", "message"),
    [
        ([], "NothingHosted", "no ManagedCluster is assigned"),
        (
            ["a/4", "a/3", "a/2", "a/1"],
            "HostsManagedClusters",
            f"4 ManagedClusters {FIRST}: a/1, a/2, a/3, …; no new ones are assigned",
        ),
    ],
)
def test_why_a_worker_is_still_there(hosted: list[str], reason: str, message: str) -> None:
    leaving = worker(deletionTimestamp=NOW)
    found = decide_health(leaving, Heartbeat("a", 1000.0), 1000.0, NOW, hosted).status
    assert found is not None
    said = condition({"status": found}, "Deleting")
    assert (said["reason"], said["message"], said["observedGeneration"]) == (reason, message, 3)
    unknown = decide_health(leaving, Heartbeat("a", 1000.0), 1000.0, NOW, None).status
    assert condition({"status": unknown}, "Deleting") == {}, "not before the ManagedClusters are known"


def bound(**conditions: str) -> Object:
    said = [{"type": type_, "status": status, "lastTransitionTime": NOW} for type_, status in conditions.items()]
    return {"metadata": {"generation": 2}, "status": {"assignedWorker": "w", "conditions": said}}


def test_a_cluster_is_told_of_silence_and_of_its_end_only() -> None:
    assert reachability_status(bound(Ready="True"), worker("True"), NOW) is None
    assert reachability_status(bound(Ready="True"), worker(), NOW) is None
    assert reachability_status({"metadata": {}, "status": {}}, None, NOW) is None
    lost = reachability_status(bound(Ready="True"), worker("Unknown"), NOW)
    assert lost is not None
    assert lost["phase"] == "Unknown"
    assert reachability_status({**bound(), "status": lost}, worker("Unknown"), NOW) is None
    again = reachability_status({**bound(), "status": lost}, worker("True"), NOW)
    assert again is not None
    assert again["phase"] == "Running"
    assert reachability_status({**bound(), "status": again}, worker("True"), NOW) is None
    gone_ = reachability_status(bound(Ready="True"), None, NOW)
    assert condition({"status": gone_}, "WorkerReady")["reason"] == "WorkerMissing"
