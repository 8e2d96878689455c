"""The rebalancer on a hub: off by default, then suggesting, then moving; and it converges."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from shoal.fleet.rebalance.controller import RebalanceSettings, parse_rebalance_settings
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1 as names
from tests.fleet.fleets import SYSTEM, condition
from tests.fleet.migration.fake_workers import Hub, hub

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (None, RebalanceSettings()),
        ({}, RebalanceSettings("suggest")),
        (
            {"mode": "auto", "maxMoves": "3", "threshold": "0.1", "rest": "0"},
            RebalanceSettings("auto", 3, Fraction(1, 10), 0.0),
        ),
    ],
)
def test_settings(data: Object | None, wanted: RebalanceSettings) -> None:
    assert parse_rebalance_settings({"data": data} if data is not None else None) == wanted


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"mode": "on"}, "ConfigMap shoal-system/rebalance: mode is neither suggest nor auto: 'on'"),
        ({"threshold": "2"}, "threshold is not a number from 0 to 1: '2'"),
        ({"threshold": "1/0"}, "threshold is not a number"),
        ({"maxMoves": "many"}, "maxMoves is not a number"),
        ({"moves": "1"}, "unknown key moves"),
    ],
)
def test_settings_that_are_not_understood(data: Object, said: str) -> None:
    found = parse_rebalance_settings({"data": data})
    assert said in found.settings_error
    assert found.mode == "off"


async def lopsided(made: Hub, number: int = 4) -> list[str]:
    """All on w1, none on w2."""
    clusters = [f"c{index}" for index in range(number)]
    await made.worker("w1", 10)
    for name in clusters:
        await made.create(name, "w1")
        await made.ready(name)
    await made.worker("w2", 10)
    return clusters


async def where(made: Hub) -> list[str]:
    found, _ = await made.client.list_all(MANAGED_CLUSTERS)
    return sorted(names.assigned_worker(each) for each in found)


async def under_way(made: Hub) -> list[str]:
    found, _ = await made.client.list_all(MANAGED_CLUSTERS)
    return sorted(each["metadata"]["name"] for each in found if names.migration_target(each))


@pytest.mark.anyio
async def test_it_suggests_and_moves_nothing(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await lopsided(made)
        await made.pass_time(30)
        assert not condition(await made.get_worker("w1"), "Balanced")
        await made.configure("rebalance", threshold="0")
        said = await made.says("w1", "Balanced", "Suggested")
        assert said["message"] == "would move: default/c0 to w2, default/c1 to w2"
        assert (await made.says("w2", "Balanced", "Balanced"))["status"] == "True"
        assert await under_way(made) == []
        patch = {"data": {"threshold": "5"}}
        await made.client.merge_patch(CONFIG_MAPS, "rebalance", patch, SYSTEM)
        said = await made.says("w1", "Balanced", "InvalidSettings")
        assert "threshold is not a number from 0 to 1" in said["message"]
        await made.client.delete(CONFIG_MAPS, "rebalance", SYSTEM)
        for name in ("w1", "w2"):
            await made.until_worker(name, lambda obj: not condition(obj, "Balanced"))


@pytest.mark.anyio
async def test_it_moves_a_few_at_a_time_and_comes_to_rest(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await lopsided(made)
        await made.configure("rebalance", mode="auto", threshold="0", rest="0")
        moved = []
        for _ in range(2):
            found = await made.until_any_moves()
            moved.append(found["metadata"]["name"])
            assert found["status"]["move"]["reason"] == "Rebalance"
            await made.pass_time(30)
            assert await under_way(made) == moved[-1:]
            await made.send(moved[-1])
            await made.until_on(moved[-1], "w2")
            await made.pass_time(30)
            assert await under_way(made) == []
            await made.ready(moved[-1])
        await made.pass_time(60)
        assert await where(made) == ["w1", "w1", "w2", "w2"]
        assert await under_way(made) == []
        assert len(set(moved)) == 2


@pytest.mark.anyio
async def test_switched_off_it_takes_back_what_is_under_way_and_a_lost_worker_stops_it(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await lopsided(made)
        await made.worker("w3", 0)
        await made.configure("rebalance", mode="auto", threshold="0")
        found = await made.until_any_moves()
        await made.client.merge_patch(CONFIG_MAPS, "rebalance", {"data": {"mode": "suggest"}}, SYSTEM)
        back = await made.until(found["metadata"]["name"], lambda obj: not names.migration_target(obj))
        assert condition(back, "Moving")["reason"] == "Cancelled"
        await made.says("w1", "Balanced", "Suggested")
        await made.lose("w3")
        await made.says("w1", "Balanced", "Balanced")


@pytest.mark.anyio
async def test_filters_and_preferences_hold(tmp_path: Path) -> None:
    async with hub(tmp_path) as made:
        await made.worker("w1", 10, location="north")
        await made.create("bound", "w1", location="north")
        await made.create("likes", "w1", preferredLocations=["north"])
        await made.create("new", "w1")
        for name in ("bound", "likes"):
            await made.ready(name)
        await made.worker("w2", 10, location="south")
        await made.configure("rebalance", threshold="0")
        await made.pass_time(20)
        assert (await made.says("w1", "Balanced", "Balanced"))["status"] == "True"
        await made.ready("new")
        said = await made.says("w1", "Balanced", "Suggested")
        assert said["message"] == "would move: default/new to w2"
