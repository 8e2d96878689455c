"""The process is killed at any of its writes, before or after it; the next process reaches the same end state as one
that was not killed.

Every object of every kind is counted, in root and in every logical cluster. A few writes are tried here, all of them
with the mark soak.
"""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.capi.informers import CLUSTERS, MACHINES, SECRETS
from shoal.capi.providers.embedded.informers import NODES
from shoal.client.rest import Client
from tests.capi.crashable_server import Counts, Cut, Place, place

Object = dict[str, Any]


class Unkilled:
    """What there is without any kill: before, with the Cluster, and how many writes each way takes."""

    def __init__(self) -> None:
        self.before: Counts = Counter()
        self.running: Counts = Counter()
        self.creating = self.deleting = 0


@pytest.fixture(scope="module")
async def unkilled(tmp_path_factory: pytest.TempPathFactory) -> Unkilled:
    found = Unkilled()
    async with place(tmp_path_factory.mktemp("unkilled")) as here:
        cut = Cut(here.server.transport(), 100_000)
        here.start(cut)
        await here.eventually(here.has_accounts)
        found.before = await here.counted()
        await here.apply()
        await here.eventually(here.is_running)
        found.running, found.creating = await here.counted(), cut.writes
        await here.client.delete(CLUSTERS, "east", "default")
        await here.eventually(here.is_gone)
        await here.comes_to(found.before)
        found.deleting = cut.writes - found.creating
    return found


async def kill_creation(here: Place, at: int, made: bool, expected: Unkilled) -> None:
    await here.apply()
    await here.killed(at, made)
    here.start()
    await here.eventually(here.is_running)
    await here.comes_to(expected.running)
    names = {machine["metadata"]["name"] for machine in (await here.client.list_all(MACHINES, "default"))[0]}
    nodes, _ = await here.client.in_cluster("default.east").list_all(NODES)
    assert {node["metadata"]["name"] for node in nodes} == names
    secret = await here.client.get(SECRETS, "east-kubeconfig", "default")
    config = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
    hosted = Client(here.server.transport(), config["users"][0]["user"]["token"], cluster="default.east")
    assert len((await hosted.list_all(NODES))[0]) == 3


async def kill_deletion(here: Place, at: int, made: bool, expected: Unkilled) -> None:
    here.start()
    await here.eventually(here.has_accounts)
    await here.apply()
    await here.eventually(here.is_running)
    await here.stop()
    await here.client.delete(CLUSTERS, "east", "default")
    await here.killed(at, made)
    here.start()
    await here.eventually(here.is_gone)
    await here.comes_to(expected.before)


@pytest.mark.anyio
@pytest.mark.parametrize(("share", "made"), [(0.0, False), (0.3, True), (0.6, False), (0.9, True)])
async def test_creation_ends_converged(tmp_path: Path, unkilled: Unkilled, share: float, made: bool) -> None:
    async with place(tmp_path) as here:
        await kill_creation(here, int(unkilled.creating * share), made, unkilled)


@pytest.mark.anyio
@pytest.mark.parametrize(("share", "made"), [(0.0, True), (0.3, False), (0.6, True), (0.9, False)])
async def test_deletion_ends_with_nothing(tmp_path: Path, unkilled: Unkilled, share: float, made: bool) -> None:
    async with place(tmp_path) as here:
        await kill_deletion(here, int(unkilled.deleting * share), made, unkilled)


@pytest.mark.soak
@pytest.mark.anyio
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("kill", [kill_creation, kill_deletion])
async def test_every_write(tmp_path: Path, unkilled: Unkilled, made: bool, kill: Any) -> None:
    writes = unkilled.creating if kill is kill_creation else unkilled.deleting
    assert writes > 20
    for at in range(writes):
        async with place(tmp_path / str(at)) as here:
            await kill(here, at, made, unkilled)
