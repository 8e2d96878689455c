"""A Cluster of Cluster API on a KINDCluster: ownership, endpoint, kubeconfig, pause, deletion in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.capi.informers import CLUSTERS, SECRETS
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from tests.capi.kind.fake_kind import Standin
from tests.capi.kind.kind_environment import Place, condition, kind_cluster
from tests.capi.kind.test_kinds import EXAMPLES
from tests.controlplane.world import world

Object = dict[str, Any]

pytestmark = pytest.mark.anyio


async def apply(place: Place) -> None:
    for obj in yaml.safe_load_all((EXAMPLES / "nodes.yaml").read_text()):
        await place.client.create(CLUSTERS if obj["kind"] == "Cluster" else KIND_CLUSTERS, obj, "default")


async def cluster(place: Place) -> Object:
    return await place.client.get(CLUSTERS, "team-a", "default")


async def test_the_example_becomes_a_cluster_and_goes(still: Place) -> None:
    still.start(core=True)
    await apply(still)
    await still.ready("team-a")

    async def provisioned() -> Object | None:
        found = await cluster(still)
        return found if (found.get("status") or {}).get("phase") == "Provisioned" else None

    found = await still.eventually(provisioned)
    assert found is not None
    assert found["spec"]["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": 1}
    await still.eventually(lambda: still.holds("team-a-kubeconfig", "value", still.standin.kubeconfig("team-a")))
    secret = await still.secret("team-a-kubeconfig")
    assert secret is not None
    assert secret["type"] == "cluster.x-k8s.io/secret"
    assert secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "team-a"
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "Cluster"
    assert await still.secret("team-a-config") is not None
    config = still.standin.config("team-a")
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker"]
    assert config["featureGates"] == {"InPlacePodVerticalScaling": True}
    await still.client.delete(CLUSTERS, "team-a", "default")
    await still.gone("team-a", kind=CLUSTERS)
    await still.gone("team-a")
    assert still.standin.clusters() == []
    assert (await still.client.list_all(SECRETS, "default"))[0] == []


async def test_the_cluster_says_what_is_missing(still: Place) -> None:
    still.standin.program.unlink()
    still.start(core=True)
    await apply(still)

    async def told() -> Object | None:
        found = condition(await cluster(still), "InfrastructureReady")
        return found if found.get("reason") == "KindNotFound" else None

    found = await still.eventually(told)
    assert found is not None
    assert found["status"] == "False"
    assert "install kind" in found["message"]


async def test_every_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no kind, with what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    async with world(tmp_path / "server") as made:
        place = Place(made, Standin(tmp_path / "kind"))
        await place.create(kind_cluster("a"))
        await place.says("a", "KindNotFound")
        await place.delete("a")
        await place.gone("a")


async def test_a_paused_cluster_holds_its_kind_cluster(still: Place) -> None:
    still.start(core=True)
    await apply(still)
    await still.ready("team-a")
    await still.client.merge_patch(CLUSTERS, "team-a", {"spec": {"paused": True}}, "default")
    await still.says("team-a", "Paused", "Paused")
    await still.merge("team-a", {"spec": {"kubernetesVersion": "1.35"}})
    await still.step(60)
    await still.until(lambda: still.standin.calls()[-1] == "get clusters")
    assert len(still.standin.calls("create")) == 1
    await still.client.merge_patch(CLUSTERS, "team-a", {"spec": {"paused": False}}, "default")
    await still.until(lambda: len(still.standin.calls("create")) == 2)
    await still.ready("team-a")
