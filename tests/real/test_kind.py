"""The kind provider with the real kind command.

Without a container engine kind still starts, and says that there is none; with a docker that has and gets no image,
it goes all the way to the pull. `make containers` also makes a cluster of containers and deletes it.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.commands.controllers import wait_until_served
from shoal.capi.informers import CLUSTERS, SECRETS
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controller import KIND_CLUSTERS, owner_uid_of
from shoal.capi.providers.kind.errors import KindError
from shoal.client.kubeconfig import load
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import SystemClock
from shoal.kinds.clusterapi import capi, embedded, kindcluster
from shoal.kinds.shoal_crds import crd_manifests
from shoal.objects.errors import Invalid
from tests.capi.kind.fake_kind import Standin
from tests.capi.kind.kind_environment import Place, kind_cluster
from tests.capi.kind.test_kinds import EXAMPLES
from tests.controlplane.world import world
from tests.real.building import program
from tests.real.commands import shoal
from tests.real.containers.node_image import NAME
from tests.real.kubernetes import Kubernetes, needs_kubernetes

DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
KIND = program("kind")
IMAGE = "SHOAL_KIND_IMAGE"
"""Names another node image that the engine has."""

DOCKER = """#!/bin/sh
echo "$@" >> {calls}
case "$1" in
-v) echo "Docker version 28.2.2, build e6534b4" ;;
ps) ;;
info) echo '{{"CgroupDriver": "systemd", "CgroupVersion": "2", "SecurityOptions": []}}' ;;
pull) echo "Error response from daemon: manifest for $2 not found: manifest unknown" >&2; exit 1 ;;
*) exit 1 ;;
esac
"""
"""A docker that runs, has no image and gets none."""

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(KIND is None, reason="kind")]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with world(tmp_path / "server", loops=False) as made:
        place = Place(made, Standin(tmp_path / "kind"))
        yield place
        await place.stop()


def bare(place: Place, engine: str = "") -> KindCommand:
    """The real kind, with no engine but the script given."""
    binaries = place.standin.program.parent
    place.standin.program.unlink()
    docker = binaries / "docker"
    docker.write_text(
        engine or '#!/bin/sh\necho "Cannot connect to the Docker daemon at unix:///nowhere." >&2; exit 1\n'
    )
    return KindCommand(str(KIND), environment={"PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(binaries)})


async def test_without_an_engine_it_fails_cleanly_and_can_be_deleted(place: Place) -> None:
    command = bare(place)
    with pytest.raises(KindError) as raised:
        await command.clusters()
    assert raised.value.reason == "EngineUnavailable"
    place.start(command=command)
    await place.create(kind_cluster("a"))
    obj = await place.says("a", "EngineUnavailable")
    assert "Cannot connect to the Docker daemon at unix:///nowhere." in obj["status"]["failureMessage"]
    for _ in range(3):
        await place.step(60)
    history = (await place.get("a"))["status"]["history"]
    assert [entry["reason"] for entry in history] == ["EngineUnavailable"]
    await place.delete("a")
    await place.gone("a")


async def test_an_image_that_cannot_be_had(place: Place) -> None:
    calls = place.standin.state / "docker-calls"
    command = bare(place, DOCKER.format(calls=calls))
    assert await command.clusters() == frozenset()
    place.start(command=command)
    nodes = [{"role": "control-plane"}, {"role": "worker", "count": 2}]
    await place.create(kind_cluster("a", nodes=nodes, image="nowhere.example/node:v1", networking={"ipFamily": "dual"}))
    obj = await place.says("a", "CreationFailed")
    message = obj["status"]["failureMessage"]
    assert message.startswith(
        "Cluster cannot be created: kind create cluster: failed to create cluster: failed to pull"
    )
    assert message.endswith("manifest for nowhere.example/node:v1 not found: manifest unknown")
    assert obj["status"]["retry"]["attempts"] == 1

    async def again() -> bool:
        return bool((await place.get("a"))["status"]["retry"]["attempts"] == 2)

    await place.until(lambda: calls.read_text().count("pull nowhere.example/node:v1") >= 5)
    await place.step(10)
    await place.eventually(again)
    history = (await place.get("a"))["status"]["history"]
    assert [(entry["reason"], entry.get("count")) for entry in history] == [("CreationFailed", 2)]
    await place.delete("a")
    await place.gone("a")


async def test_a_config_kind_does_not_take(place: Place) -> None:
    """kind reads the whole config before it does anything, so what it is given is a config to kind."""
    command = bare(place, DOCKER.format(calls=place.standin.state / "docker-calls"))
    place.start(command=command)
    await place.create(kind_cluster("a", config={"nonsense": True}))
    obj = await place.says("a", "CreationFailed")
    assert "nonsense" in obj["status"]["failureMessage"]


async def patiently(place: Place, name: str) -> dict[str, Any]:
    """A real cluster takes minutes."""
    for _ in range(20):
        with suppress(AssertionError):
            return await place.ready(name)
    raise AssertionError(await place.get(name))


@pytest.mark.containers
@pytest.mark.usefixtures("engine")
async def test_a_real_cluster_from_its_creation_to_its_end(place: Place) -> None:
    image = os.environ.get(IMAGE) or NAME
    command = KindCommand(str(KIND))
    name = f"shoal-test-{os.getpid()}"
    place.start(command=command)
    try:
        await place.create(kind_cluster("a", name, image=image))
        obj = await patiently(place, "a")
        secret = await place.secret(f"{name}-config")
        assert secret is not None
        assert await owner_uid_of(base64.b64decode(secret["data"]["config"]).decode()) == obj["metadata"]["uid"]
        assert name in await command.clusters()
        await place.delete("a")
        await place.gone("a")
        assert name not in await command.clusters()
    finally:
        await place.stop()
        if name in await command.clusters():
            await command.delete(name, print)


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(tmp_path_factory.mktemp("kubernetes")) as server:
        server.start()
        yield server


async def defined(client: Client) -> None:
    """The definitions that `shoal crds` prints, as far as these loops need them; served."""
    for definition in map(yaml.safe_load, crd_manifests("root")):
        group = definition["spec"]["group"]
        if group in (capi.GROUP, embedded.GROUP, kindcluster.GROUP):
            await client.create(DEFINITIONS, definition)
            names = definition["spec"]["names"]
            await wait_until_served(
                client,
                GroupVersionResource(group, definition["spec"]["versions"][0]["name"], names["plural"]),
                SystemClock(),
            )


async def eventually(look: Callable[[], Awaitable[Any]]) -> None:
    for _ in range(6000):
        if await look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come")


@needs_kubernetes
async def test_shoal_controllers_at_a_real_kube_apiserver(
    kubernetes: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the stand-in for kind: what is real here is the API server."""
    client, standin = load(kubernetes.kubeconfig), Standin(tmp_path)
    await defined(client)
    for spec, message in (
        ({}, "spec.clusterName: Required value"),
        ({"clusterName": "a" * 65}, "spec.clusterName: Too long"),
        ({"clusterName": "a", "kubernetesVersion": "1.13"}, 'Unsupported value: "1.13"'),
    ):
        with pytest.raises(Invalid, match=message):
            await client.create(KIND_CLUSTERS, {**kind_cluster("bad"), "spec": spec}, "default")

    monkeypatch.setenv("PATH", f"{standin.path}:{os.environ['PATH']}")
    with shoal("controllers", "--kubeconfig", str(kubernetes.kubeconfig), "--loops", "capi,kind"):
        kinds = {"Cluster": CLUSTERS, "KINDCluster": KIND_CLUSTERS}
        for sample in ("test1", "test2", "nodes"):
            for obj in yaml.safe_load_all((EXAMPLES / f"{sample}.yaml").read_text()):
                await client.create(kinds[obj["kind"]], obj, "default")

        async def ready() -> bool:
            found, _ = await client.list_all(KIND_CLUSTERS)
            return [bool((obj.get("status") or {}).get("ready")) for obj in found] == [True] * 3

        async def secrets() -> set[str]:
            found, _ = await client.list_all(SECRETS, "default")
            return {secret["metadata"]["name"] for secret in found}

        await eventually(ready)
        assert standin.clusters() == ["team-a", "test1", "test2"]
        assert await secrets() == {"team-a-config", "team-a-kubeconfig", "test1-config", "test2-config"}
        await client.delete(CLUSTERS, "team-a", "default")
        for sample in ("test1", "test2"):
            await client.delete(KIND_CLUSTERS, sample, "default")

        async def gone() -> bool:
            return not (await client.list_all(KIND_CLUSTERS))[0] and not (await client.list_all(CLUSTERS))[0]

        await eventually(gone)
        assert standin.clusters() == []
        assert await secrets() == set()
    await client.close()
    await asyncio.sleep(0.25)  # TLS says goodbye after that
