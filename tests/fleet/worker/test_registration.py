"""What the flags of a worker do to its Worker: given once, kept, and changed by a flag or the object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.cli.worker import print_registered
from shoal.fleet.resources import WORKERS
from shoal.fleet.worker.registration.decide import spec_patch, worker_object
from shoal.fleet.worker.settings import WorkerSettings
from tests.fleet.fleets import SYSTEM, Fleet, fleet

Object = dict[str, Any]


async def offer(made: Fleet) -> tuple[int, str]:
    spec = (await made.worker("w1"))["spec"]
    return spec["capacity"], spec.get("location") or ""


async def restart(made: Fleet, capacity: int | None = None, location: str | None = None) -> tuple[int, str]:
    """Returns what it offers when it has registered."""
    seen: list[Object] = []
    await made.part("w1")
    await made.join("w1", capacity, location, on_registered=lambda before, after: seen.append(after))
    await made.until_worker("w1", lambda obj: bool(seen))
    return await offer(made)


@pytest.mark.anyio
async def test_a_worker_that_is_restarted_by_name_alone_keeps_what_it_was_given(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await made.join("w1", 5, "north")
        await made.until_worker("w1", lambda obj: obj["spec"].get("location") == "north")
        assert await restart(made) == (5, "north")
        await made.hub.merge_patch(WORKERS, "w1", {"spec": {"capacity": 7, "location": "south"}}, SYSTEM)
        assert await restart(made) == (7, "south"), "the object was changed last"
        assert await restart(made, capacity=9) == (9, "south")
        assert await restart(made, location="") == (9, "")


@pytest.mark.anyio
async def test_a_worker_without_flags_offers_the_default(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await made.join("w1", None, None)
        await made.until_worker("w1", lambda obj: bool(obj["spec"].get("versions")))
        assert await offer(made) == (100, "")


def test_flags_count_when_the_worker_starts_and_then_the_object() -> None:
    given = WorkerSettings("w1", 5, "north", "v1.36.4")
    changed = worker_object(WorkerSettings("w1", 7, "south", "v1.36.4"), "store")
    assert spec_patch(changed, given, starts=True) == {"spec": {"capacity": 5, "location": "north"}}
    assert spec_patch(changed, given, starts=False) is None
    assert spec_patch(changed, WorkerSettings("w1", version="v1.36.4"), starts=True) is None


def test_what_a_worker_offers_is_printed_and_what_its_flags_change(capsys: pytest.CaptureFixture[str]) -> None:
    before = worker_object(WorkerSettings("w1", 7, None, ""), "store")
    print_registered(before, worker_object(WorkerSettings("w1", 5, "north", ""), "store"))
    assert capsys.readouterr().err.splitlines() == [
        "--capacity changes the capacity of worker w1: 7 before",
        "--location changes the location of worker w1: none before",
        "worker w1 hosts up to 5 clusters in location north",
    ]
    print_registered(before, before)
    assert capsys.readouterr().err == "worker w1 hosts up to 7 clusters\n"
