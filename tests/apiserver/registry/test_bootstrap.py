"""Bootstrap objects of a logical cluster: present from the first read, ordinary objects from the first write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving import Cluster, Server, fresh_cluster

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
SPACES = "/api/v1/namespaces"


def names(cluster: Cluster, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.get(path).ok()["items"]}


def test_a_fresh_cluster_has_namespaces_and_roles(cluster: Cluster) -> None:
    assert names(cluster, SPACES) == {"default", "kube-node-lease", "kube-public", "kube-system"}
    assert {"admin", "edit", "view", "cluster-admin", "system:discovery"} <= names(cluster, ROLES)
    assert {"cluster-admin", "system:discovery"} <= names(cluster, BINDINGS)
    assert len(names(cluster, ROLES)) > 10


def test_a_cluster_of_workloads_has_the_service_of_its_api(server: Server) -> None:
    cluster = fresh_cluster(server, profile="cluster")
    assert cluster.get("/api/v1/namespaces/default/services/kubernetes").ok()["spec"]["clusterIP"] == "10.0.0.1"
    assert names(cluster, "/api/v1/services") == {"kubernetes"}
    (subset,) = cluster.get("/api/v1/namespaces/default/endpoints/kubernetes").ok()["subsets"]
    assert (subset["addresses"], subset["ports"][0]["port"]) == ([{"ip": "127.0.0.1"}], server.port)
    (found,) = cluster.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices").ok()["items"]
    assert (found["endpoints"][0]["addresses"], found["ports"][0]["port"]) == (["127.0.0.1"], server.port)
    assert names(cluster, "/apis/networking.k8s.io/v1/servicecidrs") == {"kubernetes"}
    cluster.close()


def test_it_took_no_writes(cluster: Cluster) -> None:
    before = cluster.get(ROLES).ok()["metadata"]["resourceVersion"]
    cluster.get(f"{ROLES}/view").ok()
    cluster.get(SPACES).ok()
    assert cluster.get(ROLES).ok()["metadata"]["resourceVersion"] == before


def test_each_has_what_an_object_has(cluster: Cluster) -> None:
    space = cluster.get(f"{SPACES}/default").ok()
    assert space["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert space["metadata"]["uid"]
    assert space["metadata"]["creationTimestamp"].endswith("Z")
    assert space["metadata"]["resourceVersion"].isdigit()
    assert (space["spec"], space["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert cluster.get(f"{SPACES}/default").ok() == space


def test_uids_differ_from_cluster_to_cluster(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    uids = {c.get(f"{SPACES}/default").ok()["metadata"]["uid"] for c in (cluster, other)}
    other.close()
    assert len(uids) == 2


def test_aggregated_roles_are_filled(cluster: Cluster) -> None:
    view = cluster.get(f"{ROLES}/view").ok()
    assert view["aggregationRule"]
    assert any("configmaps" in rule.get("resources", ()) for rule in view["rules"])


def test_the_first_update_is_a_modification(cluster: Cluster) -> None:
    before = cluster.get(f"{ROLES}/view").ok()
    revision = cluster.get(ROLES).ok()["metadata"]["resourceVersion"]
    with cluster.watch(f"{ROLES}?resourceVersion={revision}") as watch:
        new = cluster.patch(f"{ROLES}/view", {"metadata": {"labels": {"mine": "yes"}}}).ok()
        event = watch.next()
    assert event == {"type": "MODIFIED", "object": new}
    assert new["metadata"]["uid"] == before["metadata"]["uid"]
    assert new["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]
    assert new["metadata"]["labels"]["mine"] == "yes"
    assert new["metadata"]["labels"].items() >= before["metadata"]["labels"].items()


def test_an_update_carries_the_revision_that_was_read(cluster: Cluster) -> None:
    role = cluster.get(f"{ROLES}/edit").ok()
    role["metadata"]["annotations"] = {"a": "b"}
    cluster.put(f"{ROLES}/edit", role).ok()
    assert cluster.put(f"{ROLES}/edit", role).status == 409


def test_a_deletion_stays(cluster: Cluster) -> None:
    revision = cluster.get(ROLES).ok()["metadata"]["resourceVersion"]
    with cluster.watch(f"{ROLES}?resourceVersion={revision}") as watch:
        cluster.delete(f"{ROLES}/view").ok()
        event = watch.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "view")
    assert cluster.get(f"{ROLES}/view").status == 404
    assert "view" not in names(cluster, ROLES)
    assert cluster.delete(f"{ROLES}/view").status == 404


def test_a_deleted_one_can_be_made_anew(cluster: Cluster) -> None:
    old = cluster.get(f"{ROLES}/view").ok()
    cluster.delete(f"{ROLES}/view").ok()
    made = cluster.post(ROLES, {"metadata": {"name": "view"}, "rules": []}).ok()
    assert made["metadata"]["uid"] != old["metadata"]["uid"]
    assert cluster.get(f"{ROLES}/view").ok() == made
    cluster.delete(f"{ROLES}/view").ok()
    assert cluster.get(f"{ROLES}/view").status == 404


def test_one_that_was_changed_can_be_deleted(cluster: Cluster) -> None:
    cluster.patch(f"{ROLES}/view", {"metadata": {"labels": {"mine": "yes"}}}).ok()
    cluster.delete(f"{ROLES}/view").ok()
    assert cluster.get(f"{ROLES}/view").status == 404


def test_the_name_is_taken(cluster: Cluster) -> None:
    answer = cluster.post(ROLES, {"metadata": {"name": "view"}, "rules": []})
    assert (answer.status, answer["reason"]) == (409, "AlreadyExists")


def test_changes_stay_in_their_cluster(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    cluster.delete(f"{ROLES}/view").ok()
    cluster.patch(f"{ROLES}/edit", {"metadata": {"labels": {"mine": "yes"}}}).ok()
    assert other.get(f"{ROLES}/view").status == 200
    assert "mine" not in other.get(f"{ROLES}/edit").ok()["metadata"]["labels"]
    other.close()


def test_an_older_list_shows_them_as_they_were(cluster: Cluster) -> None:
    revision = cluster.get(ROLES).ok()["metadata"]["resourceVersion"]
    before = cluster.get(f"{ROLES}?resourceVersion={revision}&resourceVersionMatch=Exact").ok()["items"]
    cluster.delete(f"{ROLES}/view").ok()
    cluster.patch(f"{ROLES}/edit", {"metadata": {"labels": {"mine": "yes"}}}).ok()
    after = cluster.get(f"{ROLES}?resourceVersion={revision}&resourceVersionMatch=Exact").ok()["items"]
    assert before == after


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(cluster: Cluster, name: str) -> None:
    answer = cluster.delete(f"{SPACES}/{name}")
    assert (answer.status, answer["message"]) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


def test_they_page_like_others(cluster: Cluster) -> None:
    expected = [item["metadata"]["name"] for item in cluster.get(ROLES).ok()["items"]]
    found, token = [], ""
    while True:
        page = cluster.get(f"{ROLES}?limit=10&continue={token}").ok()
        found += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == expected


def test_a_restart_keeps_it_all(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    cluster = fresh_cluster(first)
    default = cluster.get(f"{SPACES}/default").ok()
    rules = cluster.get(f"{ROLES}/edit").ok()["rules"]
    cluster.delete(f"{ROLES}/view").ok()
    cluster.eventually(lambda: cluster.get(f"{ROLES}/edit").ok()["rules"] != rules)  # it aggregates those of view
    changed = cluster.patch(f"{ROLES}/edit", {"metadata": {"labels": {"mine": "yes"}}}).ok()
    cluster.close()
    first.stop()
    second = Server(tmp_path / "data")
    again = Cluster(second, cluster.name)
    try:
        assert again.get(f"{ROLES}/view").status == 404
        assert again.get(f"{ROLES}/edit").ok() == changed
        assert again.get(f"{SPACES}/default").ok() == default
        again.post(ROLES, {"metadata": {"name": "view"}, "rules": []}).ok()
    finally:
        again.close()
        second.stop()
