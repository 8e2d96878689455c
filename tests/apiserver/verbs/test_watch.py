"""WATCH: start revision, order and end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from shoal.apiserver.verbs.watch import terminate_watches
from tests.serving import WIDGETS, Cluster, Server, Watch, config_map, fresh_cluster, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
STREAMED = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def told(events: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def revision(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["resourceVersion"])


def now(cluster: Cluster) -> str:
    return revision(cluster.get(MAPS).ok())


def test_a_watch_is_a_stream_of_json_lines(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()
    with cluster.watch(MAPS) as watch:
        assert watch.answer.status == 200
        assert watch.answer.getheader("content-type") == "application/json"
        assert watch.next() == {"type": "ADDED", "object": made}


@pytest.mark.parametrize("query", ["", "?resourceVersion=", "?resourceVersion=0"])
def test_without_a_revision_the_state_comes_first(cluster: Cluster, query: str) -> None:
    for name in ("b", "a"):
        cluster.post(MAPS, config_map(name)).ok()
    with cluster.watch(MAPS + query) as watch:
        assert told(watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        cluster.patch(f"{MAPS}/a", {"data": {"x": "1"}}).ok()
        cluster.delete(f"{MAPS}/b").ok()
        assert told(watch.take(2)) == [("MODIFIED", "a"), ("DELETED", "b")]


def test_from_a_revision_only_what_came_after(cluster: Cluster) -> None:
    first = cluster.post(MAPS, config_map("a")).ok()
    second = cluster.patch(f"{MAPS}/a", {"data": {"x": "1"}}).ok()
    third = cluster.post(MAPS, config_map("b")).ok()
    with cluster.watch(f"{MAPS}?resourceVersion={revision(first)}") as watch:
        assert watch.take(2) == [{"type": "MODIFIED", "object": second}, {"type": "ADDED", "object": third}]
    with cluster.watch(f"{MAPS}?resourceVersion={revision(third)}") as watch:
        fourth = cluster.post(MAPS, config_map("c")).ok()
        assert watch.next() == {"type": "ADDED", "object": fourth}


def test_a_deletion_carries_its_own_revision(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a", {"k": "v"})).ok()
    cluster.delete(f"{MAPS}/a").ok()
    after = cluster.post(MAPS, config_map("b")).ok()
    with cluster.watch(f"{MAPS}?resourceVersion={revision(made)}") as watch:
        gone = watch.next()
    assert gone["type"] == "DELETED"
    assert gone["object"]["data"] == {"k": "v"}
    assert gone["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(revision(made)) < int(revision(gone["object"])) < int(revision(after))


def test_every_revision_can_be_resumed_from(cluster: Cluster) -> None:
    start = now(cluster)
    cluster.post(MAPS, config_map("a")).ok()
    for number in range(5):
        cluster.patch(f"{MAPS}/a", {"data": {"n": str(number)}}).ok()
    cluster.delete(f"{MAPS}/a").ok()
    with cluster.watch(f"{MAPS}?resourceVersion={start}") as watch:
        events = watch.take(7)
    for position, event in enumerate(events[:-1]):
        with cluster.watch(f"{MAPS}?resourceVersion={revision(event['object'])}") as watch:
            assert watch.take(6 - position) == events[position + 1 :]


def test_a_forgotten_revision_ends_in_an_error_event(cluster: Cluster, server: Server) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()
    cluster.post(MAPS, config_map("b")).ok()

    async def trim() -> None:
        core = server.shoal.server.core
        core.cache.history.trim(core.cache.revision)

    server.call(trim())
    with cluster.watch(f"{MAPS}?resourceVersion={revision(made)}") as watch:
        assert watch.answer.status == 200
        (event,) = list(watch)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {revision(made)} (")


def test_the_newest_revision_is_never_forgotten(cluster: Cluster, server: Server) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()

    async def trim() -> None:
        core = server.shoal.server.core
        core.cache.history.trim(core.cache.revision)

    server.call(trim())
    with cluster.watch(f"{MAPS}?resourceVersion={revision(made)}") as watch:
        cluster.post(MAPS, config_map("b")).ok()
        assert told([watch.next()]) == [("ADDED", "b")]


def test_labels_decide_what_a_change_is(cluster: Cluster) -> None:
    start = now(cluster)
    cluster.post(MAPS, config_map("a")).ok()
    cluster.patch(f"{MAPS}/a", {"metadata": {"labels": {"app": "x"}}}).ok()
    cluster.patch(f"{MAPS}/a", {"data": {"k": "1"}}).ok()
    left = cluster.patch(f"{MAPS}/a", {"metadata": {"labels": {"app": "y"}}}).ok()
    cluster.patch(f"{MAPS}/a", {"data": {"k": "2"}}).ok()
    cluster.patch(f"{MAPS}/a", {"metadata": {"labels": {"app": "x"}}}).ok()
    cluster.delete(f"{MAPS}/a").ok()
    with cluster.watch(f"{MAPS}?resourceVersion={start}&labelSelector=app%3Dx") as watch:
        events = watch.take(5)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    gone = events[2]["object"]
    assert gone["metadata"]["labels"] == {"app": "x"}, "the last state that matched"
    assert revision(gone) == revision(left)


def test_one_object_by_its_name(cluster: Cluster) -> None:
    start = now(cluster)
    with cluster.watch(f"{MAPS}?resourceVersion={start}&fieldSelector=metadata.name%3Db") as watch:
        for name in ("a", "b", "c"):
            cluster.post(MAPS, config_map(name)).ok()
        cluster.delete(f"{MAPS}/b").ok()
        assert told(watch.take(2)) == [("ADDED", "b"), ("DELETED", "b")]
    cluster.post(MAPS, config_map("b")).ok()
    with cluster.watch(f"{MAPS}/b") as watch:
        assert told([watch.next()]) == [("ADDED", "b")]


def test_a_namespace_and_all_of_them(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "other"}}).ok()
    start = now(cluster)
    with (
        cluster.watch(f"{MAPS}?resourceVersion={start}") as one,
        cluster.watch(f"/api/v1/configmaps?resourceVersion={start}") as everywhere,
    ):
        cluster.post("/api/v1/namespaces/other/configmaps", config_map("o")).ok()
        cluster.post(MAPS, config_map("d")).ok()
        assert told([one.next()]) == [("ADDED", "d")]
        assert told(everywhere.take(2)) == [("ADDED", "o"), ("ADDED", "d")]


def test_a_bad_selector_is_refused_before_the_stream(widgets: Cluster) -> None:
    for query in ("labelSelector=a%3D%3D%3Db", "fieldSelector=spec.size%3D1"):
        answer = widgets.get(f"{WIDGETS}?watch=true&{query}")
        assert (answer.status, answer["reason"]) == (400, "BadRequest")


def test_paths_of_old_watch_as_well(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.post(MAPS, config_map(name)).ok()
    with cluster.watch(f"{MAPS.replace('/v1/', '/v1/watch/')}?timeoutSeconds=1") as watch:
        assert told(watch) == [("ADDED", "a"), ("ADDED", "b")]
    with cluster.watch(f"{MAPS.replace('/v1/', '/v1/watch/')}/b?timeoutSeconds=1") as watch:
        assert told(watch) == [("ADDED", "b")]


def test_a_watch_from_nowhere_does_not_go_on(cluster: Cluster) -> None:
    answer = cluster.get(f"{MAPS}?watch=true&continue=x")
    assert (answer.status, answer["reason"]) == (422, "Invalid")


def test_a_timeout_ends_the_stream_properly(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    with cluster.watch(f"{MAPS}?timeoutSeconds=1") as watch:
        assert told(watch) == [("ADDED", "a")]
        assert watch.answer.isclosed()


def test_a_bookmark_comes_with_the_end_when_asked_for(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()
    with cluster.watch(f"{MAPS}?timeoutSeconds=1&allowWatchBookmarks=true") as watch:
        events = list(watch)
    types = [event["type"] for event in events]
    assert types[:2] == ["ADDED", "BOOKMARK"]
    assert set(types[2:]) <= {"BOOKMARK"}, "a busy server takes longer than a second, and marks more"
    mark = events[1]["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1")
    assert int(revision(mark)) >= int(revision(made))
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    path = f"{MAPS}?timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={revision(made)}"
    with cluster.watch(path) as watch:
        marks = [event["object"]["metadata"] for event in watch]
    assert {frozenset(mark) for mark in marks} == {frozenset({"resourceVersion"})}


def test_a_streamed_list_ends_with_the_annotated_bookmark(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.post(MAPS, config_map(name)).ok()
    newest = now(cluster)
    with cluster.watch(f"{MAPS}?{STREAMED}") as watch:
        events = watch.take(3)
        assert told(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
        mark = events[2]["object"]["metadata"]
        assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(mark["resourceVersion"]) >= int(newest)
        later = cluster.post(MAPS, config_map("c")).ok()
        assert watch.next() == {"type": "ADDED", "object": later}
        assert int(revision(later)) > int(mark["resourceVersion"])


def test_a_streamed_list_of_nothing_is_a_bookmark(widgets: Cluster) -> None:
    with widgets.watch(f"{WIDGETS}?{STREAMED}") as watch:
        event = watch.next()
    assert event["type"] == "BOOKMARK"
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Widget", "example.com/v1")


def test_a_streamed_list_keeps_to_its_selector(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a", labels={"app": "x"})).ok()
    cluster.post(MAPS, config_map("b")).ok()
    with cluster.watch(f"{MAPS}?{STREAMED}&labelSelector=app%3Dx") as watch:
        assert told(watch.take(2)) == [("ADDED", "a"), ("BOOKMARK", "")]


def test_a_streamed_list_is_never_older_than_asked_for(cluster: Cluster) -> None:
    with cluster.watch(f"{MAPS}?{STREAMED}&resourceVersion=999999999") as watch:
        (event,) = list(watch)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_no_initial_events_when_they_are_refused(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    with cluster.watch(f"{MAPS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan") as watch:
        cluster.post(MAPS, config_map("b")).ok()
        assert told([watch.next()]) == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        (
            "sendInitialEvents=true",
            ["Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"],
        ),
        (
            "resourceVersionMatch=NotOlderThan",
            ["Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"],
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            [
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                'Unsupported value: "Exact": supported values: "NotOlderThan"',
            ],
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=abc",
            ["Forbidden: resourceVersionMatch is forbidden when continue is provided"],
        ),
    ],
)
def test_what_does_not_go_together(cluster: Cluster, query: str, messages: list[str]) -> None:
    answer = cluster.get(f"{MAPS}?watch=true&{query}")
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert [cause["message"] for cause in answer["details"]["causes"]] == messages


def test_rows_come_with_their_columns_once(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", 1)).ok()
    with widgets.watch(WIDGETS, Accept=TABLE) as watch:
        first = watch.next()
        widgets.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}).ok()
        second = watch.next()
        widgets.delete(f"{WIDGETS}/a").ok()
        third = watch.next()
    assert [event["type"] for event in (first, second, third)] == ["ADDED", "MODIFIED", "DELETED"]
    assert {event["object"]["kind"] for event in (first, second, third)} == {"Table"}
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Size"]
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"] for event in (first, second, third)] == [["a", 1], ["a", 2], ["a", 2]]
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "a"


def test_rows_may_carry_the_object(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", 1)).ok()
    with widgets.watch(f"{WIDGETS}?includeObject=Object", Accept=TABLE) as watch:
        assert watch.next()["object"]["rows"][0]["object"] == made


def test_a_wrong_include_is_refused_before_the_stream(widgets: Cluster) -> None:
    answer = widgets.get(f"{WIDGETS}?watch=true&includeObject=Some", Accept=TABLE)
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert "includeObject: Invalid value: \"Some\": must be 'Metadata', 'Object', 'None', or empty" in answer["message"]


def test_metadata_alone(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", 1)).ok()
    with widgets.watch(f"{WIDGETS}?{STREAMED}", Accept=PARTIAL) as watch:
        added, mark = watch.take(2)
    assert added == {
        "type": "ADDED",
        "object": {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": made["metadata"],
        },
    }
    assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "PartialObjectMetadata")


def test_all_watchers_see_one_order(cluster: Cluster) -> None:
    start, count = now(cluster), 40
    others = [Cluster(cluster.server, cluster.name) for _ in range(4)]

    def write(client: Cluster, prefix: str) -> None:
        for number in range(count // len(others)):
            client.post(MAPS, config_map(f"{prefix}{number}")).ok()

    with (
        cluster.watch(f"{MAPS}?resourceVersion={start}") as early,
        cluster.watch(f"{MAPS}?resourceVersion={start}", Accept=PARTIAL) as partial,
    ):
        writers = [threading.Thread(target=write, args=(c, f"w{n}-")) for n, c in enumerate(others)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        with cluster.watch(f"{MAPS}?resourceVersion={start}") as late:
            orders = [[(e["type"], revision(e["object"])) for e in w.take(count)] for w in (early, partial, late)]
    for client in others:
        client.close()
    assert orders[0] == orders[1] == orders[2]
    revisions = [int(number) for _, number in orders[0]]
    assert revisions == sorted(set(revisions))


def test_list_then_watch_misses_nothing(cluster: Cluster) -> None:
    """A reader that lists and watches while others write ends up with what there is."""
    stop = threading.Event()
    writer = Cluster(cluster.server, cluster.name)

    def write() -> None:
        for number in range(60):
            name = f"m{number % 7}"
            if writer.post(MAPS, config_map(name)).status == 409:
                writer.delete(f"{MAPS}/{name}").ok()
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    found = cluster.get(MAPS).ok()
    state = {item["metadata"]["name"]: revision(item) for item in found["items"]}
    with cluster.watch(f"{MAPS}?resourceVersion={revision(found)}") as watch:
        stop.wait(30)
        thread.join()
        last = writer.post(MAPS, config_map("last")).ok()
        for event in watch:
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                del state[name]
            else:
                state[name] = revision(event["object"])
            if revision(event["object"]) == revision(last):
                break
    writer.close()
    assert state == {item["metadata"]["name"]: revision(item) for item in cluster.get(MAPS).ok()["items"]}


def test_a_stopping_server_ends_its_watches_properly(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    root = Cluster(server, "root")
    root.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition()).ok()
    root.post(WIDGETS, widget("a")).ok()
    watch: Watch = root.watch(WIDGETS)
    assert told([watch.next()]) == [("ADDED", "a")]
    root.close()
    server.stop()
    assert list(watch) == [], "the stream ends as a complete body, not as a broken one"
    watch.__exit__()


def test_selectors_in_every_spelling(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a", labels={"app": "x"})).ok()
    cluster.post(MAPS, config_map("b", labels={"app": "y"})).ok()
    with cluster.watch(f"{MAPS}?labelSelector={quote('app in (y, z)')}") as watch:
        assert told([watch.next()]) == [("ADDED", "b")]


def test_a_watch_can_be_confirmed_at_once(cluster: Cluster) -> None:
    first = cluster.post(MAPS, config_map("a")).ok()
    second = cluster.post(MAPS, config_map("b")).ok()
    query = f"?resourceVersion={revision(first)}&confirm=true"
    with cluster.watch(f"{MAPS}{query}&allowWatchBookmarks=true") as watch:
        assert watch.next() == {"type": "ADDED", "object": second}
        mark = watch.next()
        assert mark["type"] == "BOOKMARK"
        assert int(revision(mark["object"])) >= int(revision(second)), "nothing up to there is on its way any more"
    with cluster.watch(f"{MAPS}{query}&timeoutSeconds=1") as watch:
        assert [event["type"] for event in watch] == ["ADDED"], "without bookmarks there are none"


@pytest.mark.parametrize("scope", ["", "/a", "?fieldSelector=metadata.name%3Da", "?labelSelector=app%3Dx"])
def test_a_logical_cluster_that_moves_away_ends_its_watches_without_deletions(still_server: Server, scope: str) -> None:
    cluster = fresh_cluster(still_server)
    cluster.post(MAPS, config_map("a", labels={"app": "x"})).ok()
    with cluster.watch(MAPS + scope) as watch:
        assert told(watch.take(1)) == [("ADDED", "a")]
        end_watches_of(cluster)
        cluster.delete(f"{MAPS}/a").ok()
        assert told(watch) == []
    cluster.close()


def test_watches_by_field_value_end_with_a_logical_cluster_that_moves_away(still_server: Server) -> None:
    cluster, stays = fresh_cluster(still_server, "cluster"), fresh_cluster(still_server, "cluster")
    pods = "/api/v1/namespaces/default/pods"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    for each in (cluster, stays):
        each.post(pods, pod).ok()
    by_node = f"{pods}?fieldSelector=spec.nodeName%3Dn1"
    with cluster.watch(by_node) as watch, stays.watch(by_node) as other:
        assert told([*watch.take(1), *other.take(1)]) == [("ADDED", "p"), ("ADDED", "p")]
        end_watches_of(cluster)
        for each in (cluster, stays):
            each.delete(f"{pods}/p?gracePeriodSeconds=0").ok()
        assert told(watch) == []
        assert told(other.take(1)) == [("DELETED", "p")]
    cluster.close()
    stays.close()


def end_watches_of(cluster: Cluster) -> None:
    async def end() -> None:
        terminate_watches(cluster.server.shoal.server.core, cluster.name)

    cluster.server.call(end())
