"""Tests of garbage collection in a real server: dependents are deleted, wait or stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, config_map, fresh_cluster, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
HOLD = "example.com/hold"
NEVER = "00000000-0000-0000-0000-000000000000"

Object = dict[str, Any]


def reference(owner: Object, **fields: object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **fields,
    }


def make(cluster: Cluster, name: str, *owners: Object, finalizers: tuple[str, ...] = ()) -> Object:
    made: Object = cluster.post(MAPS, config_map(name, ownerReferences=list(owners), finalizers=list(finalizers))).ok()
    return made


def is_gone(cluster: Cluster, *names: str) -> bool:
    return all(cluster.get(f"{MAPS}/{name}").status == 404 for name in names)


def wait_collected(cluster: Cluster) -> None:
    """Waits until the collector has handled everything written before: the object written last was collected."""
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": NEVER}
    for _ in range(2):
        make(cluster, "last", absent)
        cluster.eventually(lambda: is_gone(cluster, "last"))


@pytest.fixture
def other(server: Server) -> Iterator[Cluster]:
    found = fresh_cluster(server)
    yield found
    found.close()


# --- background ---


def test_dependents_follow_their_owner(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    child = make(cluster, "child", reference(owner))
    make(cluster, "grandchild", reference(child))
    wait_collected(cluster)
    assert not is_gone(cluster, "child"), "an owner that is there holds its dependents"
    cluster.delete(f"{MAPS}/owner").ok()
    cluster.eventually(lambda: is_gone(cluster, "child", "grandchild"))


def test_many_dependents(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    for number in range(200):
        make(cluster, f"c{number}", reference(owner))
    cluster.delete(f"{MAPS}/owner").ok()
    cluster.eventually(lambda: not cluster.get(MAPS).ok()["items"])


def test_one_owner_of_two_is_enough_to_stay(cluster: Cluster) -> None:
    first, second = make(cluster, "first"), make(cluster, "second")
    make(cluster, "child", reference(first), reference(second))
    cluster.delete(f"{MAPS}/first").ok()
    kept = cluster.eventually(
        lambda: len(found := cluster.get(f"{MAPS}/child").ok()["metadata"]["ownerReferences"]) == 1 and found
    )
    assert kept == [reference(second)]


def test_what_is_made_with_an_owner_that_is_gone_goes(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    cluster.delete(f"{MAPS}/owner").ok()
    again = make(cluster, "owner")
    make(cluster, "child", reference(owner))
    cluster.eventually(lambda: is_gone(cluster, "child"))
    assert cluster.get(f"{MAPS}/owner").ok() == again, "a name is not a uid"


def test_custom_resources_own_and_are_owned(widgets: Cluster) -> None:
    owner = widgets.post(WIDGETS, widget("owner")).ok()
    child = make(widgets, "child", reference(owner))
    widgets.post(WIDGETS, widget("grandchild", ownerReferences=[reference(child)])).ok()
    widgets.delete(f"{WIDGETS}/owner").ok()
    widgets.eventually(lambda: is_gone(widgets, "child") and widgets.get(f"{WIDGETS}/grandchild").status == 404)


def test_a_namespaced_object_of_a_cluster_scoped_owner(cluster: Cluster) -> None:
    owner = cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "r"}}).ok()
    make(cluster, "child", reference(owner))
    cluster.delete("/apis/rbac.authorization.k8s.io/v1/clusterroles/r").ok()
    cluster.eventually(lambda: is_gone(cluster, "child"))


def test_finalizers_of_a_dependent_are_waited_for(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    make(cluster, "child", reference(owner), finalizers=(HOLD,))
    cluster.delete(f"{MAPS}/owner").ok()
    cluster.eventually(lambda: "deletionTimestamp" in cluster.get(f"{MAPS}/child").ok()["metadata"])
    cluster.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}}).ok()
    assert is_gone(cluster, "child")


# --- orphan ---


def test_orphans_stay_without_their_owner(cluster: Cluster) -> None:
    owner, other = make(cluster, "owner"), make(cluster, "other")
    make(cluster, "child", reference(owner))
    make(cluster, "shared", reference(owner), reference(other))
    cluster.delete(f"{MAPS}/owner?propagationPolicy=Orphan").ok()
    cluster.eventually(lambda: is_gone(cluster, "owner"))
    assert not cluster.get(f"{MAPS}/child").ok()["metadata"].get("ownerReferences")
    assert cluster.get(f"{MAPS}/shared").ok()["metadata"]["ownerReferences"] == [reference(other)]
    wait_collected(cluster)
    assert not is_gone(cluster, "child")


def test_orphaning_what_owns_nothing(cluster: Cluster) -> None:
    make(cluster, "owner")
    assert cluster.delete(f"{MAPS}/owner", {"orphanDependents": True}).ok()["metadata"]["finalizers"] == ["orphan"]
    cluster.eventually(lambda: is_gone(cluster, "owner"))


# --- foreground ---


def test_the_owner_waits_for_those_that_block_it(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    make(cluster, "child", reference(owner, blockOwnerDeletion=True), finalizers=(HOLD,))
    make(cluster, "free", reference(owner))
    cluster.delete(f"{MAPS}/owner?propagationPolicy=Foreground").ok()
    cluster.eventually(lambda: "deletionTimestamp" in cluster.get(f"{MAPS}/child").ok()["metadata"])
    cluster.eventually(lambda: is_gone(cluster, "free"))
    wait_collected(cluster)
    assert cluster.get(f"{MAPS}/owner").ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}}).ok()
    cluster.eventually(lambda: is_gone(cluster, "owner"))


def test_foreground_goes_down_the_line(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    child = make(cluster, "child", reference(owner, blockOwnerDeletion=True))
    make(cluster, "grandchild", reference(child, blockOwnerDeletion=True), finalizers=(HOLD,))
    cluster.delete(f"{MAPS}/owner?propagationPolicy=Foreground").ok()
    cluster.eventually(lambda: "deletionTimestamp" in cluster.get(f"{MAPS}/grandchild").ok()["metadata"])
    assert cluster.get(f"{MAPS}/child").ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.patch(f"{MAPS}/grandchild", {"metadata": {"finalizers": None}}).ok()
    cluster.eventually(lambda: is_gone(cluster, "owner", "child"))


def test_a_dependent_with_another_owner_lets_go(cluster: Cluster) -> None:
    owner, other = make(cluster, "owner"), make(cluster, "other")
    make(cluster, "shared", reference(owner, blockOwnerDeletion=True), reference(other))
    cluster.delete(f"{MAPS}/owner?propagationPolicy=Foreground").ok()
    cluster.eventually(lambda: is_gone(cluster, "owner"))
    assert cluster.get(f"{MAPS}/shared").ok()["metadata"]["ownerReferences"] == [reference(other)]


def test_a_second_thought_changes_the_policy(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    make(cluster, "child", reference(owner, blockOwnerDeletion=True), finalizers=(HOLD,))
    cluster.delete(f"{MAPS}/owner?propagationPolicy=Foreground").ok()
    assert cluster.delete(f"{MAPS}/owner").ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.delete(f"{MAPS}/owner?propagationPolicy=Background").ok()
    assert is_gone(cluster, "owner")


# --- circles, foreigners, the unknown ---


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_a_circle_is_no_obstacle(cluster: Cluster, policy: str) -> None:
    made = [make(cluster, f"c{number}") for number in range(3)]
    for number, obj in enumerate(made):
        owners = [reference(made[number - 1], blockOwnerDeletion=True)]
        cluster.patch(f"{MAPS}/{obj['metadata']['name']}", {"metadata": {"ownerReferences": owners}}).ok()
    wait_collected(cluster)
    assert not is_gone(cluster, "c0")
    cluster.delete(f"{MAPS}/c0?propagationPolicy={policy}").ok()
    cluster.eventually(lambda: is_gone(cluster, "c0", "c1", "c2"))


def test_an_object_that_owns_itself(cluster: Cluster) -> None:
    owner = make(cluster, "a")
    owners = [reference(owner, blockOwnerDeletion=True)]
    cluster.patch(f"{MAPS}/a", {"metadata": {"ownerReferences": owners}}).ok()
    cluster.delete(f"{MAPS}/a?propagationPolicy=Foreground").ok()
    cluster.eventually(lambda: is_gone(cluster, "a"))


def test_an_owner_in_another_namespace_is_none(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "away"}}).ok()
    owner = cluster.post("/api/v1/namespaces/away/configmaps", config_map("owner")).ok()
    make(cluster, "child", reference(owner))
    cluster.eventually(lambda: is_gone(cluster, "child"))
    cluster.get("/api/v1/namespaces/away/configmaps/owner").ok()


def test_an_owner_in_another_cluster_neither_holds_nor_takes(cluster: Cluster, other: Cluster) -> None:
    owner = make(other, "owner")
    make(cluster, "child", reference(owner))
    wait_collected(cluster)
    assert not is_gone(cluster, "child")
    other.delete(f"{MAPS}/owner").ok()
    wait_collected(other)
    wait_collected(cluster)
    assert not is_gone(cluster, "child")


def test_a_cluster_scoped_object_of_a_namespaced_owner_is_left_alone(cluster: Cluster) -> None:
    owner = make(cluster, "owner")
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    cluster.post(path, {"metadata": {"name": "r", "ownerReferences": [reference(owner)]}}).ok()
    cluster.delete(f"{MAPS}/owner").ok()
    wait_collected(cluster)
    cluster.get(f"{path}/r").ok()


def test_an_owner_of_a_kind_that_is_not_served_is_waited_for(cluster: Cluster) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": NEVER}
    make(cluster, "child", owner)
    wait_collected(cluster)
    assert not is_gone(cluster, "child"), "unknown is not gone"
    cluster.post(DEFINITIONS, widget_definition()).ok()
    cluster.eventually(lambda: is_gone(cluster, "child"))


@pytest.mark.usefixtures("impatient_namespaces")
def test_a_namespace_that_cannot_empty_says_why(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "stuck"}}).ok()
    maps = "/api/v1/namespaces/stuck/configmaps"
    owner = cluster.post(maps, config_map("owner")).ok()
    block = [reference(owner, blockOwnerDeletion=True)]
    cluster.post(maps, config_map("child", ownerReferences=block, finalizers=[HOLD])).ok()
    cluster.delete(f"{maps}/owner?propagationPolicy=Foreground").ok()
    cluster.delete("/api/v1/namespaces/stuck").ok()

    def waits() -> str:
        found = cluster.get("/api/v1/namespaces/stuck").ok()["status"].get("conditions") or ()
        messages = {condition["type"]: condition["message"] for condition in found}
        return str(messages.get("NamespaceFinalizersRemaining", ""))

    assert f"{HOLD} in 1 resource instances" in cluster.eventually(waits)
    cluster.patch(f"{maps}/child", {"metadata": {"finalizers": None}}).ok()
    cluster.eventually(lambda: cluster.get("/api/v1/namespaces/stuck").status == 404)
