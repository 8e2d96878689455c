"""Lost Workers: what is migrated, where to and when, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.fleet.controllers import new_hub_controllers
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from tests.fleet.fleets import SYSTEM, condition, running
from tests.fleet.migration.fake_workers import Hub, hub

pytestmark = pytest.mark.anyio

Object = dict[str, Any]


async def two(made: Hub) -> None:
    """w1 with the ManagedCluster east, and w2."""
    await made.worker("w1")
    await made.create("east", "w1", onWorkerLost="Move")
    await made.worker("w2")


async def test_a_lost_one_is_moved_with_its_backup_after_lease_skew_and_grace(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.create("stays", onWorkerLost="Stay")
        await made.hold("east")
        before = await made.ready("east")
        await made.lose("w1")
        said = await made.says("w1", "Evacuated", "Waiting")
        assert said["message"] == "ManagedClusters are moved after 105 seconds without a heartbeat"
        await made.pass_time(50)
        assert (await made.get("east"))["status"]["assignedWorker"] == "w1"
        await made.pass_time(10)
        moved = await made.until_on("east", "w2")
        status = moved["status"]
        assert status["epoch"] == before["status"]["epoch"] + 1
        assert status["restoreFrom"] == {"epoch": 1, "revision": 900}
        assert status["formerWorkers"] == ["w1"]
        assert "held" not in status
        assert {each["type"] for each in status["conditions"]} == {"Scheduled", "Moving"}
        assert "version" not in status
        said = await made.says("w1", "Evacuated", "Moving")
        assert said["message"] == "0 ManagedClusters are left; 1 moved but not ready yet"
        await made.until_worker("w1", lambda obj: obj["status"]["availableCapacity"] == 10)
        await made.until_worker("w2", lambda obj: obj["status"]["availableCapacity"] == 8)
        await made.ready("east")
        await made.says("w1", "Evacuated", "Evacuated")
        await made.until("east", lambda obj: condition(obj, "Moving")["reason"] == "Moved")
        assert condition(await made.get("stays"), "Movable") == {}


READS_LOGS = {"shoal.dev/log-namespace": "shoal-logs"}


async def test_a_log_waits_for_a_worker_whose_release_reads_it(tmp_path: Path) -> None:
    """Of a worker that was upgraded before the others."""
    async with hub(tmp_path) as made:
        await two(made)
        made.annotations["w1"] = READS_LOGS
        await made.pass_time(10)
        await made.hold("east")
        await made.lose("w1")
        await made.pass_time(150)
        found = await made.until("east", lambda obj: condition(obj, "Movable"))
        assert condition(found, "Movable")["reason"] == "WorkersCannotRestore"
        made.annotations["w2"] = READS_LOGS
        await made.until_on("east", "w2")


async def test_a_planned_move_of_a_worker_that_is_upgraded_meanwhile_is_taken_back(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.hold("east")
        await made.ready("east")
        await made.change("w1", drain=True)
        await made.until("east", lambda obj: obj["status"].get("move"))
        made.annotations["w1"] = READS_LOGS
        await made.beat("w1")
        await made.settle()
        await made.send("east")
        found = await made.until("east", lambda obj: condition(obj, "Moving")["reason"] == "TargetUnfit")
        assert (found["status"]["assignedWorker"], "move" in found["status"]) == ("w1", False)
        made.annotations["w2"] = READS_LOGS
        await made.until("east", lambda obj: obj["status"].get("move"))
        await made.send("east")
        await made.until_on("east", "w2")


async def test_a_word_of_the_worker_in_the_last_moment_keeps_it(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.hold("east")
        await made.lose("w1")
        await made.pass_time(50)
        made.alive.add("w1")
        await made.pass_time(200)
        obj = await made.get("east")
        assert (obj["status"]["assignedWorker"], obj["status"]["epoch"]) == ("w1", 1)
        await made.until_worker("w1", lambda worker: not condition(worker, "Evacuated"))


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"backup": None}, "NoBackup"),
        ({"backup": {"worker": "w1", "epoch": 1, "complete": False}}, "BackupIncomplete"),
        (
            {"backup": {"worker": "w1", "epoch": 1, "complete": True, "time": "2001-01-01T00:00:00Z"}},
            "BackupTooOld",
        ),
    ],
)
async def test_without_a_whole_and_fresh_backup_it_stays(tmp_path: Path, told: Object, reason: str) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.hold("east")
        await made.tell("east", **told)
        await made.lose("w1")
        await made.pass_time(120)
        found = await made.until("east", lambda obj: condition(obj, "Movable").get("reason") == reason)
        assert found["status"]["assignedWorker"] == "w1"
        said = await made.says("w1", "Evacuated", "Stuck")
        assert said["message"].startswith("1 ManagedCluster is left; default/east waits: ")
        made.alive.add("w1")
        await made.pass_time(20)
        await made.until("east", lambda obj: not condition(obj, "Movable"))


async def test_one_that_its_worker_never_said_to_hold_stays_if_its_spec_has_changed(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.client.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"onWorkerLost": "Stay"}}, "default")
        await made.client.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"onWorkerLost": "Move"}}, "default")
        await made.lose("w1")
        await made.pass_time(120)
        await made.until("east", lambda obj: condition(obj, "Movable").get("reason") == "NotHeld")


async def test_one_that_never_began_begins_elsewhere(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.lose("w1")
        await made.pass_time(120)
        found = await made.until_on("east", "w2")
        assert "restoreFrom" not in found["status"]


async def test_without_room_it_waits_with_the_schedulers_reason_until_there_is(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1")
        await made.create("east", "w1", onWorkerLost="Move")
        await made.worker("w2", 0)
        await made.hold("east")
        await made.lose("w1")
        await made.pass_time(120)
        found = await made.until("east", lambda obj: condition(obj, "Movable").get("reason") == "NoFreeSlot")
        assert condition(found, "Movable")["message"] == "0 of 1 worker fits: 1 takes no clusters (capacity 0)"
        await made.change("w2", capacity=1)
        await made.pass_time(10)
        await made.until_on("east", "w2")


async def test_one_that_is_drained_and_lost_says_one_thing_and_nothing_is_written_over_and_over(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1")
        await made.create("east", "w1", onWorkerLost="Move")
        await made.create("stays", "w1", onWorkerLost="Stay")
        await made.worker("w2")
        await made.hold("east")
        await made.tell("east", backup=None)
        await made.lose("w1")
        await made.change("w1", drain=True)
        await made.pass_time(120)
        await made.until("east", lambda obj: condition(obj, "Movable").get("reason") == "NoBackup")
        await made.until("stays", lambda obj: condition(obj, "Movable").get("reason") == "WorkerSilent")
        await made.pass_time(20)
        before = [(await made.get(name))["metadata"]["resourceVersion"] for name in ("east", "stays")]
        worker = (await made.get_worker("w1"))["metadata"]["resourceVersion"]
        await made.pass_time(30)
        assert [(await made.get(name))["metadata"]["resourceVersion"] for name in ("east", "stays")] == before
        assert (await made.get_worker("w1"))["metadata"]["resourceVersion"] == worker


async def test_a_worker_that_was_taken_away_by_force_is_a_lost_one(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.hold("east")
        made.alive.discard("w1")
        await made.client.delete(WORKERS, "w1", SYSTEM)
        await made.until_worker("w1", lambda obj: condition(obj, "Deleting"))
        await made.client.merge_patch(WORKERS, "w1", {"metadata": {"finalizers": []}}, SYSTEM)
        await made.pass_time(80)
        assert (await made.get("east"))["status"]["assignedWorker"] == "w1"
        await made.until_on("east", "w2")


async def test_one_that_was_about_to_leave_goes_where_it_was_to_go(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1")
        await made.create("east", "w1", onWorkerLost="Move")
        await made.worker("w2", 1)
        await made.hold("east")
        await made.change("w1", drain=True)
        await made.until("east", lambda obj: obj["status"].get("move"))
        await made.lose("w1")
        found = await made.until_on("east", "w2")
        assert "move" not in found["status"]
        assert found["status"]["lastMove"]["reason"] == "WorkerLost"


async def test_where_too_many_are_lost_nothing_moves_until_somebody_says_so(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await two(made)
        await made.worker("w3")
        await made.create("west", onWorkerLost="Move")
        west = (await made.get("west"))["status"]["assignedWorker"]
        rest = ({"w2", "w3"} - {west}).pop()
        await made.hold("east")
        await made.hold("west")
        made.alive.discard(west)
        await made.lose("w1")
        await made.pass_time(120)
        said = await made.says("w1", "Evacuated", "TooManyWorkersLost")
        assert said["message"].startswith("2 of 3 workers are lost at the same time: nothing is moved.")
        for name in ("east", "west"):
            await made.until(name, lambda obj: condition(obj, "Movable").get("reason") == "TooManyWorkersLost")
        patch = {"metadata": {"annotations": {"shoal.dev/move-lost": "true"}}}
        await made.client.merge_patch(WORKERS, "w1", patch, SYSTEM)
        await made.until_on("east", rest)
        await made.pass_time(60)
        assert (await made.get("west"))["status"]["assignedWorker"] == west
        await made.client.merge_patch(WORKERS, west, patch, SYSTEM)
        await made.until_on("west", rest)
        made.alive.add("w1")
        await made.pass_time(20)
        await made.until_worker("w1", lambda obj: "shoal.dev/move-lost" not in obj["metadata"].get("annotations", {}))


async def test_no_more_than_so_many_at_once(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.configure("moving", maxMoves="2", grace="10")
        await made.worker("w1")
        for name in ("a", "b", "c"):
            await made.create(name, "w1", onWorkerLost="Move")
            await made.hold(name)
        await made.worker("w2")
        await made.lose("w1")
        await made.pass_time(20)
        for name in ("a", "b"):
            await made.until_on(name, "w2")
        await made.pass_time(30)
        assert (await made.get("c"))["status"]["assignedWorker"] == "w1"
        await made.ready("a")
        await made.pass_time(10)
        await made.until_on("c", "w2")


async def test_settings_that_are_not_understood_stop_it(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.configure("moving", grace="soon")
        await two(made)
        await made.hold("east")
        await made.lose("w1")
        said = await made.says("w1", "Evacuated", "InvalidSettings")
        assert "grace is not a number" in said["message"]


async def test_a_hub_that_starts_again_begins_to_count_anew(tmp_path: Path) -> None:
    async with hub(tmp_path, lambda client, clock: []) as made:
        async with running(new_hub_controllers(made.client, made.clock)):
            await two(made)
            await made.hold("east")
            await made.lose("w1")
            await made.pass_time(50)
        async with running(new_hub_controllers(made.client, made.clock)):
            await made.pass_time(100)
            assert (await made.get("east"))["status"]["assignedWorker"] == "w1"
            await made.pass_time(10)
            await made.until_on("east", "w2")
