"""`/clusters/*/metadata`: one watch over every kind of every logical cluster, for administrators of root."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, Server, config_map, widget

Object = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
HOLD = "example.com/hold"


@pytest.fixture
def everywhere(server: Server) -> Iterator[Cluster]:
    found = Cluster(server, "*")
    yield found
    found.close()


def revision(cluster: Cluster) -> str:
    return str(cluster.get(MAPS).ok()["metadata"]["resourceVersion"])


def owned(cluster: Cluster, name: str) -> Object:
    """An object with an owner that stays."""
    found = cluster.get(f"{MAPS}/owner")
    owner = found.json if found.status == 200 else cluster.post(MAPS, config_map("owner")).ok()
    uid = owner["metadata"]["uid"]
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]
    made: Object = cluster.post(MAPS, config_map(name, ownerReferences=references)).ok()
    return made


def mine(cluster: Cluster, events: Iterator[Object]) -> Iterator[Object]:
    return (e for e in events if e["object"]["metadata"]["annotations"].get("shoal.dev/cluster") == cluster.name)


def test_what_may_own_or_be_owned_is_told(widgets: Cluster, everywhere: Cluster) -> None:
    with everywhere.watch(f"/metadata?resourceVersion={revision(widgets)}") as watch:
        widgets.post(MAPS, config_map("plain")).ok()
        made = owned(widgets, "child")["metadata"]
        widgets.post(WIDGETS, widget("w", finalizers=[HOLD])).ok()
        widgets.delete(f"{WIDGETS}/w?propagationPolicy=Foreground").ok()
        widgets.delete(f"{MAPS}/plain").ok()
        events = mine(widgets, iter(watch))
        child, marked = next(events), next(events)
        gone = next(e for e in events if e["type"] == "DELETED")
    assert child["type"] == "ADDED"
    assert child["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            **{key: made[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")},
            "ownerReferences": made["ownerReferences"],
            "annotations": {"shoal.dev/cluster": widgets.name, "shoal.dev/resource": "/v1/configmaps"},
        },
    }
    assert marked["type"] == "MODIFIED"
    assert marked["object"]["metadata"]["annotations"]["shoal.dev/resource"] == "example.com/v1/widgets"
    assert marked["object"]["metadata"]["finalizers"] == [HOLD, "foregroundDeletion"]
    metadata = gone["object"]["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("plain", "default")
    assert metadata["annotations"] == {"shoal.dev/cluster": widgets.name, "shoal.dev/resource": "//configmaps"}


def test_a_change_of_nothing_that_is_told_is_not_told(cluster: Cluster, everywhere: Cluster) -> None:
    owned(cluster, "child")
    with everywhere.watch(f"/metadata?resourceVersion={revision(cluster)}") as watch:
        cluster.patch(f"{MAPS}/child", {"data": {"k": "2"}, "metadata": {"labels": {"a": "b"}}}).ok()
        held = cluster.patch(f"{MAPS}/child", {"metadata": {"finalizers": [HOLD]}}).ok()
        event = next(mine(cluster, iter(watch)))
        cluster.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}}).ok()
    assert event["object"]["metadata"]["finalizers"] == [HOLD]
    assert event["object"]["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]


def test_losing_the_last_owner_is_told(cluster: Cluster, everywhere: Cluster) -> None:
    owned(cluster, "child")
    with everywhere.watch(f"/metadata?resourceVersion={revision(cluster)}") as watch:
        cluster.patch(f"{MAPS}/child", {"metadata": {"ownerReferences": None}}).ok()
        event = next(mine(cluster, iter(watch)))
    assert event["type"] == "MODIFIED"
    assert "ownerReferences" not in event["object"]["metadata"]


def test_the_state_comes_first_then_a_bookmark(cluster: Cluster, everywhere: Cluster) -> None:
    owned(cluster, "child")
    with everywhere.watch("/metadata") as watch:
        told = []
        for event in watch:
            told.append(event)
            if event["type"] == "BOOKMARK":
                break
    assert {e["type"] for e in told[:-1]} == {"ADDED"}
    assert [e["object"]["metadata"]["name"] for e in mine(cluster, iter(told))] == ["child"]
    assert told[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert told[-1]["object"]["metadata"]["resourceVersion"].isdigit()


def test_it_goes_on_where_it_was_cut(cluster: Cluster, everywhere: Cluster) -> None:
    since = revision(cluster)
    first, second = owned(cluster, "a"), owned(cluster, "b")
    with everywhere.watch(f"/metadata?resourceVersion={since}") as watch:
        events = mine(cluster, iter(watch))
        assert [next(events)["object"]["metadata"]["uid"] for _ in range(2)] == [
            first["metadata"]["uid"],
            second["metadata"]["uid"],
        ]
    with everywhere.watch(f"/metadata?resourceVersion={first['metadata']['resourceVersion']}") as watch:
        assert next(mine(cluster, iter(watch)))["object"]["metadata"]["uid"] == second["metadata"]["uid"]


def test_it_ends_in_time_with_a_bookmark(cluster: Cluster, everywhere: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    with everywhere.watch(f"/metadata?timeoutSeconds=1&resourceVersion={revision(cluster)}") as watch:
        *_, last = watch
    assert last["type"] == "BOOKMARK"


def test_objects_of_one_name_are_found_everywhere(cluster: Cluster, everywhere: Cluster) -> None:
    made = cluster.post(MAPS, config_map("singular")).ok()
    found = everywhere.get("/metadata?resource=/configmaps&namespace=default&name=singular").ok()
    assert [item["metadata"]["uid"] for item in found["items"]] == [made["metadata"]["uid"]]
    assert everywhere.get("/metadata?resource=/configmaps&namespace=other&name=singular").ok()["items"] == []
    assert everywhere.get("/metadata?resource=none/nothing&name=singular").ok()["items"] == []


@pytest.mark.parametrize("query", ["", "?name=a", "?resource=configmaps&name=a", "?resource=/configmaps"])
def test_a_get_says_what_it_needs(everywhere: Cluster, query: str) -> None:
    answer = everywhere.get(f"/metadata{query}")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


def test_it_is_for_administrators_of_root(cluster: Cluster, everywhere: Cluster) -> None:
    assert cluster.get("/metadata?watch=1").status == 404, "one cluster has no such stream"
    assert everywhere.request("GET", "/metadata?watch=1", token="").status == 403
    cluster.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}}).ok()
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    token = cluster.post(path, {"spec": {}}).ok()["status"]["token"]
    assert everywhere.request("GET", "/metadata?watch=1", token=token).status in (401, 403)
    assert everywhere.request("POST", "/metadata", {}).status == 405
