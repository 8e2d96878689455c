"""Interrupted anywhere, new controllers reach the same end state as uninterrupted ones: the cluster exists once, or
nothing is left.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shoal.capi.informers import CLUSTERS, SECRETS
from shoal.capi.providers.kind.controller import owner_uid_of
from shoal.client.rest import GroupVersionResource
from shoal.kinds.clusterapi import capi, kindcluster
from tests.capi.crashable_server import Cut
from tests.capi.kind.kind_environment import Place, condition, kind_cluster
from tests.controlplane.world import CLUSTERS as LOGICAL_CLUSTERS

Object = dict[str, Any]
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def ticking(still: Place) -> None:
    still.tick = 0.05


async def cut(place: Place, writes: int, made: bool = False) -> bool:
    """Runs loops that end after so many writes; whether they came that far. `made`: the next one is made, and they
    do not hear of it."""
    transport = Cut(place.world.server.transport(), writes, made)
    place.start(transport)
    settled = asyncio.create_task(_settled(place))
    ended = asyncio.create_task(transport.ended.wait())
    _, waiting = await asyncio.wait((settled, ended), return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await place.stop()
    return transport.ended.is_set()


async def _settled(place: Place) -> None:
    """Ready, or gone."""

    async def look() -> bool:
        if await place.world.is_gone(place.client, _KINDS, "a", "default"):
            return True
        obj = await place.get("a")
        return "deletionTimestamp" not in obj["metadata"] and is_complete(obj)

    await place.eventually(look)


def is_complete(obj: Object) -> bool:
    """Ready, with its images."""
    return (condition(obj).get("status"), condition(obj, "ImagesLoaded").get("status")) == ("True", "True")


_KINDS = GroupVersionResource(kindcluster.GROUP, kindcluster.VERSION, kindcluster.PLURAL)


async def owned(place: Place) -> Object:
    """A KINDCluster that a Cluster owns."""
    reference = {"apiGroup": kindcluster.GROUP, "kind": kindcluster.KIND, "name": "a"}
    cluster = {
        "apiVersion": capi.API_VERSION,
        "kind": capi.CLUSTER,
        "metadata": {"name": "c"},
        "spec": {"infrastructureRef": reference},
    }
    made = await place.client.create(CLUSTERS, cluster, "default")
    place.standin.image("app:1", "sha256:1")
    obj = kind_cluster("a", images=["app:1"])
    owner = capi.owner_reference(made, capi.API_VERSION, capi.CLUSTER, controller=False)
    obj["metadata"]["ownerReferences"] = [owner]
    return await place.create(obj)


async def whole(place: Place) -> None:
    async def look() -> bool:
        return is_complete(await place.get("a"))

    await place.eventually(look)
    assert place.standin.clusters() == ["a"]
    assert set(place.standin.loaded("a")) == {"app:1=sha256:1"}
    text = place.standin.kubeconfig("a")
    assert await place.holds("a-config", "config", text)
    assert await place.holds("c-kubeconfig", "value", text)


async def nothing(place: Place) -> None:
    await place.gone("a")
    assert place.standin.clusters() == []
    secrets, _ = await place.client.list_all(SECRETS, "default")
    assert secrets == []


async def life(place: Place, writes: int, made: bool) -> bool:
    """Its creation is cut after so many writes, and then its deletion; whether either came that far."""
    await owned(place)
    came = await cut(place, writes, made)
    place.start()
    await whole(place)
    await place.stop()
    await place.delete("a")
    came = await cut(place, writes, made) or came
    place.start()
    await nothing(place)
    await place.stop()
    await place.client.delete(CLUSTERS, "c", "default")
    return came


async def test_cut_at_some_writes(still: Place) -> None:
    for writes, made in ((1, False), (4, True)):
        assert await life(still, writes, made)


@pytest.mark.soak
@pytest.mark.parametrize("made", [False, True])
async def test_cut_at_every_write(still: Place, made: bool) -> None:
    writes = 0
    while await life(still, writes, made):
        writes += 1
    # finalizer, claim, progress, created, two Secrets, endpoint, ready, images
    assert writes >= 9


@pytest.mark.parametrize("writes", [2, 5])
async def test_deletion_after_a_creation_that_was_cut(still: Place, writes: int) -> None:
    """The object is deleted before anybody looks again."""
    await owned(still)
    assert await cut(still, writes)
    await still.delete("a")
    still.start()
    await nothing(still)


async def test_interrupted_while_kind_works(still: Place) -> None:
    still.standin.write("hold-create")
    still.start()
    await owned(still)
    await still.until(lambda: still.standin.clusters() == ["a"])
    await still.stop()
    assert (await still.get("a"))["status"]["cluster"]["state"] == "Creating"
    still.standin.unlink("hold-create")
    still.start()
    await whole(still)
    history = [entry["reason"] for entry in (await still.get("a"))["status"]["history"]]
    assert history == ["Interrupted", "Created", "Ready", "ImagesLoaded"]
    assert still.standin.calls("create") == ["create cluster a"] * 2


async def test_the_processes_of_loops_that_end_are_ended(still: Place) -> None:
    still.standin.write("hold-create")
    still.start()
    await owned(still)
    await still.until(lambda: still.standin.clusters() == ["a"])
    await still.stop()
    still.standin.unlink("hold-create")
    assert not (still.standin.state / "clusters/a/kubeconfig").exists()
    assert not any(str(still.standin.program).encode() in command for command in commands_running())


def commands_running() -> Iterator[bytes]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_bytes()


@pytest.mark.parametrize("marked", [True, False])
async def test_after_an_interruption_the_cluster_itself_tells_whose_it_is(still: Place, marked: bool) -> None:
    """A whole cluster of that name is there: of the creation that was interrupted, or made by somebody since."""
    still.standin.write("hold-create")
    still.start()
    obj = await owned(still)
    await still.until(lambda: still.standin.clusters() == ["a"])
    await still.stop()
    still.standin.unlink("hold-create")
    still.standin.remove("a")
    body = {"metadata": {"name": "inside"}, "spec": {"profile": "cluster"}}
    await still.client.create(
        LOGICAL_CLUSTERS, {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", **body}
    )
    label = {kindcluster.OWNER_NODE_LABEL: obj["metadata"]["uid"]} if marked else {}
    await still.client.in_cluster("inside").create(NODES, {"metadata": {"name": "a-control-plane", "labels": label}})
    server = still.world.server
    authority = base64.b64encode(server.authority.certificate).decode()
    text = capi.kubeconfig("kind-a", f"{server.url}/clusters/inside", authority, "admin")
    # By the real clock, the certificates of a server whose clock stands still have expired.
    text = text.replace("    server:", "    insecure-skip-tls-verify: true\n    server:")
    still.standin.make("a", text)
    assert await owner_uid_of(text) == (obj["metadata"]["uid"] if marked else "")
    still.start()
    if marked:
        await whole(still)
        assert still.standin.calls("delete") == ["delete cluster a"]
    else:
        await still.says("a", "ForeignCluster")
        assert still.standin.calls("delete") == []
