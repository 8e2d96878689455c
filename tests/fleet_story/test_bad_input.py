"""Invalid input and lying workers: a condition or a rejection, nothing is lost, and no other worker is affected.

In each test a good worker with a running cluster is beside it, and is unchanged afterwards. More about join tokens is
in tests/fleet/join, about messages over NATS in tests/real/test_nats.py.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.workers.join import HubTarget, ensure_membership
from shoal.assemble.workers.join_tokens import JoinError, ca_cert_hash, create_token
from shoal.client.rest import Client
from shoal.clock import SystemClock
from shoal.fleet.resources import LEASES, LOGICAL_CLUSTERS, MANAGED_CLUSTERS, SECRETS, WORKERS
from shoal.kinds.fleet import infrav1 as names
from shoal.objects.errors import Forbidden, Invalid
from tests.fleet.fleets import SYSTEM, Fleet, as_worker, condition, fleet, gone, managed, phase, provision

pytestmark = pytest.mark.anyio

Object = dict[str, Any]


@asynccontextmanager
async def with_a_good_one(directory: Path) -> AsyncIterator[Fleet]:
    """Worker good, which is full with the cluster fine."""
    async with fleet(directory) as made:
        own = await made.join("good", 1)
        await made.until_worker("good", lambda obj: phase(obj) == "Running")
        await made.create("fine", nodes=0)
        await provision(own, "fine")
        before = await made.until("fine", lambda obj: phase(obj) == "Running")
        yield made
        after = await made.get("fine")
        assert (after["spec"], after["metadata"]["uid"]) == (before["spec"], before["metadata"]["uid"])
        assert (phase(after), after["status"]["assignedWorker"]) == ("Running", "good")
        copy = await own.get(MANAGED_CLUSTERS, "fine", "default")
        assert not names.is_deleting(copy)
        await made.hub.get(SECRETS, "fine-kubeconfig", "default")


async def waits(made: Fleet, name: str, reason: str, message: str) -> None:
    """It says why, in its condition and in its errors."""
    found = await made.until(name, lambda obj: condition(obj, "Scheduled").get("reason") == reason)
    assert phase(found) == "Pending"
    assert condition(found, "Scheduled")["message"] == message
    assert [(error["reason"], error["message"]) for error in found["status"]["errors"]] == [(reason, message)]


async def test_a_version_no_worker_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fleet.worker.registration.decide.SUPPORTED_VERSIONS", ("v1.35", "v1.36"))
    async with with_a_good_one(tmp_path) as made:
        await made.join("free", 5)
        await made.until_worker("free", lambda obj: phase(obj) == "Running")
        with pytest.raises(Invalid, match=r"spec\.version: Unsupported value"):
            await made.create("unheard-of", version="v1.20.1")
        await made.create("odd", version="v1.30.2")
        await waits(made, "odd", "VersionNotOffered", "no worker offers version v1.30.2; offered: v1.35, v1.36")
        await made.create("other", nodes=0)
        await made.until("other", lambda obj: names.assigned_worker(obj) == "free")


async def test_a_worker_of_capacity_0(tmp_path: Path) -> None:
    async with with_a_good_one(tmp_path) as made:
        await made.join("none", 0)
        await made.until_worker("none", lambda obj: obj.get("status", {}).get("availableCapacity") == 0)
        await made.until_worker("none", lambda obj: phase(obj) == "Running")
        await made.create("odd")
        said = "0 of 2 workers fit: 1 has no free slot, 1 takes no clusters (capacity 0)"
        await waits(made, "odd", "NoFreeSlot", said)


async def test_a_selector_that_matches_nothing(tmp_path: Path) -> None:
    async with with_a_good_one(tmp_path) as made:
        await made.create("odd", workerSelector={"matchLabels": {"disk": "tape"}})
        said = "0 of 1 worker fits: 1 does not match workerSelector"
        await waits(made, "odd", "SelectorMatchesNothing", said)
        await made.hub.merge_patch(WORKERS, "good", {"metadata": {"labels": {"disk": "tape"}}, "spec": {}}, SYSTEM)
        await waits(made, "odd", "NoFreeSlot", "0 of 1 worker fits: 1 has no free slot")


async def test_a_worker_name_taken_twice(tmp_path: Path) -> None:
    async with with_a_good_one(tmp_path) as made:
        before = await made.worker("good")
        second = await made.join("good", 50, store="other")
        # It is told, and asks again: meanwhile it takes nothing, and beats for nobody.
        await made.create("more", nodes=0)
        await waits(made, "more", "NoFreeSlot", "0 of 1 worker fits: 1 has no free slot")
        assert (await second.list_all(MANAGED_CLUSTERS))[0] == []
        after = await made.worker("good")
        assert after["spec"] == before["spec"]
        assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
        lease = await made.hub.get(LEASES, "worker-good", SYSTEM)
        first = await made.own["good"].get(LOGICAL_CLUSTERS, "root")
        assert lease["spec"]["holderIdentity"] == first["metadata"]["uid"]


async def test_join_tokens_that_expired_or_were_used(tmp_path: Path) -> None:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(1))
    try:
        admin, url = up.hub.client("test"), up.hub.server.url
        digest = ca_cert_hash(up.hub.server.authority.certificate.decode())

        async def join(name: str, token: str) -> None:
            (tmp_path / name).mkdir(exist_ok=True)
            await ensure_membership(tmp_path / name, name, HubTarget(None, url, token, digest), name, SystemClock())

        expired = await create_token(admin, time.time() - 7200, 3600)
        with pytest.raises(JoinError, match="the join token has expired, was deleted or is invalid"):
            await join("late", expired)
        token = await create_token(admin, time.time(), 3600)
        await join("first", token)
        with pytest.raises(JoinError, match=f"join token {token[:6]} was already used by worker first"):
            await join("second", token)
        for name in ("late", "second"):
            assert await gone(admin, WORKERS, name, SYSTEM)
            assert not (tmp_path / name / "hub.kubeconfig").exists()
    finally:
        await up.stop()


async def test_a_worker_that_lies_about_its_capacity(tmp_path: Path) -> None:
    """What it says is its word; what an administrator says is never exceeded, and is not the worker's to change."""
    async with with_a_good_one(tmp_path) as made:
        own = await made.join("liar", 1000)
        await made.until_worker("liar", lambda obj: phase(obj) == "Running")
        await made.hub.merge_patch(WORKERS, "liar", {"spec": {"capacityLimit": 2, "allocatable": {"nodes": 3}}}, SYSTEM)
        await made.until_worker("liar", lambda obj: obj.get("status", {}).get("availableCapacity") == 2)
        itself = as_worker(made.hub, "liar")
        lies: list[Object] = [
            *({"capacityLimit": 1000}, {"capacityLimit": None}),
            *({"allocatable": {"nodes": 1000}}, {"allocatable": None}, {"cost": "0.01"}),
        ]
        for lie in lies:
            with pytest.raises(Forbidden, match="a worker may not set its"):
                await itself.merge_patch(WORKERS, "liar", {"spec": lie}, SYSTEM)
        with pytest.raises(Forbidden):
            await itself.merge_patch(WORKERS, "liar", {"status": {"availableCapacity": 1000}}, SYSTEM, "status")
        for name in ("a", "b"):
            await made.create(name, nodes=1)
            await made.until(name, lambda obj: names.assigned_worker(obj) == "liar")
        await made.create("c", nodes=1)
        await waits(made, "c", "NoFreeSlot", "0 of 2 workers fit: 2 have no free slot")
        await itself.merge_patch(
            WORKERS, "liar", {"spec": {"capacity": 5000}}, SYSTEM
        )  # its own word, worth nothing here
        await made.hub.merge_patch(WORKERS, "liar", {"spec": {"capacityLimit": 9}}, SYSTEM)
        await made.until("c", lambda obj: names.assigned_worker(obj) == "liar")
        await made.create("d", nodes=1)
        await made.until("d", lambda obj: condition(obj, "Scheduled").get("reason") == "Unschedulable")
        hosted = {each["metadata"]["name"] for each in (await own.list_all(MANAGED_CLUSTERS))[0]}
        assert hosted <= {"a", "b", "c"}


async def test_a_worker_that_reports_for_a_cluster_it_does_not_hold(tmp_path: Path) -> None:
    async with with_a_good_one(tmp_path) as made:
        await made.join("liar", 3)
        await made.until_worker("liar", lambda obj: phase(obj) == "Running")
        itself, before = as_worker(made.hub, "liar"), await made.get("fine")
        await made.hub.create(MANAGED_CLUSTERS, managed("waiting", location="moon"), "default")
        for name in ("fine", "waiting"):
            for lie in ({"phase": "Failed"}, {"assignedWorker": "liar"}, {"epoch": 9}):
                await refused(itself, name, {"status": lie}, "status")
            await refused(itself, name, {"metadata": {"finalizers": []}})
            await refused(itself, name, {"spec": {"nodes": 9}})
        for act in (itself.get, itself.delete):
            with pytest.raises(Forbidden):
                await act(SECRETS, "fine-kubeconfig", "default")
        assert await made.get("fine") == before


async def refused(client: Client, name: str, patch: Object, subresource: str = "") -> None:
    with pytest.raises(Forbidden, match="it is not assigned to this worker"):
        await client.merge_patch(MANAGED_CLUSTERS, name, patch, "default", subresource)
