"""A KINDCluster from creation to deletion, with a fake kind command."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from shoal.capi.informers import SECRETS
from shoal.kinds.clusterapi import kindcluster
from shoal.runtime.event_recorder import EVENTS
from tests.capi.kind.kind_environment import Place, condition, kind_cluster

Object = dict[str, Any]

pytestmark = pytest.mark.anyio


async def test_a_cluster_is_made_and_deleted(place: Place) -> None:
    made = await place.create(kind_cluster("test1"))
    obj = await place.ready("test1")
    status = obj["status"]
    assert (status["ready"], status["phase"]) == (True, "Provisioned")
    assert status["initialization"] == {"provisioned": True, "controlPlaneInitialized": True}
    assert status["observedGeneration"] == obj["metadata"]["generation"]
    assert condition(obj, "UpToDate")["status"] == "True"
    assert [entry["reason"] for entry in status["history"]] == ["Created", "Ready"]
    assert status["history"][0]["message"] == "Cluster was successfully created"
    assert obj["metadata"]["finalizers"] == ["kindclusters.infrastructure.cluster-k8s.io/cluster-finalizer"]
    assert obj["spec"]["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": 1}
    assert place.standin.config("test1") == {
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "name": "test1",
        "nodes": [
            {
                "role": "control-plane",
                "image": "kindest/node:v1.21.1",
                "labels": {"shoal.dev/kindcluster-uid": made["metadata"]["uid"]},
            }
        ],
    }
    secret = await place.secret("test1-config")
    assert secret is not None
    assert base64.b64decode(secret["data"]["config"]).decode() == place.standin.kubeconfig("test1")
    await place.delete("test1")
    await place.gone("test1")
    assert await place.secret("test1-config") is None
    assert place.standin.clusters() == []

    async def all_told() -> bool:
        events, _ = await place.client.list_all(EVENTS, "default")
        told = [(each["type"], each["reason"]) for each in events if each["involvedObject"]["name"] == "test1"]
        return sorted(told) == [
            ("Normal", reason) for reason in ("Created", "Creating", "Deleted", "Deleting", "Ready")
        ]

    await place.eventually(all_told)


async def test_nothing_is_called_without_a_kind_cluster(place: Place) -> None:
    for _ in range(3):
        await place.step(60)
    assert place.standin.calls() == []


async def test_progress_is_told_and_others_go_on(place: Place) -> None:
    place.standin.write("hold-create")
    await place.create(kind_cluster("one"))

    async def preparing() -> bool:
        obj = await place.get("one")
        return "Preparing nodes" in (obj.get("status") or {}).get("progress", "")

    await place.eventually(preparing)
    obj = await place.get("one")
    assert (obj["status"]["phase"], condition(obj)["reason"]) == ("Provisioning", "Creating")
    # Others are answered meanwhile; of three that are made, two are at a time.
    await place.create(kind_cluster("bad", nodes=[{"role": "worker"}]))
    await place.says("bad", "InvalidSpec")
    await place.create(kind_cluster("two"))
    await place.create(kind_cluster("three"))
    await place.until(lambda: len(place.standin.clusters()) == 2)

    async def waiting() -> bool:
        found = [(await place.get(name)).get("status") or {} for name in ("two", "three")]
        return any("Waiting for other clusters" in status.get("progress", "") for status in found)

    await place.eventually(waiting)
    assert len(place.standin.calls("create")) == 2
    place.standin.unlink("hold-create")
    for name in ("one", "two", "three"):
        assert "progress" not in (await place.ready(name))["status"]


async def test_nodes_images_and_networking_reach_kind(place: Place) -> None:
    nodes = [
        {"role": "control-plane", "extraPortMappings": [{"containerPort": 80, "hostPort": 8080}]},
        {"role": "worker", "count": 2, "image": "mine:1", "labels": {"disk": "fast"}},
    ]
    networking = {"ipFamily": "dual", "disableDefaultCNI": True}
    await place.create(kind_cluster("a", nodes=nodes, networking=networking, kubernetesVersion="1.36"))
    uid = (await place.ready("a"))["metadata"]["uid"]
    config = place.standin.config("a")
    mark = {kindcluster.OWNER_NODE_LABEL: uid}
    worker = {"role": "worker", "image": "mine:1", "labels": {"disk": "fast", **mark}}
    port = {"containerPort": 80, "hostPort": 8080}
    assert config["networking"] == networking
    assert config["nodes"] == [
        {"role": "control-plane", "image": "kindest/node:v1.36.4", "extraPortMappings": [port], "labels": mark},
        worker,
        worker,
    ]


async def test_a_failed_creation_is_told_and_tried_again(place: Place) -> None:
    place.standin.write("fail-create", "failed to pull image: no such image")
    place.standin.write("fail-leaves")
    await place.create(kind_cluster("a"))
    obj = await place.says("a", "CreationFailed")
    message = (
        "Cluster cannot be created: kind create cluster: failed to create cluster: failed to pull image: no such image"
    )
    assert obj["status"]["failureMessage"] == message
    assert (obj["status"]["phase"], obj["status"]["ready"]) == ("Failed", False)
    await place.until(lambda: place.standin.clusters() == [])
    for attempt, pause in enumerate((10, 20, 40), 2):
        await place.step(pause - 1)
        assert len(place.standin.calls("create")) == attempt - 1
        await place.step(1)

        async def tried(attempt: int = attempt) -> bool:
            return bool((await place.get("a"))["status"]["retry"]["attempts"] == attempt)

        await place.eventually(tried)

    async def removed() -> Object | None:
        obj = await place.get("a")
        return obj if "cluster" not in obj["status"] else None

    left = await place.eventually(removed)
    assert left is not None
    assert (left["status"]["failureMessage"], condition(left)["reason"]) == (message, "CreationFailed")
    history = (await place.get("a"))["status"]["history"]
    assert [(entry["reason"], entry.get("count")) for entry in history] == [("CreationFailed", 4)]
    place.standin.unlink("fail-create")
    # A change is tried at once.
    await place.merge("a", {"spec": {"image": "other:1"}})
    obj = await place.ready("a")
    assert "failureMessage" not in obj["status"]
    assert "retry" not in obj["status"]


async def test_deleted_in_the_middle_of_its_creation(place: Place) -> None:
    place.standin.write("hold-create")
    await place.create(kind_cluster("a"))
    await place.until(lambda: place.standin.clusters() == ["a"])
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == []
    assert place.standin.calls("delete") == ["delete cluster a"]


async def test_a_cluster_that_cannot_be_deleted_keeps_the_object(place: Place) -> None:
    await place.create(kind_cluster("a"))
    await place.ready("a")
    place.standin.write("fail-delete", "device busy")
    await place.delete("a")
    obj = await place.says("a", "DeletionFailed")
    assert obj["status"]["phase"] == "Deleting"
    assert obj["status"]["failureMessage"].endswith("device busy")
    place.standin.unlink("fail-delete")
    await place.step(10)
    await place.gone("a")
    assert place.standin.clusters() == []


async def test_a_cluster_deleted_behind_our_back_is_made_anew(place: Place) -> None:
    await place.create(kind_cluster("a"))
    first = (await place.ready("a"))["status"]["cluster"]["id"]
    before = place.standin.kubeconfig("a")
    place.standin.remove("a")
    await place.step(60)

    async def anew() -> Object | None:
        obj = await place.get("a")
        return obj if obj["status"]["ready"] and obj["status"]["cluster"]["id"] != first else None

    obj = await place.eventually(anew)
    assert obj is not None
    assert [entry["reason"] for entry in obj["status"]["history"]][2:] == ["ClusterLost", "Created", "Ready"]
    assert place.standin.kubeconfig("a") != before
    await place.eventually(lambda: place.holds("a-config", "config", place.standin.kubeconfig("a")))


async def test_an_engine_that_is_down_is_no_lost_cluster(place: Place) -> None:
    await place.create(kind_cluster("a"))
    made = (await place.ready("a"))["status"]["cluster"]
    place.standin.write("down")
    await place.step(60)
    obj = await place.says("a", "EngineUnavailable")
    assert condition(obj)["status"] == "Unknown"
    assert (obj["status"]["phase"], obj["status"]["cluster"]) == ("Unknown", made)
    assert "Cannot connect to the Docker daemon" in obj["status"]["failureMessage"]
    calls = len(place.standin.calls())
    await place.step(60)
    await place.until(lambda: len(place.standin.calls()) > calls)
    place.standin.unlink("down")
    await place.step(60)
    await place.ready("a")
    assert len(place.standin.calls("create")) == 1


async def test_an_engine_that_is_killed_halfway_through_a_creation(place: Place) -> None:
    place.standin.write("hold-step-5")
    await place.create(kind_cluster("a"))
    await place.says("a", "InProgress", "CNIInstalled")
    place.standin.write("down")
    place.standin.unlink("hold-step-5")
    obj = await place.says("a", "EngineUnavailable")
    assert obj["status"]["failureMessage"].startswith("Cluster cannot be created: the container engine does not answer")
    assert obj["status"]["cluster"]["state"] == "Removing"
    assert condition(obj, "CNIInstalled")["reason"] == "Failed"
    for _ in range(3):
        await place.step(60)
    assert place.standin.clusters() == ["a"]
    place.standin.unlink("down")
    await place.step(60)
    await place.ready("a")
    assert place.standin.is_complete("a")
    assert place.standin.calls("create") == ["create cluster a"] * 2
    assert place.standin.calls("delete") == ["delete cluster a"]


@pytest.mark.parametrize(
    "text",
    [
        "docker: Error response from daemon: mkdir /var/lib/docker/overlay2/x: no space left on device.",
        "failed to write kubeconfig: write /tmp/shoal-kind-x/kubeconfig: disk quota exceeded\nCommand Output: exit 1",
    ],
)
async def test_a_disk_that_is_full_is_told_and_creations_are_tried_again(place: Place, text: str) -> None:
    place.standin.write("fail-create", text)
    place.standin.write("fail-leaves")
    await place.create(kind_cluster("a"))
    obj = await place.says("a", "NoSpaceLeft")
    assert obj["status"]["failureMessage"].startswith(
        "Cluster cannot be created: a disk is full, make room on it: kind create cluster: failed to create cluster: "
    )
    assert [entry["reason"] for entry in obj["status"]["history"]] == ["NoSpaceLeft"]
    await place.until(lambda: place.standin.clusters() == [])
    place.standin.unlink("fail-create")
    await place.step(10)
    await place.ready("a")
    assert place.standin.clusters() == ["a"]


async def test_secrets_that_are_lost_or_changed_come_back(place: Place) -> None:
    await place.create(kind_cluster("a"))
    await place.ready("a")
    text = place.standin.kubeconfig("a")
    await place.client.delete(SECRETS, "a-config", "default")
    await place.eventually(lambda: place.holds("a-config", "config", text))
    await place.client.merge_patch(SECRETS, "a-config", {"data": {"config": "eA=="}}, "default")
    await place.eventually(lambda: place.holds("a-config", "config", text))
    label = {"metadata": {"labels": {kindcluster.OWNER_UID_LABEL: None}}}
    await place.client.merge_patch(SECRETS, "a-config", label, "default")

    async def labelled() -> bool:
        found = await place.secret("a-config")
        return found is not None and kindcluster.OWNER_UID_LABEL in (found["metadata"].get("labels") or {})

    await place.eventually(labelled)


async def test_what_to_install_is_said(still: Place) -> None:
    docker = still.standin.program.with_name("docker")
    docker.rename(docker.with_name("away"))
    still.start()
    await still.create(kind_cluster("a"))
    obj = await still.says("a", "EngineNotFound")
    assert condition(obj)["message"] == (
        "no container engine was found: install Docker (https://docs.docker.com/engine/install/), Podman or nerdctl"
        " where Shoal runs"
    )
    still.standin.program.unlink()
    await still.step(60)
    obj = await still.says("a", "KindNotFound")
    assert "install kind (https://kind.sigs.k8s.io" in obj["status"]["failureMessage"]
    assert [entry["reason"] for entry in obj["status"]["history"]] == ["EngineNotFound", "KindNotFound"]
    await still.delete("a")
    await still.gone("a")


async def test_paused_objects_are_left_alone(place: Place) -> None:
    obj = kind_cluster("a")
    obj["metadata"]["annotations"] = {"cluster.x-k8s.io/paused": ""}
    await place.create(obj)
    found = await place.says("a", "Paused", "Paused")
    assert "finalizers" not in found["metadata"]
    assert place.standin.calls() == []
    await place.merge("a", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}})
    await place.ready("a")
