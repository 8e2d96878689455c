"""A migrated ManagedCluster is deleted only when nothing of it is left, also on its former workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.worker.handover.controller import HANDED_OVER_ANNOTATION
from shoal.objects.errors import Forbidden
from tests.fleet.fleets import as_worker, gone, join_worker
from tests.fleet.worker.fleets import Fleet, eventually, fleet, phase

Object = dict[str, Any]
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fleet.worker.replication.controller.STATUS_SECONDS", 0.1)


async def test_deleted_while_one_that_had_it_before_is_away(tmp_path: Path) -> None:
    """w1 has it still, w3 never had anything of it, and of nobody there is no Worker."""
    async with fleet(tmp_path, "w1", "w2", "w3") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        await made.backed_up("w1")
        for name in ("w1", "w3"):
            await made.stop(name)
        await made.move("w2")
        await made.until(lambda obj: phase(obj) == "Running" and obj["status"]["assignedWorker"] == "w2")
        former = ["w1", "w3", "nobody"]
        await made.change(lambda managed: {**managed["status"], "formerWorkers": former})
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: gone(made.root("w2"), MANAGED_CLUSTERS, "east"))
        for name in ("w1", "w3"):
            await eventually(lambda name=name: waits_for(made, name))  # type: ignore[misc]
        assert phase(await made.get()) == "Terminating"
        await made.start("w3")
        await made.until(lambda obj: obj["status"]["formerWorkers"] == ["w1", "nobody"])
        await made.start("w1")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))
        await eventually(lambda: gone(made.root("w1"), MANAGED_CLUSTERS, "east"))
        assert not made.workers["w1"].shoal.cluster_moves.storage.contents("default.east").entries  # type: ignore[union-attr]

        async def nobody_is_waited_for() -> bool:
            found, _ = await made.hub.list_all(WORKERS)
            return not any(obj["status"].get("awaited") for obj in found)

        await eventually(nobody_is_waited_for)


async def waits_for(made: Fleet, worker: str) -> bool:
    found = await made.hub.get(WORKERS, worker, "shoal-system")
    return bool(found["status"].get("awaited") == ["default/east"])


async def test_killed_while_it_gives_way(tmp_path: Path) -> None:
    """The hub knows nothing of either any more: what goes is the one whose copy says that it has to."""
    async with fleet(tmp_path, "w1", "w2") as made:
        for name in ("east", "west"):
            await made.create("w1", name, nodes=0, onWorkerLost="Move")
            await made.backed_up("w1", name)
        note = {"metadata": {"annotations": {HANDED_OVER_ANNOTATION: "1"}}}
        await made.root("w1").merge_patch(MANAGED_CLUSTERS, "east", note, "default")
        await made.stop("w1")
        for name in ("east", "west"):
            await made.move("w2", name)
            await made.until(lambda obj: phase(obj) == "Running" and obj["status"]["assignedWorker"] == "w2", name)
            await made.hub.delete(MANAGED_CLUSTERS, name, "default")
            await eventually(lambda name=name: gone(made.root("w2"), MANAGED_CLUSTERS, name))  # type: ignore[misc]
            await made.hub.merge_patch(MANAGED_CLUSTERS, name, {"metadata": {"finalizers": []}}, "default")
        await made.start("w1")
        await eventually(lambda: gone(made.root("w1"), MANAGED_CLUSTERS, "east"))
        assert not await gone(made.root("w1"), MANAGED_CLUSTERS, "west"), "silence is no reason"


async def test_what_one_that_had_it_before_may_say(tmp_path: Path) -> None:
    """That nothing is left there, of itself; and nothing else."""
    async with fleet(tmp_path, "w1") as made:
        await made.create("w1", nodes=0)
        await made.change(lambda managed: {**managed["status"], "formerWorkers": ["w2", "w3"]})
        await join_worker(made.hub, "w2")
        second, before = as_worker(made.hub, "w2"), await made.get()
        lies: list[Object] = [
            *({"formerWorkers": ["w2"]}, {"formerWorkers": []}, {"formerWorkers": ["w2", "w3"], "phase": "Failed"}),
            *({"formerWorkers": ["w3"], "assignedWorker": "w2"}, {"formerWorkers": ["w3"], "epoch": 9}),
        ]
        for lie in lies:
            with pytest.raises(Forbidden, match=r"may only remove itself from status\.formerWorkers"):
                await second.update(MANAGED_CLUSTERS, {**before, "status": {**before["status"], **lie}}, "status")
        with pytest.raises(Forbidden, match="it is not assigned to this worker"):
            await second.merge_patch(MANAGED_CLUSTERS, "east", {"metadata": {"finalizers": []}}, "default")
        await second.merge_patch(MANAGED_CLUSTERS, "east", {"status": {"formerWorkers": ["w3"]}}, "default", "status")
        with pytest.raises(Forbidden):
            await second.get(MANAGED_CLUSTERS, "east", "default")
