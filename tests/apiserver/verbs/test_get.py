"""GET of one object."""

from __future__ import annotations

import gzip

import pytest

from tests.serving import WIDGETS, Cluster, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def test_an_absent_object_is_not_found(widgets: Cluster) -> None:
    answer = widgets.get(f"{WIDGETS}/a")
    assert answer.status == 404
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'widgets.example.com "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "group": "example.com", "kind": "widgets"},
        "code": 404,
    }


def test_a_core_object_has_no_group_in_its_refusal(cluster: Cluster) -> None:
    answer = cluster.get(f"{MAPS}/a")
    assert answer["message"] == 'configmaps "a" not found'
    assert answer["details"] == {"name": "a", "kind": "configmaps"}


def test_a_namespaced_kind_needs_its_namespace(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    assert widgets.get("/apis/example.com/v1/widgets/a").status == 404
    assert widgets.get("/apis/example.com/v1/namespaces/other/widgets/a").status == 404


def test_unknown_subresources_are_not_found(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    assert widgets.get(f"{WIDGETS}/a/nothing").status == 404


def test_a_future_revision_is_waited_for_no_longer_than_a_moment(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.get(f"{MAPS}/a?resourceVersion=999999999")
    assert (answer.status, answer["reason"]) == (504, "Timeout")
    assert answer["message"].startswith("Timeout: Too large resource version: 999999999, current: ")
    assert answer["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]
    assert answer["details"]["retryAfterSeconds"] == 1
    assert answer.headers["retry-after"] == "1"


def test_an_unreadable_revision_is_invalid(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.get(f"{MAPS}/a?resourceVersion=abc")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    why = 'strconv.ParseUint: parsing "abc": invalid syntax'
    assert answer["message"] == f'invalid resource version: resourceVersion: Invalid value: "abc": {why}'


def test_an_older_revision_gives_what_there_is(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()
    assert cluster.get(f"{MAPS}/a?resourceVersion=0").ok() == made
    assert cluster.get(f"{MAPS}/a?resourceVersion={made['metadata']['resourceVersion']}").ok() == made


def test_an_object_as_a_row(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", 4)).ok()
    table = widgets.get(f"{WIDGETS}/a", Accept=TABLE).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": made["metadata"]["resourceVersion"]}
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    (row,) = table["rows"]
    assert row["cells"] == ["a", 4]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


def test_an_objects_metadata_alone(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", 4)).ok()
    assert widgets.get(f"{WIDGETS}/a", Accept=PARTIAL).ok() == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


def test_the_first_form_that_can_be_served_wins(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    accept = (
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1, application/json;as=Table;g=meta.k8s.io;v=v1"
    )
    assert widgets.get(f"{WIDGETS}/a", Accept=accept).ok()["kind"] == "Table"
    assert widgets.get(f"{WIDGETS}/a", Accept="application/json").ok()["kind"] == "Widget"
    assert widgets.get(f"{WIDGETS}/a", Accept="*/*").ok()["kind"] == "Widget"


def test_an_unknown_form_is_not_acceptable(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    for accept in ("application/foo", "application/json;as=Nothing;g=meta.k8s.io;v=v1"):
        answer = widgets.get(f"{WIDGETS}/a", Accept=accept)
        assert (answer.status, answer["reason"]) == (406, "NotAcceptable")
        assert answer["message"].startswith("only the following media types are accepted")


def test_pretty_when_asked_for_and_for_curl(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()
    for answer in (cluster.get(f"{MAPS}/a?pretty=true"), cluster.get(f"{MAPS}/a", User_Agent="curl/8.0")):
        assert answer.body.startswith(b'{\n  "')
        assert answer.json == made
    assert b"\n" not in cluster.get(f"{MAPS}/a?pretty=false", User_Agent="curl/8.0").body.rstrip()


def test_only_large_answers_are_compressed(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("small", {"a": "b"})).ok()
    made = cluster.post(MAPS, config_map("large", {"a": "x" * 200_000})).ok()
    assert "content-encoding" not in cluster.get(f"{MAPS}/small", Accept_Encoding="gzip").headers
    answer = cluster.get(f"{MAPS}/large", Accept_Encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["vary"]
    answer.body = gzip.decompress(answer.body)
    assert answer.json == made
    assert "content-encoding" not in cluster.get(f"{MAPS}/large").headers


def test_head_gives_no_body(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.request("HEAD", f"{MAPS}/a")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(
    ("path", "plural"),
    [
        ("/api/v1/namespaces/default/pods", "pods"),
        ("/api/v1/namespaces/default/pods/a/log", "pods"),
        ("/api/v1/nodes", "nodes"),
    ],
)
def test_a_hub_says_where_pods_and_nodes_are(cluster: Cluster, path: str, plural: str) -> None:
    answer = cluster.get(path)
    assert answer.status == 404
    assert str(answer["message"]).startswith(f"a hub has no {plural}: they are in its workload Clusters. kubectl with")
