"""Workers that are cordoned, drained or tainted: their clusters are migrated one by one, and stay if that is
cancelled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.fleet.controllers import new_hub_controllers
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1 as names
from tests.fleet.fleets import SYSTEM, condition, eventually, gone, phase, running
from tests.fleet.migration.fake_workers import Hub, hub

pytestmark = pytest.mark.anyio

Object = dict[str, Any]


async def with_clusters(made: Hub, *clusters: str, **spec: Any) -> None:
    """All on w1; w2 comes later."""
    await made.worker("w1")
    for name in clusters:
        await made.create(name, "w1", **spec)
        await made.ready(name)
    await made.worker("w2")


async def settled(made: Hub, number: int, worker: str = "w1") -> list[Object]:
    """Once that many are on their way, those that are; a little later there are not more."""

    async def found() -> list[Object] | None:
        all_of_them, _ = await made.client.list_all(MANAGED_CLUSTERS)
        asked = [each for each in all_of_them if (each["status"].get("move") or {}).get("from") == worker]
        return asked if len(asked) >= number else None

    await eventually(found)
    await made.pass_time(10)
    asked = await found()
    assert asked is not None
    assert len(asked) == number
    return asked


async def test_a_cordoned_one_gets_no_new_ones(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1", unschedulable=True)
        await made.client.create(MANAGED_CLUSTERS, {**_east(), "spec": {}}, "default")
        found = await made.until("east", lambda obj: phase(obj) == "Pending")
        said = condition(found, "Scheduled")
        assert (said["reason"], said["message"]) == ("WorkersCordoned", "0 of 1 worker fits: 1 is cordoned")
        await made.change("w1", unschedulable=False)
        await made.until_on("east", "w1")
        await made.change("w1", unschedulable=True)
        await made.worker("w2")
        await made.pass_time(20)
        assert (await made.get("east"))["status"]["assignedWorker"] == "w1"
        assert not condition(await made.get_worker("w1"), "Drained")


def _east() -> Object:
    return {"apiVersion": names.API_VERSION, "kind": "ManagedCluster", "metadata": {"name": "east"}}


async def test_a_drain_moves_one_after_the_other_and_then_the_worker_can_go(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await with_clusters(made, "a", "b")
        await made.client.delete(WORKERS, "w1", SYSTEM)
        found = await made.until_worker("w1", lambda obj: condition(obj, "Deleting"))
        said = "2 ManagedClusters must be moved (spec.drain: true) or deleted first: default/a, default/b; "
        assert condition(found, "Deleting")["message"] == said + "no new ones are assigned"
        await made.change("w1", drain=True)
        (asked,) = await settled(made, 1)
        move = asked["status"]["move"]
        assert (asked["metadata"]["name"], move["from"], move["to"], move["reason"]) == ("a", "w1", "w2", "Drain")
        assert condition(asked, "Moving")["status"] == "True"
        assert condition(asked, "Ready")["status"] == "True"
        said = (await made.says("w1", "Drained", "Draining"))["message"]
        assert said == "2 ManagedClusters are left; 1 being transferred"
        # Both have room for it meanwhile.
        await made.until_worker("w2", lambda obj: obj["status"]["availableCapacity"] == 9)
        await made.until_worker("w1", lambda obj: obj["status"]["availableCapacity"] == 8)
        await made.send("a")
        moved = await made.until_on("a", "w2")
        assert moved["status"]["restoreFrom"] == {"epoch": 1, "revision": 950}
        assert "move" not in moved["status"]
        assert "final" not in moved["status"]["backup"]
        assert not condition(moved, "Ready")
        await made.until_worker("w1", lambda obj: obj["status"]["availableCapacity"] == 9)
        # It is not up yet: the next one waits.
        await made.pass_time(20)
        assert not names.migration_target(await made.get("b"))
        await made.ready("a")
        await made.send("b")
        await made.until_on("b", "w2")
        await eventually(lambda: gone(made.client, WORKERS, "w1", SYSTEM))


async def test_a_drained_worker_says_so_and_is_not_used_until_it_is_told_otherwise(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await with_clusters(made, "a", "b", "c")
        await made.change("w1", drain=True, drainBudget=3)
        await settled(made, 3)
        for name in ("a", "b", "c"):
            await made.send(name)
            await made.until_on(name, "w2")
            await made.ready(name)
        said = await made.says("w1", "Drained", "Drained")
        assert (said["status"], said["message"]) == ("True", "no ManagedCluster left to evict")
        await made.create("new", "w2")
        await made.change("w1", drain=False)
        await made.until_worker("w1", lambda obj: not condition(obj, "Drained"))
        await made.create("newer", "w1")


async def test_a_drain_that_is_called_off_takes_back_what_is_not_given_away_yet(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await with_clusters(made, "a")
        await made.change("w1", drain=True)
        await settled(made, 1)
        await made.change("w1", drain=False)
        found = await made.until("a", lambda obj: not names.migration_target(obj))
        said = condition(found, "Moving")
        assert (said["status"], said["reason"]) == ("False", "Cancelled")
        assert found["status"]["epoch"] == 1
        await made.until_worker("w2", lambda obj: obj["status"]["availableCapacity"] == 10)
        # What the worker says too late changes nothing, and a later move waits for its own word.
        await made.tell("a", backup={"worker": "w1", "epoch": 1, "complete": True, "final": True})
        await made.change("w1", drain=True)
        (asked,) = await settled(made, 1)
        assert "final" not in asked["status"]["backup"]
        assert asked["status"]["assignedWorker"] == "w1"


async def test_one_that_fits_nowhere_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1", location="north")
        await made.create("a", "w1", location="north")
        await made.create("b", "w1")
        await made.worker("w2")
        await made.change("w1", drain=True)
        (asked,) = await settled(made, 1)
        assert asked["metadata"]["name"] == "b"
        found = await made.until("a", lambda obj: condition(obj, "Movable"))
        said = "0 of 1 worker fits: 1 is not in location north"
        assert (condition(found, "Movable")["reason"], condition(found, "Movable")["message"]) == (
            "NoWorkerInLocation",
            said,
        )
        await made.send("b")
        await made.until_on("b", "w2")
        await made.ready("b")
        stuck = await made.says("w1", "Drained", "Stuck")
        assert stuck["message"] == f"1 ManagedCluster is left; default/a waits: {said}"
        await made.worker("w3", location="north")
        await made.pass_time(5)
        await made.until("a", lambda obj: names.migration_target(obj) == "w3" and not condition(obj, "Movable"))


async def test_where_the_target_becomes_unfit_another_is_chosen(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await with_clusters(made, "a")
        await made.change("w1", drain=True)
        await settled(made, 1)
        await made.worker("w3")
        await made.change("w2", unschedulable=True)
        await made.until("a", lambda obj: names.migration_target(obj) == "w3")


async def test_a_worker_that_does_not_send_it_gets_it_back_writable(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.configure("moving", maxFrozen="60")
        await with_clusters(made, "a")
        await made.change("w1", drain=True)
        await settled(made, 1)
        await made.pass_time(70)
        found = await made.until("a", lambda obj: not names.migration_target(obj))
        said = condition(found, "Moving")
        assert (said["reason"], said["message"]) == ("TookTooLong", "the transfer did not finish within 60 seconds")
        await made.until("a", lambda obj: condition(obj, "Movable").get("reason") == "TookTooLong")
        await made.pass_time(70)
        await made.until("a", names.migration_target)


async def test_a_taint_drives_out_those_that_do_not_tolerate_it_and_others_after_their_time(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1")
        always = [{"key": "gone", "operator": "Exists"}]
        await made.create("always", "w1", tolerations=always)
        await made.create("awhile", "w1", tolerations=[{**always[0], "tolerationSeconds": 100}])
        await made.create("never", "w1")
        await made.worker("w2")
        await made.change("w1", taints=[{"key": "gone", "effect": "NoExecute"}], drainBudget=5)
        (asked,) = await settled(made, 1)
        assert (asked["metadata"]["name"], asked["status"]["move"]["reason"]) == ("never", "Taint")
        await made.pass_time(60)
        assert not names.migration_target(await made.get("awhile"))
        await made.pass_time(60)
        await made.until("awhile", names.migration_target)
        await made.change("w1", taints=[])
        for name in ("never", "awhile"):
            await made.until(name, lambda obj: not names.migration_target(obj))
        await made.until_worker("w1", lambda obj: not condition(obj, "Drained"))


async def test_a_lost_one_is_not_drained_but_what_was_sent_arrives(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await with_clusters(made, "a", "b")
        await made.change("w1", drain=True, drainBudget=1)
        await settled(made, 1)
        await made.lose("w1")
        await made.until("a", names.migration_target)
        await made.send("a")
        await made.until_on("a", "w2")
        await made.ready("a")
        await made.until("b", lambda obj: condition(obj, "Movable").get("reason") == "WorkerSilent")


async def test_one_that_is_deleted_meanwhile_stays_with_its_worker(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await with_clusters(made, "a")
        await made.change("w1", drain=True)
        await settled(made, 1)
        await made.client.delete(MANAGED_CLUSTERS, "a", "default")
        found = await made.until("a", lambda obj: not names.migration_target(obj))
        assert (found["status"]["assignedWorker"], condition(found, "Moving")["reason"]) == ("w1", "Deleting")


async def test_moves_survive_the_hub(tmp_path: Path) -> None:
    async with hub(tmp_path, lambda client, clock: []) as made:
        async with running(new_hub_controllers(made.client, made.clock)):
            await with_clusters(made, "a", "b")
            await made.change("w1", drain=True)
            await settled(made, 1)
        await made.send("a")
        async with running(new_hub_controllers(made.client, made.clock)):
            await made.until_on("a", "w2")
            await made.pass_time(20)
            assert not names.migration_target(await made.get("b"))
