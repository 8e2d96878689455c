"""The whole story over real processes: clusters, their nodes, a Deployment on both, more nodes, and nothing left."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.etcd import Etcd
from tests.faults.processes import command
from tests.story.api import HANG, Api
from tests.story.everything import Inventory
from tests.story.fleets import HUB, WORKERS, Fleet
from tests.story.story import NAMES, NODE_CLAIMS, Story

CPUS = {"small": 2, "medium": 4}
"""30 pods of half a cpu, 16 of them on the first nodes: seven more cpus. A large node has them, and costs more."""


@pytest.fixture(params=["inside", "apart"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, store: Etcd | None) -> Iterator[Fleet]:
    """Workers inside `shoal up`, or as processes of their own."""
    fleet = Fleet(tmp_path, apart=request.param == "apart", etcd=store)
    yield fleet
    fleet.close()


def test_the_story(fleet: Fleet) -> None:
    story = Story(fleet)
    inventory = Inventory(fleet)
    story.live("clusters")
    with closing(Api(kubeconfig(fleet, "east", "--ttl", "1h"))) as for_an_hour:
        assert len(for_an_hour.items("/api/v1/nodes")) == 2
    for name in NAMES:
        inside = story.inside(name)
        assert inside.server == f"{story.hub.server}/managedclusters/default/{name}"
        assert len(inside.items("/api/v1/nodes")) == 2
    story.live("node_pools")
    story.live("deployment")
    assert not any(story.inside(name).items(NODE_CLAIMS) for name in NAMES), "ten fit on the nodes there are"
    story.live("scale")
    story.check_nodes()
    for name in NAMES:
        assert sum(map(CPUS.__getitem__, story.bought(name))) in (8, 10), story.bought(name)
    inventory.learn(story.hub, story.inside("east"))
    inventory.comes_to_rest()
    story.live("delete_deployment")
    story.live("delete_clusters")
    inventory.nothing_is_left()
    inventory.comes_to_rest()
    story.close()
    registered = {(0, f"worker {name} hosts up to 100 clusters\nstopping\n") for name in WORKERS}
    assert set(fleet.stop().values()) - registered == {(0, "stopping\n")}, "nothing else is said"


def kubeconfig(fleet: Fleet, name: str, *flags: str) -> str:
    run = subprocess.run(
        command("kubeconfig", name, *flags, "--data-dir", str(fleet.data(HUB))),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    return run.stdout
