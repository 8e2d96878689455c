"""Single ManagedClusters that move: their Worker no longer meets what they require, or somebody asks for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.move import cancel_move, move
from shoal.cli.options.hub import CommandError
from shoal.fleet.migration.relocation import Relocation, relocation_of
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1 as names
from shoal.kinds.fleet.move_request import MOVE_FROM_ANNOTATION, MOVE_TO_ANNOTATION, move_annotations, move_request
from tests.fleet.fleets import SYSTEM, condition
from tests.fleet.migration.fake_workers import Hub, hub

Object = dict[str, Any]


async def on_first(made: Hub, **spec: Any) -> None:
    """east on w1; w2 comes later."""
    await made.worker("w1", location="north")
    await made.create("east", "w1", **spec)
    await made.ready("east")
    await made.worker("w2", location="south")


async def patch(made: Hub, **change: Any) -> None:
    await made.client.merge_patch(MANAGED_CLUSTERS, "east", change, "default")


async def sent(made: Hub) -> Object:
    """Once it is sent, it is up on the other Worker."""
    await made.send("east")
    await made.until_on("east", "w2")
    return await made.ready("east")


@pytest.mark.anyio
@pytest.mark.parametrize("spec", [{"location": "south"}, {"workerSelector": {"matchLabels": {"disk": "ssd"}}}])
async def test_one_whose_worker_no_longer_meets_its_requirements_moves(tmp_path: Path, spec: Object) -> None:
    async with hub(tmp_path) as made:
        await on_first(made)
        await made.client.merge_patch(WORKERS, "w2", {"metadata": {"labels": {"disk": "ssd"}}}, SYSTEM)
        await patch(made, spec=spec)
        asked = await made.until("east", names.migration_target)
        move = asked["status"]["move"]
        assert (move["from"], move["to"], move["reason"]) == ("w1", "w2", "Requirements")
        await sent(made)
        await made.pass_time(20)
        assert (await made.get("east"))["status"]["assignedWorker"] == "w2"


@pytest.mark.anyio
async def test_one_that_nobody_else_can_host_says_why_it_stays_until_somebody_can(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await on_first(made)
        await patch(made, spec={"location": "east"})
        found = await made.until("east", lambda obj: condition(obj, "Movable"))
        said = condition(found, "Movable")
        assert (said["status"], said["reason"]) == ("False", "NoWorkerInLocation")
        assert said["message"].startswith("worker w1 is not in location east; ")
        await made.client.merge_patch(WORKERS, "w2", {"spec": {"location": "east"}}, SYSTEM)
        await made.until("east", names.migration_target)
        # Taken back: the requirement is withdrawn before it was sent.
        await patch(made, spec={"location": "north"})
        found = await made.until("east", lambda obj: not names.migration_target(obj))
        assert condition(found, "Moving")["reason"] == "Cancelled"
        await patch(made, spec={"location": "nowhere"})
        await made.until("east", lambda obj: condition(obj, "Movable"))
        await patch(made, spec={"location": None})
        await made.until("east", lambda obj: not condition(obj, "Movable"))


@pytest.mark.anyio
async def test_one_with_real_nodes_says_that_it_cannot_be_moved(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1", provides=["embedded", "kind"])
        await made.create("east", "w1", infrastructure="kind")
        await patch(made, spec={"location": "south"})
        found = await made.until("east", lambda obj: condition(obj, "Movable"))
        said = condition(found, "Movable")
        why = "worker w1 is not in location south; clusters with infrastructure kind cannot be moved"
        assert (said["reason"], said["message"]) == ("InfrastructureNotMovable", why)


@pytest.mark.anyio
@pytest.mark.parametrize("annotation", [{MOVE_FROM_ANNOTATION: "w1"}, {MOVE_TO_ANNOTATION: "w2"}])
async def test_one_that_somebody_asks_for_moves_once(tmp_path: Path, annotation: Object) -> None:
    async with hub(tmp_path) as made:
        await on_first(made)
        await patch(made, metadata={"annotations": annotation})
        asked = await made.until("east", names.migration_target)
        assert (asked["status"]["move"]["to"], asked["status"]["move"]["reason"]) == ("w2", "Request")
        await sent(made)
        found = await made.until("east", lambda obj: not move_request(obj).is_made)
        assert found["status"]["lastMove"]["reason"] == "Request"
        await made.pass_time(20)
        assert (await made.get("east"))["status"]["assignedWorker"] == "w2"


@pytest.mark.anyio
async def test_a_request_for_a_worker_that_cannot_host_it_waits_and_can_be_withdrawn(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await on_first(made)
        await patch(made, metadata={"annotations": {MOVE_TO_ANNOTATION: "w9"}})
        found = await made.until("east", lambda obj: condition(obj, "Movable"))
        assert condition(found, "Movable")["message"] == "worker w9 cannot host it: worker not found"
        await patch(made, metadata={"annotations": {MOVE_TO_ANNOTATION: None}})
        await made.until("east", lambda obj: not condition(obj, "Movable"))


@pytest.mark.anyio
async def test_the_command_asks_and_waits_until_it_runs_there(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await on_first(made)
        east = "default", "east"
        assert await move(made.client, east, "w1", 60.0) == "default/east is on worker w1 already"
        with pytest.raises(CommandError, match="there is no worker w9"):
            await move(made.client, east, "w9", 60.0)
        with pytest.raises(CommandError, match="there is no managed cluster default/west"):
            await move(made.client, ("default", "west"), "", 60.0)
        waiting = asyncio.create_task(move(made.client, east, "w2", 60.0))
        await sent(made)
        await made.until("east", lambda obj: condition(obj, "Moving")["reason"] == "Moved")
        assert await waiting == "default/east moved from worker w1 to w2"
        await made.change("w1", unschedulable=True)
        refused = asyncio.create_task(move(made.client, east, "w1", 60.0))
        await made.until("east", lambda obj: condition(obj, "Movable"))
        with pytest.raises(
            CommandError, match="default/east stays on worker w2: worker w1 cannot host it: it is cordoned"
        ):
            await refused
        assert await cancel_move(made.client, east) == "default/east is not to be moved"
        await made.until("east", lambda obj: not condition(obj, "Movable"))


def managed(**spec: Any) -> Object:
    metadata = {"name": "east", "namespace": "default"}
    return {"metadata": metadata, "spec": spec, "status": {"assignedWorker": "w1"}}


def worker(**spec: Any) -> Object:
    return {"metadata": {"name": "w1", "labels": {"disk": "hdd"}}, "spec": spec}


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        (managed(), Relocation()),
        (managed(location="north"), Relocation()),
        (managed(location="south"), Relocation("Requirements", mismatch="worker w1 is not in location south")),
        (
            managed(workerSelector={"matchLabels": {"disk": "ssd"}}),
            Relocation("Requirements", mismatch="worker w1 does not match workerSelector"),
        ),
        (managed(workerSelector={"matchLabels": {"disk": "hdd"}}), Relocation()),
        (managed(workerSelector={"matchExpressions": [{"key": "disk", "operator": "?"}]}), Relocation()),
        (managed(version="v1.20.0"), Relocation()),
    ],
)
def test_location_and_selector_hold_after_it_was_placed(obj: Object, found: Relocation) -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    assert relocation_of(obj, worker(location="north", versions=["v1.36"], taints=[taint])) == found
    gone = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-11-18T00:00:00Z"}}
    assert relocation_of(gone, worker(location="north")) == Relocation()


def test_a_request_is_satisfied_by_where_it_is() -> None:
    obj = managed()
    for to, due in (("", True), ("w1", False), ("w2", True)):
        annotations = {key: value for key, value in move_annotations(obj, to).items() if value is not None}
        asked = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
        assert move_request(asked) == (True, due, to)
        moved = {**asked, "status": {"assignedWorker": "w2"}}
        assert move_request(moved).is_due == (to == "w1")
