"""Ownership of kind clusters: duplicates, foreign clusters, adoption, renames, and clusters created meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.capi.informers import SECRETS
from shoal.client.rest import GroupVersionResource
from shoal.kinds.clusterapi import kindcluster
from tests.capi.kind.kind_environment import Place, condition, kind_cluster
from tests.controlplane.world import world

Object = dict[str, Any]
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)

pytestmark = pytest.mark.anyio


async def test_the_first_has_the_name_and_the_second_gets_it_after(place: Place) -> None:
    await place.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await place.create(kind_cluster("first", "shared"))
    await place.ready("first")
    await place.create(kind_cluster("second", "shared"), "other")
    obj = await place.says("second", "NameTaken", namespace="other")
    message = "the kind cluster shared belongs to KINDCluster default/first; choose another clusterName"
    assert condition(obj)["message"] == message
    assert "cluster" not in obj["status"]
    await place.create(kind_cluster("third", "shared"), "other")
    await place.says("third", "NameTaken", namespace="other")
    # The end of one that never had it touches nothing.
    await place.delete("third", "other")
    await place.gone("third", "other")
    assert place.standin.calls("delete") == []
    await place.ready("first")
    await place.delete("first")
    await place.gone("first")
    await place.ready("second", "other")
    assert place.standin.calls("create") == ["create cluster shared"] * 2


async def test_of_two_that_come_at_once_the_older_has_the_name(still: Place) -> None:
    await still.create(kind_cluster("b", "shared"))
    await still.create(kind_cluster("a", "shared"))
    both = [await still.get(name) for name in ("a", "b")]
    order = sorted(both, key=lambda obj: (obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]))
    first, second = (obj["metadata"]["name"] for obj in order)
    still.start()
    await still.ready(first)
    await still.says(second, "NameTaken")
    assert still.standin.calls("create") == ["create cluster shared"]


async def test_a_foreign_cluster_is_neither_adopted_nor_deleted(place: Place) -> None:
    place.standin.make("a")
    await place.create(kind_cluster("a"))
    obj = await place.says("a", "ForeignCluster")
    assert condition(obj)["message"] == (
        "kind cluster a exists and was not created for this KINDCluster: delete it, choose another clusterName, or"
        ' take it over with the annotation infrastructure.cluster-k8s.io/adopt: "true"'
    )
    assert await place.secret("a-config") is None
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == ["a"]


async def test_a_foreign_cluster_is_adopted_when_asked_for(place: Place) -> None:
    place.standin.make("a")
    await place.create(kind_cluster("a"))
    await place.says("a", "ForeignCluster")
    await place.merge("a", {"metadata": {"annotations": {kindcluster.ADOPT_ANNOTATION: "true"}}})
    obj = await place.ready("a")
    assert obj["status"]["cluster"]["adopted"] is True
    assert await place.holds("a-config", "config", place.standin.kubeconfig("a"))
    assert place.standin.calls("create") == []
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == []


async def test_a_cluster_that_others_made_in_place_of_ours_is_left_alone(place: Place) -> None:
    await place.create(kind_cluster("a"))
    await place.ready("a")
    place.standin.remove("a")
    place.standin.make("a")
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == ["a"]
    assert await place.secret("a-config") is None


async def test_such_a_cluster_is_noticed_before_its_credentials_are_given_out(place: Place) -> None:
    await place.create(kind_cluster("a"))
    await place.ready("a")
    place.standin.remove("a")
    place.standin.make("a")
    await place.client.delete(SECRETS, "a-config", "default")
    await place.says("a", "ForeignCluster")
    assert await place.secret("a-config") is None


async def test_a_cluster_that_came_between_the_list_and_the_creation_is_not_ours(place: Place) -> None:
    place.standin.write("fail-create", 'node(s) already exist for a cluster with the name "a"')
    place.standin.write("fail-leaves")
    await place.create(kind_cluster("a"))
    await place.says("a", "AlreadyExists")
    await place.step(10)
    await place.says("a", "ForeignCluster")
    assert place.standin.calls("delete") == []
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == ["a"]


async def test_a_rename_is_refused(place: Place) -> None:
    await place.create(kind_cluster("a"))
    await place.ready("a")
    await place.merge("a", {"spec": {"clusterName": "b", "kubernetesVersion": "1.22"}})
    obj = await place.says("a", "ChangeRefused", "UpToDate")
    assert condition(obj, "UpToDate")["message"] == (
        "clusterName is 'b', the cluster was created with 'a'; kubernetesVersion is '1.22', the cluster was created"
        " with '1.21'; an existing cluster cannot be changed: revert the change, or set replacePolicy: Replace, which"
        " deletes it with everything in it and creates another"
    )
    assert obj["status"]["ready"] is True
    assert place.standin.clusters() == ["a"]
    assert await place.secret("a-config") is not None
    # The name it does not get is free for another.
    await place.create(kind_cluster("other", "b"))
    await place.ready("other")
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == ["b"]


async def test_a_rename_replaces_the_cluster_and_nothing_leaks(place: Place) -> None:
    await place.create(kind_cluster("a", replacePolicy="Replace"))
    await place.ready("a")
    await place.merge("a", {"spec": {"clusterName": "b"}})

    async def renamed() -> bool:
        obj = await place.get("a")
        return bool(obj["status"]["ready"] and obj["status"]["cluster"]["name"] == "b")

    await place.eventually(renamed)
    assert place.standin.clusters() == ["b"]
    assert await place.secret("a-config") is None
    assert await place.secret("b-config") is not None
    reasons = [entry["reason"] for entry in (await place.get("a"))["status"]["history"]]
    assert reasons == ["Created", "Ready", "Replacing", "Creating", "Created", "Replaced", "Ready"]


async def test_a_replacement_says_what_it_does_before_during_and_after(place: Place) -> None:
    workers = [{"role": "control-plane"}, {"role": "worker", "count": 2}]
    changes = "nodes are 1 control-plane, 2 worker, the cluster was created with 1 control-plane"
    await place.create(kind_cluster("a"))
    await place.ready("a")
    # Before: without a policy it is told what would happen.
    await place.merge("a", {"spec": {"nodes": workers}})
    obj = await place.says("a", "ChangeRefused", "UpToDate")
    assert condition(obj, "UpToDate")["message"].startswith(f"{changes}; an existing cluster cannot be changed")
    assert condition(obj)["status"] == "True"
    # During: deletion, then creation.
    place.standin.write("hold-delete")
    place.standin.write("hold-create")
    await place.merge("a", {"spec": {"replacePolicy": "Replace"}})
    obj = await place.says("a", "Replacing")
    assert condition(obj)["message"] == "Deleting cluster a, to create another one"
    assert condition(obj, "UpToDate")["message"] == f"Replacing cluster a: {changes}"
    assert obj["status"]["replacement"]["message"] == changes
    place.standin.unlink("hold-delete")
    obj = await place.says("a", "Creating")
    assert condition(obj)["message"] == "Creating cluster a in place of the one that was deleted"
    assert (condition(obj, "UpToDate")["status"], condition(obj, "UpToDate")["reason"]) == ("False", "Replacing")
    # After.
    place.standin.unlink("hold-create")
    obj = await place.ready("a")
    assert "replacement" not in obj["status"]
    assert condition(obj, "UpToDate")["status"] == "True"
    history = [(entry["reason"], entry["message"]) for entry in obj["status"]["history"]][2:]
    assert history == [
        ("Replacing", f"Replacing cluster a: {changes}; deleting cluster a with everything in it"),
        ("Creating", "Creating cluster a in place of the one that was deleted"),
        ("Created", "Cluster was successfully created"),
        ("Replaced", f"Cluster a was created in place of the former one: {changes}"),
        ("Ready", "Cluster a is ready"),
    ]


async def test_a_replacement_that_fails_goes_on_being_one(place: Place) -> None:
    await place.create(kind_cluster("a", replacePolicy="Replace"))
    await place.ready("a")
    place.standin.write("fail-create", "no such image")
    await place.merge("a", {"spec": {"image": "mine:2"}})
    obj = await place.says("a", "CreationFailed")
    assert condition(obj, "UpToDate")["reason"] == "Replacing"
    place.standin.unlink("fail-create")
    await place.step(10)
    obj = await place.ready("a")
    assert [entry["reason"] for entry in obj["status"]["history"]][-3:] == ["Created", "Replaced", "Ready"]


async def test_two_shoals_on_one_engine(place: Place, tmp_path: Path) -> None:
    async with world(tmp_path / "second", loops=False) as made:
        second = Place(made, place.standin)
        second.start()
        try:
            await place.create(kind_cluster("mine"))
            await second.create(kind_cluster("theirs"))
            await place.ready("mine")
            await second.ready("theirs")
            # The same name: one has it, and the other one says so.
            await second.create(kind_cluster("mine"))
            obj = await second.says("mine", "ForeignCluster")
            assert condition(obj)["message"].startswith(
                "kind cluster mine exists and was not created for this KINDCluster"
            )
            for each in (place, second):
                await each.step(60)
            await second.delete("mine")
            await second.gone("mine")
            await place.delete("mine")
            await place.gone("mine")
            assert place.standin.clusters() == ["theirs"]
            await second.ready("theirs")
        finally:
            await second.stop()
    assert place.standin.calls("delete") == ["delete cluster mine"]


async def test_two_shoals_that_create_one_name_at_once(place: Place, tmp_path: Path) -> None:
    """Neither deletes what the other makes, and one of them has it in the end."""
    place.standin.write("hold-step-1")
    async with world(tmp_path / "second", loops=False) as made:
        second = Place(made, place.standin)
        second.start()
        try:
            await place.create(kind_cluster("a"))
            await place.until(lambda: place.standin.calls("create") == ["create cluster a"])
            await second.create(kind_cluster("a"))
            obj = await second.says("a", "NameBusy")
            assert obj["status"]["failureMessage"] == (
                "Cluster cannot be created: another process on this machine is creating or deleting the kind cluster a"
            )
            place.standin.unlink("hold-step-1")
            await place.ready("a")
            await second.step(10)
            await second.says("a", "ForeignCluster")
            assert "cluster" not in (await second.get("a"))["status"]
        finally:
            await second.stop()
    assert place.standin.calls("create") == ["create cluster a"]
    assert place.standin.calls("delete") == []


async def test_a_new_version_replaces_the_cluster(place: Place) -> None:
    await place.create(kind_cluster("a", replacePolicy="Replace"))
    await place.ready("a")
    await place.merge("a", {"spec": {"kubernetesVersion": "1.22"}})
    await place.until(lambda: len(place.standin.calls("create")) == 2)
    await place.ready("a")
    assert place.standin.config("a")["nodes"][0]["image"] == "kindest/node:v1.22.0"


async def test_a_secret_of_somebody_else_is_not_written_over(place: Place) -> None:
    theirs = {"metadata": {"name": "a-config"}, "data": {"config": "eA=="}}
    await place.client.create(SECRETS, theirs, "default")
    await place.create(kind_cluster("a"))
    obj = await place.says("a", "SecretTaken")
    assert obj["status"]["failureMessage"] == "Secret a-config exists and was not created for this KINDCluster"
    assert await place.holds("a-config", "config", "x")
    await place.delete("a")
    await place.gone("a")
    assert await place.holds("a-config", "config", "x")
