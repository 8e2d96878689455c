"""ManagedClusters with infrastructure kind: from the schedule to the end, with a stand-in for kind."""

from __future__ import annotations

import base64

import pytest
import yaml

from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS, WORKERS
from shoal.objects.errors import Invalid, NotFound
from tests.fleet.fleets import condition, eventually, gone
from tests.fleet.kind.place import KIND_CLUSTERS, NODES, KindPlace

pytestmark = pytest.mark.anyio


async def test_from_creation_to_deletion(place: KindPlace) -> None:
    await place.create("east", version="v1.36.4", nodes=3)
    obj = await place.running("east")
    assert obj["status"]["assignedWorker"] == "worker-1"
    assert obj["status"]["version"].startswith("v1.36.4")
    (name,) = place.standin.clusters()
    assert name.startswith("east-")
    config = place.standin.config(name)
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker"]
    assert {node["image"] for node in config["nodes"]} == {"kindest/node:v1.36.4"}

    # The certificate of kind's administrator stays at the worker.
    text = await place.kubeconfig("east")
    (user,) = yaml.safe_load(text)["users"]
    assert set(user["user"]) == {"token"}
    assert yaml.safe_load(text)["clusters"][0]["cluster"]["server"].endswith("/managedclusters/default/east")
    hub_secrets, _ = await place.admin.list_all(SECRETS)
    certificate = place.standin.kubeconfig(name).partition("client-key-data: ")[2][:40]
    decoded = [base64.b64decode(value) for each in hub_secrets for value in (each.get("data") or {}).values()]
    assert not any(certificate.encode() in value for value in decoded)

    await place.admin.delete(MANAGED_CLUSTERS, "east", "default")
    await eventually(lambda: gone(place.admin, MANAGED_CLUSTERS, "east"))
    assert place.standin.clusters() == []
    with pytest.raises(NotFound):
        await place.own.get(SECRETS, "east-kind-access", "default")


async def test_its_nodes_are_counted(place: KindPlace) -> None:
    await place.create("east", nodes=2)
    await place.running("east")
    assert condition(await place.get("east"), "NodesReady")["message"] == "0 of 2 nodes are ready"
    for name in ("one", "two"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await place.inside.create(NODES, node)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        await place.inside.merge_patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")
    await place.says("east", "NodesReady", "NodesReady")
    status = (await place.get("east"))["status"]
    assert status["nodes"] == 2
    assert status["nodePools"] == [{"name": "default", "nodes": 2, "readyNodes": 2}]


async def test_a_change_is_refused_until_the_user_asks_for_a_replacement(place: KindPlace) -> None:
    await place.create("east", nodes=1)
    await place.running("east")
    (name,) = place.standin.clusters()
    before = place.standin.kubeconfig(name)
    await place.merge("east", nodes=2)
    refused = await place.says("east", "Upgraded", "ReplacementRefused")
    assert refused["message"] == (
        "a kind cluster cannot be changed in place: revert the change, or set spec.replacePolicy: Replace, which "
        "deletes the cluster with all its content (nodes are 1 control-plane, 1 worker, the cluster was created with "
        "1 control-plane)"
    )
    obj = await place.running("east")
    assert [error["reason"] for error in obj["status"]["errors"]] == ["ReplacementRefused"]
    assert place.standin.kubeconfig(name) == before
    assert len(place.standin.calls("create cluster")) == 1

    await place.merge("east", replacePolicy="Replace")
    await place.says("east", "Upgraded", "UpToDate")
    assert len(place.standin.calls("create cluster")) == 2
    assert [node["role"] for node in place.standin.config(name)["nodes"]] == ["control-plane", "worker"]
    assert "errors" not in (await place.running("east"))["status"]


async def test_an_engine_that_does_not_answer(place: KindPlace) -> None:
    await place.worker_says("KindAvailable", "EngineAnswers")
    worker = await place.admin.get(WORKERS, "worker-1", "shoal-system")
    assert worker["spec"]["provides"] == ["embedded", "kind"]
    kind = worker["status"]["kind"]
    assert int(kind["cpu"]) >= 1
    assert kind["memory"].endswith("Mi")
    assert "v1.36.4" in kind["versions"]
    place.standin.write("down")
    await place.create("east")
    await place.says("east", "Ready", "EngineUnavailable")
    place.standin.unlink("down")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodePools": [{"name": "gpu"}]}, "spec.nodePools: Forbidden: a kind cluster has nodes of one size"),
        ({"limits": {"objects": 5}}, "spec.limits: Forbidden: a kind cluster has an API server of its own"),
        ({"keys": {"generation": 2}}, "spec.keys: Forbidden: Shoal does not rotate the keys of a kind cluster"),
        ({"provisioner": {"planner": "karpenter"}}, "spec.provisioner: Forbidden: Shoal does not buy nodes"),
        ({"endpoint": {"type": "Port"}}, "spec.endpoint.type: Forbidden: a kind cluster has no port of the hub"),
        ({"onWorkerLost": "Move"}, "spec.onWorkerLost: Forbidden: a kind cluster cannot be moved"),
        ({"nodes": 65}, "spec.nodes: Forbidden: a kind cluster has at most 64 nodes"),
        ({"version": "v1.99.0"}, 'spec.version: Unsupported value: "v1.99.0"'),
    ],
)
async def test_what_a_kind_cluster_does_not_have(place: KindPlace, spec: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message.replace("(", r"\(")):
        await place.create("east", **spec)


async def test_the_infrastructure_stays(place: KindPlace) -> None:
    await place.create("east")
    await place.running("east")
    with pytest.raises(
        Invalid, match=r"spec.infrastructure: Forbidden: it cannot be changed when a Worker is assigned"
    ):
        await place.merge("east", infrastructure="embedded")


async def test_it_stays_where_it_is(place: KindPlace) -> None:
    await place.create("east")
    await place.running("east")
    await place.admin.merge_patch(WORKERS, "worker-1", {"spec": {"drain": True}}, "shoal-system")
    movable = await place.says("east", "Movable", "InfrastructureNotMovable")
    assert movable["message"] == "clusters with infrastructure kind cannot be moved"


async def test_the_kind_cluster_has_the_name_of_no_other_hub(place: KindPlace) -> None:
    await place.create("east")
    await place.running("east")
    kind_cluster = await place.own.get(KIND_CLUSTERS, "east", "default")
    (name,) = place.standin.clusters()
    assert kind_cluster["spec"]["clusterName"] == name
    assert kind_cluster["spec"]["replacePolicy"] == "Refuse"
