"""A planned migration: the worker freezes the cluster, ships the rest and reports it final; or thaws it again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.fence.decide import FROZEN_ANNOTATION
from shoal.kinds.fleet import migration
from shoal.objects.errors import NotFound
from tests.fleet.worker.fleets import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    WORKERS,
    Fleet,
    config_map,
    deployment,
    eventually,
    fleet,
    phase,
    refused,
)
from tests.serving import HANG

Object = dict[str, Any]
pytestmark = pytest.mark.anyio

MOVING = "cluster default.east is read-only: it is being moved to another worker"


async def plan(made: Fleet) -> None:
    move = {"from": "w1", "to": "w2", "reason": "Drain", "since": "2026-01-01T00:00:00Z"}
    await made.change(lambda managed: {**managed["status"], "move": move})


async def cancel(made: Fleet) -> None:
    await made.change(lambda managed: {key: value for key, value in managed["status"].items() if key != "move"})


async def is_frozen(made: Fleet) -> bool:
    copy = await made.root("w1").get(MANAGED_CLUSTERS, "east", "default")
    return FROZEN_ANNOTATION in copy["metadata"]["annotations"]


async def test_frozen_shipped_and_moved_and_a_move_that_is_cancelled(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=1)
        # The test is the hub from here on.
        await made.hub_server._controllers.stop()
        inside = made.inside("w1")
        assert await made.segments() == []
        await inside.create(CONFIG_MAPS, config_map("one"), "default")
        await plan(made)
        managed = await made.until(migration.is_final_backup_shipped)
        assert migration.backup_status(managed)["complete"]
        error = await refused(inside.create(CONFIG_MAPS, config_map("two"), "default"))
        assert (error.status_code, error.message) == (503, MOVING)
        assert (await inside.get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"

        # Killed now, it is frozen from its first moment on.
        await made.stop("w1")
        await made.start("w1", cut=True)
        inside = made.inside("w1")
        assert (await refused(inside.create(CONFIG_MAPS, config_map("two"), "default"))).message == MOVING
        made.lines["w1"].mend()

        # It is not moved after all: first the word is taken back, then it goes on.
        await cancel(made)
        managed = await made.until(lambda obj: "final" not in migration.backup_status(obj))

        async def thawed() -> bool:
            return not await is_frozen(made)

        await eventually(thawed)
        await inside.create(CONFIG_MAPS, config_map("two"), "default")

        async def nothing_lies_there() -> bool:
            return not await made.segments() and not migration.backup_status(await made.get())

        await eventually(nothing_lies_there)

        # One move after the other: the word has to be given again.
        await plan(made)
        await made.until(migration.is_final_backup_shipped)

        def another(managed: Object) -> Object:
            status = managed["status"]
            backup = {key: value for key, value in status["backup"].items() if key != "final"}
            return {**status, "backup": backup, "move": {**status["move"], "since": "2026-01-02T00:00:00Z"}}

        await made.change(another)
        await made.until(migration.is_final_backup_shipped)
        await cancel(made)
        await eventually(thawed)

        # And once more, to the end. Who watches it is sent away, and not told that all is deleted.
        told: list[str] = []

        async def watch() -> None:
            async for event in inside.watch(CONFIG_MAPS):
                told.append(event["type"])

        watching = asyncio.create_task(watch())
        await plan(made)
        await made.until(migration.is_final_backup_shipped)
        await made.move("w2")
        await made.until(lambda obj: phase(obj) == "Running")
        inside = made.inside("w2")
        for name in ("one", "two"):
            assert (await inside.get(CONFIG_MAPS, name, "default"))["metadata"]["name"] == name

        async def writable() -> bool:
            await inside.create(CONFIG_MAPS, config_map("three"), "default")
            return True

        await eventually(writable)

        async def done() -> bool:
            gone = not made.workers["w1"].shoal.cluster_moves.storage.contents("default.east").entries  # type: ignore[union-attr]
            return gone and not await made.segments()

        await eventually(done)
        await asyncio.wait_for(watching, HANG)
        assert set(told) == {"ADDED"}


async def test_what_is_deleted_while_it_is_frozen_goes(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=1, onWorkerLost="Move")
        await made.hub_server._controllers.stop()
        await plan(made)
        await made.until(migration.is_final_backup_shipped)
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: is_gone(made))
        assert not made.workers["w1"].shoal.cluster_moves.storage.contents("default.east").entries  # type: ignore[union-attr]


async def test_what_is_deleted_before_it_came_back_goes(tmp_path: Path) -> None:
    """Its worker was lost, and nobody else took it."""
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=1, onWorkerLost="Move")
        await made.backed_up("w1")
        made.lines["w1"].cut()
        made.clocks["w1"].added += 41
        for worker in ("w9", "w1"):
            await made.move(worker)
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        made.lines["w1"].mend()
        await eventually(lambda: is_gone(made))
        assert not made.workers["w1"].shoal.cluster_moves.storage.contents("default.east").entries  # type: ignore[union-attr]


async def is_gone(made: Fleet) -> bool:
    try:
        await made.get()
    except NotFound:
        return True
    return False


async def test_a_drained_worker_s_clusters_go_elsewhere(tmp_path: Path) -> None:
    """With the hub's own loops."""
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=1, workerSelector={})
        here = (await made.get())["status"]["assignedWorker"]
        await made.inside(here).create(DEPLOYMENTS, deployment("web", 2), "default")
        there = "w2" if here == "w1" else "w1"
        await made.hub.merge_patch(WORKERS, here, {"spec": {"drain": True}}, "shoal-system")
        await made.until(lambda obj: obj["status"]["assignedWorker"] == there and phase(obj) == "Running")

        async def running() -> bool:
            found, _ = await made.inside(there).list_all(PODS, "default")
            return len(found) == 2 and all(pod["status"].get("phase") == "Running" for pod in found)

        await eventually(running)
