"""Namespaces: lifecycle, and the controller that empties them before deletion."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import Cluster, Server, config_map, fresh_cluster, widget

pytestmark = pytest.mark.usefixtures("impatient_namespaces")

SPACES = "/api/v1/namespaces"
HOLD = "example.com/hold"


@pytest.fixture
def space(widgets: Cluster) -> str:
    widgets.post(SPACES, {"metadata": {"name": "n"}}).ok()
    return "/api/v1/namespaces/n"


def conditions(namespace: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    found = namespace["status"].get("conditions", ())
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in found}


def test_a_namespace_starts_active(cluster: Cluster) -> None:
    made = cluster.post(SPACES, {"metadata": {"name": "n", "labels": {"a": "b"}}}).ok()
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}


def test_its_name_label_cannot_be_lost(cluster: Cluster) -> None:
    cluster.post(SPACES, {"metadata": {"name": "n"}}).ok()
    new = cluster.patch(f"{SPACES}/n", {"metadata": {"labels": None}}).ok()
    assert new["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}


def test_its_name_is_a_label(cluster: Cluster) -> None:
    answer = cluster.post(SPACES, {"metadata": {"name": "a.b"}})
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].endswith('metadata.name: Invalid value: "a.b": must not contain dots')


def test_an_empty_namespace_goes(widgets: Cluster, space: str) -> None:
    marked = widgets.delete(space).ok()
    assert marked["kind"] == "Namespace"
    assert marked["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in marked["metadata"]
    widgets.eventually(lambda: widgets.get(space).status == 404)


def test_its_content_goes_first(widgets: Cluster, space: str) -> None:
    widgets.post(f"{space}/configmaps", config_map("a")).ok()
    widgets.post("/apis/example.com/v1/namespaces/n/widgets", widget("w")).ok()
    widgets.post("/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles", {"metadata": {"name": "r"}}).ok()
    widgets.delete(space).ok()
    widgets.eventually(lambda: widgets.get(space).status == 404)
    widgets.post(SPACES, {"metadata": {"name": "n"}}).ok()
    assert widgets.get(f"{space}/configmaps").ok()["items"] == []
    assert widgets.get("/apis/example.com/v1/namespaces/n/widgets").ok()["items"] == []


def test_a_terminating_namespace_takes_nothing_new(widgets: Cluster, space: str) -> None:
    widgets.post("/apis/example.com/v1/namespaces/n/widgets", widget("w", finalizers=[HOLD])).ok()
    widgets.delete(space).ok()
    answer = widgets.post(f"{space}/configmaps", config_map("a"))
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'configmaps "a" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert answer["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]
    held = "/apis/example.com/v1/namespaces/n/widgets/w"
    widgets.patch(held, {"spec": {"size": 3}}).ok()
    widgets.patch(held, {"metadata": {"finalizers": None}}).ok()
    widgets.eventually(lambda: widgets.get(space).status == 404)


def test_what_holds_it_is_told(widgets: Cluster, space: str) -> None:
    held = "/apis/example.com/v1/namespaces/n/widgets"
    widgets.post(held, widget("a", finalizers=[HOLD])).ok()
    widgets.post(held, widget("b", finalizers=[HOLD, "example.com/other"])).ok()
    widgets.delete(space).ok()
    found = widgets.eventually(lambda: conditions(widgets.get(space).ok()))
    assert found["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: widgets.example.com has 2 resource instances",
    )
    assert found["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        (
            "Some content in the namespace has finalizers remaining: "
            "example.com/hold in 2 resource instances, example.com/other in 1 resource instances"
        ),
    )
    assert found["NamespaceDeletionContentFailure"] == (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    )
    assert found["NamespaceDeletionDiscoveryFailure"][:2] == ("False", "ResourcesDiscovered")
    assert found["NamespaceDeletionGroupVersionParsingFailure"][:2] == ("False", "ParsedGroupVersions")
    for name in ("a", "b"):
        widgets.patch(f"{held}/{name}", {"metadata": {"finalizers": None}}).ok()
    widgets.eventually(lambda: widgets.get(space).status == 404)


def test_pods_go_first(server: Server) -> None:
    cluster = fresh_cluster(server, profile="cluster")
    cluster.post(SPACES, {"metadata": {"name": "n"}}).ok()
    pod = {"metadata": {"name": "p", "finalizers": [HOLD]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster.post(f"{SPACES}/n/pods", pod).ok()
    cluster.post(f"{SPACES}/n/configmaps", config_map("needed")).ok()
    cluster.delete(f"{SPACES}/n").ok()
    cluster.eventually(lambda: "NamespaceContentRemaining" in conditions(cluster.get(f"{SPACES}/n").ok()))
    assert "deletionTimestamp" in cluster.get(f"{SPACES}/n/pods/p").ok()["metadata"]
    assert "deletionTimestamp" not in cluster.get(f"{SPACES}/n/configmaps/needed").ok()["metadata"]
    cluster.patch(f"{SPACES}/n/pods/p", {"metadata": {"finalizers": None}}).ok()
    cluster.eventually(lambda: cluster.get(f"{SPACES}/n").status == 404)
    cluster.close()


def test_finalizers_of_the_namespace_itself_hold_it(widgets: Cluster) -> None:
    widgets.post(SPACES, {"metadata": {"name": "n", "finalizers": [HOLD]}}).ok()
    widgets.delete(f"{SPACES}/n").ok()
    widgets.eventually(lambda: not widgets.get(f"{SPACES}/n").ok()["spec"].get("finalizers"))
    widgets.patch(f"{SPACES}/n", {"metadata": {"finalizers": None}}).ok()
    assert widgets.get(f"{SPACES}/n").status == 404


def test_only_finalize_changes_what_must_be_done(widgets: Cluster, space: str) -> None:
    namespace = widgets.get(space).ok()
    changed = namespace | {"spec": {"finalizers": ["kubernetes", HOLD]}}
    kept = widgets.put(space, changed).ok()
    assert kept["spec"] == {"finalizers": ["kubernetes"]}
    changed["metadata"] = kept["metadata"]
    new = widgets.put(f"{space}/finalize", changed).ok()
    assert new["spec"]["finalizers"] == ["kubernetes", HOLD]
    widgets.delete(space).ok()
    widgets.eventually(lambda: widgets.get(space).ok()["spec"]["finalizers"] == [HOLD])
    widgets.put(f"{space}/finalize", widgets.get(space).ok() | {"spec": {}}).ok()
    assert widgets.get(space).status == 404


def test_namespaces_of_other_clusters_stay(widgets: Cluster, space: str) -> None:
    root = Cluster(widgets.server, "root")
    name = widgets.name
    root.post(SPACES, {"metadata": {"name": name}}).ok()
    widgets.post(SPACES, {"metadata": {"name": name}}).ok()
    widgets.delete(f"{SPACES}/{name}").ok()
    widgets.eventually(lambda: widgets.get(f"{SPACES}/{name}").status == 404)
    assert root.get(f"{SPACES}/{name}").ok()["status"] == {"phase": "Active"}
    root.close()


def test_namespaces_have_no_deletecollection(cluster: Cluster) -> None:
    answer = cluster.delete(SPACES)
    assert (answer.status, answer["reason"]) == (405, "MethodNotAllowed")


def test_a_namespace_path_is_the_namespace(widgets: Cluster, space: str) -> None:
    assert widgets.get(space).ok()["metadata"]["name"] == "n"
    assert widgets.get(f"{space}/status").ok()["kind"] == "Namespace"
