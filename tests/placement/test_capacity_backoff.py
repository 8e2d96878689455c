"""Unschedulable replicas: they move, stay moved, and are tried again with exponential backoff."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from shoal.placement.capacity_backoff import (
    NO_BACKOFF,
    CapacityBackoff,
    backoff_of,
    observe,
    retry_delay,
    seconds_until_change,
    unschedulable_count,
)
from shoal.placement.cluster_info import ClusterInfo
from shoal.placement.splitter.decide import compute_changes
from tests.placement.hub import CLUSTERS, Hub

Object = dict[str, Any]
NOW, PATIENCE = 1_700_000_000.0, 60.0
FULL = CapacityBackoff(None, 3, 0, 1, NOW + 300)


@pytest.mark.parametrize(
    ("before", "replicas", "stuck", "fits", "found"),
    [
        (NO_BACKOFF, 5, 0, 0, NO_BACKOFF),
        (NO_BACKOFF, 5, 2, 0, CapacityBackoff(unschedulable_since=NOW)),
        (CapacityBackoff(unschedulable_since=NOW - 59), 5, 2, 0, CapacityBackoff(unschedulable_since=NOW - 59)),
        (CapacityBackoff(unschedulable_since=NOW - 59), 5, 0, 0, NO_BACKOFF),
        (CapacityBackoff(unschedulable_since=NOW - 60), 5, 2, 0, FULL),
        (CapacityBackoff(unschedulable_since=NOW - 60), 2, 2, None, CapacityBackoff(None, 0, None, 1, NOW + 300)),
        (FULL, 3, 0, 0, FULL),
        (FULL, 3, 2, 0, CapacityBackoff(NOW, 3, 0, 1, NOW + 300)),  # it was not taken back yet
        (CapacityBackoff(NOW - 60, 3, 0, 1, NOW + 300), 3, 1, 0, CapacityBackoff(None, 2, 0, 2, NOW + 600)),
        (FULL, 5, 3, 0, CapacityBackoff(None, 2, 0, 1, NOW + 300)),  # there is no room anywhere
        (FULL, 3, 0, 1, CapacityBackoff(None, None, None, 1, NOW + 300)),  # there is room for one more
        (CapacityBackoff(None, 3, 0, 1, NOW), 3, 0, 0, CapacityBackoff(None, None, None, 1, NOW)),
        (CapacityBackoff(None, 3, 0, 1, NOW), 5, 2, 0, CapacityBackoff(NOW, None, None, 1, NOW)),
        (CapacityBackoff(NOW - 60, None, None, 1, NOW), 5, 2, 4, CapacityBackoff(None, 3, 4, 2, NOW + 600)),
        (CapacityBackoff(None, None, None, 1, NOW - 299), 5, 0, 0, CapacityBackoff(None, None, None, 1, NOW - 299)),
        (CapacityBackoff(None, None, None, 1, NOW - 300), 5, 0, 0, NO_BACKOFF),
    ],
)
def test_what_is_remembered(
    before: CapacityBackoff, replicas: int, stuck: int, fits: int | None, found: CapacityBackoff
) -> None:
    after = observe(before, replicas, stuck, fits, NOW, PATIENCE)
    assert after == found
    assert backoff_of({"metadata": {"annotations": {"placement.shoal.dev/crowded": after.to_annotation()}}}) == after


def test_pauses_double_up_to_an_hour() -> None:
    assert [retry_delay(tries) / 60 for tries in range(7)] == [0, 5, 10, 20, 40, 60, 60]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tries":"x"}', '{"since":5}'])
def test_what_cannot_be_read_is_nothing(text: str) -> None:
    leaf = {"metadata": {"annotations": {"placement.shoal.dev/crowded": text, "workloads.kcp.dev/unschedulable": "-"}}}
    assert backoff_of(leaf) == NO_BACKOFF
    assert unschedulable_count(leaf) == 0


@pytest.mark.parametrize(
    ("crowding", "after"),
    [
        (NO_BACKOFF, None),
        (CapacityBackoff(unschedulable_since=NOW - 10), 50),
        (FULL, 300),
        (CapacityBackoff(None, None, None, 1, NOW), 300),
        (CapacityBackoff(NOW - 70, None, None, 0, 0.0), 0),
    ],
)
def test_when_time_changes_it(crowding: CapacityBackoff, after: float | None) -> None:
    assert seconds_until_change(crowding, NOW, PATIENCE) == after


class World:
    """Clusters that can run so many of one Deployment, looked at every ten seconds."""

    def __init__(self, total: int, rooms: dict[str, int]) -> None:
        self.rooms, self.now, self.moves, self.lowest = rooms, NOW, 0, total
        spec = {"replicas": total, "template": {"spec": {"containers": [{"name": "c"}]}}}
        metadata = {"name": "web", "namespace": "default", "uid": "u"}
        self.root = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        self.leaves: dict[str, Object] = {}

    def look(self) -> None:
        sites = [ClusterInfo(name, free={"pods": 1000}) for name in self.rooms]  # more than there is in truth
        found = compute_changes(self.root, self.leaves.values(), (), sites, self.now)
        for leaf in found.delete:
            del self.leaves[leaf["metadata"]["labels"]["workloads.kcp.dev/cluster"]]
        for leaf in (*found.create, *found.update):
            name = leaf["metadata"]["labels"]["workloads.kcp.dev/cluster"]
            before = self.leaves.get(name)
            self.moves += max(before["spec"]["replicas"] - leaf["spec"]["replicas"], 0) if before else 0
            self.leaves[name] = leaf
        self.now += 10
        for name, leaf in self.leaves.items():
            runs = min(leaf["spec"]["replicas"], self.rooms[name])
            leaf["status"] = {"availableReplicas": runs}
            stuck = leaf["spec"]["replicas"] - runs
            leaf["metadata"]["annotations"]["workloads.kcp.dev/unschedulable"] = str(stuck)
        self.lowest = min(self.lowest, sum(leaf["status"]["availableReplicas"] for leaf in self.leaves.values()))

    def until(self, seconds: float) -> dict[str, int]:
        end = self.now + seconds
        while self.now < end:
            self.look()
        return {name: leaf["spec"]["replicas"] for name, leaf in self.leaves.items()}


def test_they_move_once_and_come_back_when_there_is_room_after_a_pause() -> None:
    world = World(10, {"a": 3, "b": 100})
    assert world.until(50) == {"a": 5, "b": 5}
    assert world.until(60) == {"a": 3, "b": 7}
    assert (world.until(200), world.moves) == ({"a": 3, "b": 7}, 2)
    world.rooms["a"] = 100
    assert world.until(200) == {"a": 5, "b": 5}


def test_a_cluster_without_room_takes_nothing_that_runs_and_is_tried_ever_less_often() -> None:
    world = World(12, {"a": 100})
    assert world.until(60) == {"a": 12}
    world.rooms["empty"] = 0
    tried = []
    for _ in range(6 * 60):
        tried.append(world.until(60).get("empty", 0) > 0)
        assert world.lowest == 12, "a replica was given up for one that cannot run"
    attempts = sum(now and not before for before, now in pairwise([False, *tried]))
    assert attempts <= 10, "the memory outlives the replicas: after 5, 10, 20, 40, 60, 60, ... minutes"
    assert world.until(0)["a"] == 12


def test_they_do_not_wander_between_clusters_that_are_full() -> None:
    world = World(10, {"a": 3, "b": 4})
    world.until(24 * 3600)
    assert sum(leaf["spec"]["replicas"] for leaf in world.leaves.values()) == 10
    assert world.moves <= 2 * 26, "no more often than the pauses allow"
    before = world.moves
    assert (world.until(600), world.moves - before <= 2) == (world.until(0), True)


@pytest.mark.anyio
async def test_on_a_hub(hub: Hub) -> None:
    await hub.learn()
    await hub.cluster("east")
    await hub.cluster("west")
    await hub.deploy()
    await hub.becomes(east=5, west=5)
    await hub.run("web--east")
    await hub.run("web--west")
    await hub.patch("web--east", {"status": {"availableReplicas": 3}}, "status")
    await hub.patch("web--east", {"metadata": {"annotations": {"workloads.kcp.dev/unschedulable": "2"}}})

    async def noticed() -> bool:
        return "since" in (await hub.get("web--east"))["metadata"]["annotations"].get("placement.shoal.dev/crowded", "")

    await hub.eventually(noticed)
    hub.world.clock.step(61)
    await hub.becomes(east=3, west=7)
    await hub.patch("web--east", {"metadata": {"annotations": {"workloads.kcp.dev/unschedulable": None}}})
    await hub.run("web--east")
    await hub.run("web--west")
    await hub.client.merge_patch(CLUSTERS, "west", {"metadata": {"labels": {"looked": "again"}}})
    hub.world.clock.step(200)
    await hub.becomes(east=3, west=7)
    hub.world.clock.step(301)
    await hub.becomes(east=5, west=7)
    await hub.run("web--east")
    await hub.becomes(east=5, west=5)
