"""A Worker whose cluster the kind provider creates; the kind command is a fake, and its cluster a logical one."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controllers import KindSettings, new_kind_controllers
from shoal.fleet.bundle.cluster_resolver import KIND_CLUSTERS
from shoal.fleet.bundle.objects import NAMESPACE
from shoal.fleet.bundle.remote_cluster import BUNDLE_RESOURCES
from shoal.fleet.resources import SECRETS, WORKERS
from tests.capi.kind.fake_kind import Standin
from tests.fleet.bundle.bundle_hub import DEPLOYMENTS, ELSEWHERE, Place, place, said
from tests.fleet.fleets import running

TEMPLATE = """apiVersion: v1
kind: Config
clusters:
- name: kind
  cluster: {{server: "{server}", certificate-authority-data: {authority}}}
contexts:
- name: kind
  context: {{cluster: kind, user: kind}}
current-context: kind
users:
- name: kind
  user: {{token: admin}}
"""


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path / "server") as found:
        yield found


async def test_its_cluster_is_made_gets_the_bundle_and_goes_with_it(made: Place, tmp_path: Path) -> None:
    inside = await made.world.cluster("east")
    standin = Standin(tmp_path / "kind")
    authority = base64.b64encode(made.world.server.authority.certificate).decode()
    standin.write("template", TEMPLATE.format(server=f"{ELSEWHERE}/clusters/east", authority=authority))
    standin.write("hold-create")
    kind = new_kind_controllers(made.hub, made.clock, KindSettings(), KindCommand(environment=standin.environment))
    async with running(kind), made.bundles():
        await made.worker("far", nodes=1)
        waiting = said(await made.says("far", "ClusterNotReady"))
        assert waiting[0] == "False"
        assert waiting[2].startswith("KINDCluster shoal-system/far: ")
        standin.unlink("hold-create")
        await made.installed("far", inside)
        assert standin.clusters() == ["far"]
        assert [node["role"] for node in standin.config("far")["nodes"]] == ["control-plane", "worker"]
        secret = await made.hub.get(SECRETS, "far-config", NAMESPACE)
        assert base64.b64decode(secret["data"]["config"]).decode() not in str(await made.get("far"))

        # Its cluster does not answer any more: it goes as a whole, nothing has to be taken out of it first.
        made.link.cut.add("east")
        await made.hub.delete(WORKERS, "far", NAMESPACE)
        await made.gone(made.hub, WORKERS, "far")
        assert standin.clusters() == []
        assert await made.world.is_gone(made.hub, KIND_CLUSTERS, "far", NAMESPACE)
        await inside.get(DEPLOYMENTS, "shoal-worker-far", NAMESPACE)


async def test_a_kind_cluster_of_somebody_else_is_left_alone(made: Place) -> None:
    theirs = {
        "apiVersion": "infrastructure.cluster-k8s.io/v1alpha1",
        "kind": "KINDCluster",
        "metadata": {"name": "far"},
        "spec": {"clusterName": "theirs"},
    }
    await made.hub.create(KIND_CLUSTERS, theirs, NAMESPACE)
    await made.worker("far")
    async with made.bundles():
        worker = await made.says("far", "ClusterTaken")
        assert said(worker)[2] == "KINDCluster shoal-system/far is not owned by this Worker"
        await made.hub.delete(WORKERS, "far", NAMESPACE)
        await made.gone(made.hub, WORKERS, "far")
        assert not await made.world.is_gone(made.hub, KIND_CLUSTERS, "far", NAMESPACE)


async def test_a_secret_that_is_not_of_its_kind_cluster_is_not_used(made: Place) -> None:
    inside = await made.cluster("east")
    found = await made.hub.get(SECRETS, "east-admin", NAMESPACE)
    planted = {"metadata": {"name": "far-config"}, "data": {"config": found["data"]["value"]}}
    await made.hub.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **planted}, NAMESPACE)
    await made.worker("far")
    async with made.bundles():
        await made.says("far", "ClusterNotReady")
        made.clock.step(10.0)
        await made.says("far", "ClusterNotReady")
        assert await made.world.is_gone(inside, BUNDLE_RESOURCES["Namespace"], NAMESPACE)
