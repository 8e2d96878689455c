"""Protobuf responses: built-in kinds as Go clients request them, JSON where there is no protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from shoal.objects import protobuf
from shoal.objects.protobuf_encoder import MessageEncoder
from tests.serving import WIDGETS, Answer, Cluster, Watch, config_map, widget

PROTOBUF = "application/vnd.kubernetes.protobuf"
CLIENT_GO = f"{PROTOBUF},application/json"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PARTIAL = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def read(answer: Answer, status: int = 200) -> dict[str, Any]:
    assert (answer.status, answer.headers["content-type"]) == (status, PROTOBUF), answer.body
    return protobuf.decode(answer.body)[2]


def events(watch: Watch) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of a protobuf watch: a length, then type and object of the event."""
    while size := watch.answer.read(4):
        data = watch.answer.read(int.from_bytes(size, "big"))
        yield _event(data)


def _event(data: bytes) -> tuple[str, dict[str, Any]]:
    """WatchEvent: type = 1, object = 2 {raw = 1}."""
    kind, rest = _field(data, 1)
    wrapped, rest = _field(rest, 2)
    assert rest == b""
    raw, rest = _field(wrapped, 1)
    assert rest == b""
    return kind.decode(), protobuf.decode(raw)[2]


def _field(data: bytes, number: int) -> tuple[bytes, bytes]:
    assert data[0] == number << 3 | 2
    size = shift = 0
    for at in range(1, 6):
        size |= (data[at] & 0x7F) << shift
        shift += 7
        if data[at] < 0x80:
            return data[at + 1 : at + 1 + size], data[at + 1 + size :]
    raise AssertionError("no length")


def test_an_object_is_what_json_says_it_is(cluster: Cluster) -> None:
    made = cluster.post(CONFIG_MAPS, config_map("a", {"key": "é"}, labels={"x": "y"})).ok()
    for _ in range(2):  # the second time from what the first has kept
        assert read(cluster.get(f"{CONFIG_MAPS}/a", Accept=CLIENT_GO)) == made
    changed = cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"key": "other"}}).ok()
    assert read(cluster.get(f"{CONFIG_MAPS}/a", Accept=CLIENT_GO)) == changed


def test_writes_answer_in_protobuf(cluster: Cluster) -> None:
    made = read(cluster.post(CONFIG_MAPS, config_map("a"), Accept=PROTOBUF), 201)
    assert (made["kind"], made["metadata"]["name"]) == ("ConfigMap", "a")
    made["data"] = {"x": "1"}
    updated = read(
        cluster.request("PUT", f"{CONFIG_MAPS}/a", protobuf.encode(made), Accept=PROTOBUF, Content_Type=PROTOBUF)
    )
    assert updated["data"] == {"x": "1"}
    patched = read(cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"y": "2"}}, Accept=PROTOBUF))
    assert patched["data"] == {"x": "1", "y": "2"}
    dry = read(cluster.post(f"{CONFIG_MAPS}?dryRun=All", config_map("b"), Accept=PROTOBUF), 201)
    assert dry["metadata"]["name"] == "b"
    gone = read(cluster.delete(f"{CONFIG_MAPS}/a", Accept=PROTOBUF))
    assert (gone["kind"], gone["status"], gone["details"]["uid"]) == ("Status", "Success", made["metadata"]["uid"])
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
    review["spec"] = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert read(cluster.post(path, review, Accept=PROTOBUF), 201)["status"]["allowed"] is True


@pytest.mark.parametrize("count", [0, 3, 600])
def test_a_list_is_what_json_says_it_is(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.post(CONFIG_MAPS, config_map(f"m{number:03}", {"n": str(number)}))
    said = cluster.get(CONFIG_MAPS).ok()
    for _ in range(3):
        answer = cluster.get(CONFIG_MAPS, Accept=CLIENT_GO)
        assert {"items": [], **read(answer)} == said
        assert answer.body == protobuf.encode(said)


def test_pages_and_selected_lists(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.post(CONFIG_MAPS, config_map(name, labels={"name": name})).ok()
    page = read(cluster.get(f"{CONFIG_MAPS}?limit=1", Accept=PROTOBUF))
    assert [item["metadata"]["name"] for item in page["items"]] == ["a"]
    assert page["metadata"]["continue"]
    assert page["metadata"]["remainingItemCount"] >= 2
    chosen = read(cluster.get(f"{CONFIG_MAPS}?labelSelector=name=b", Accept=PROTOBUF))
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["b"]
    gone = read(cluster.delete(f"{CONFIG_MAPS}?labelSelector=name=b", Accept=PROTOBUF))
    assert (gone["kind"], len(gone["items"])) == ("ConfigMapList", 1)


def test_failures_come_in_the_asked_form(cluster: Cluster) -> None:
    status = read(cluster.get(f"{CONFIG_MAPS}/none", Accept=CLIENT_GO), 404)
    assert (status["kind"], status["message"]) == ("Status", 'configmaps "none" not found')
    assert status["details"] == {"name": "none", "kind": "configmaps"}
    broken = cluster.request("POST", CONFIG_MAPS, b"\x00", Content_Type=PROTOBUF, Accept=PROTOBUF)
    assert read(broken, 400)["reason"] == "BadRequest"
    assert read(cluster.request("GET", CONFIG_MAPS, token="wrong", Accept=PROTOBUF), 401)["reason"] == "Unauthorized"
    assert cluster.get(f"{CONFIG_MAPS}/none", Accept=f"application/json,{PROTOBUF}")["code"] == 404


@pytest.fixture
def steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has more elements than a step is not encoded at once."""
    encode = MessageEncoder.encode

    def limited(self: MessageEncoder, obj: dict[str, Any]) -> bytes:
        longest = max((len(value) for value in obj.values() if isinstance(value, (list, dict))), default=0)
        assert longest < 1000, f"{self.name} is encoded in one step"
        return encode(self, obj)

    monkeypatch.setattr(MessageEncoder, "encode", limited)


@pytest.mark.usefixtures("steps_only")
def test_large_objects_are_encoded_in_steps(cluster: Cluster) -> None:
    """Each read of one held the event loop."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    with cluster.watch(f"{path}?watch=true&fieldSelector=metadata.name=a", Accept=PROTOBUF) as live:
        body = {"metadata": {"name": "a"}, "secrets": [{}] * 20_000}
        made = read(cluster.post(path, body, Accept=PROTOBUF), 201)
        assert len(made["secrets"]) == 20_000
        assert read(cluster.get(f"{path}/a", Accept=PROTOBUF)) == made
        for query in ("", "?labelSelector=!x"):
            assert read(cluster.get(path + query, Accept=PROTOBUF))["items"][0] == _item(made)
        with cluster.watch(f"{path}?watch=true&fieldSelector=metadata.name=a", Accept=PROTOBUF) as late:
            assert next(events(late)) == ("ADDED", made)
        small = read(cluster.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}, "secrets": None}, Accept=PROTOBUF))
        large = read(cluster.patch(f"{path}/a", {"secrets": [{}] * 20_000}, Accept=PROTOBUF))
        cluster.delete(f"{path}/a").ok()
        seen = events(live)
        assert [next(seen) for _ in range(3)] == [("ADDED", made), ("MODIFIED", small), ("MODIFIED", large)]
        kind, last = next(seen)
        assert (kind, last["secrets"]) == ("DELETED", large["secrets"])


def _item(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def test_metadata_alone(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("w", labels={"x": "y"})).ok()
    found = read(widgets.get(f"{WIDGETS}/w", Accept=PROTOBUF + PARTIAL))
    assert (found["kind"], found["metadata"]) == ("PartialObjectMetadata", made["metadata"])
    listed = read(widgets.get(WIDGETS, Accept=PROTOBUF + PARTIAL_LIST))
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"] for item in listed["items"]] == [made["metadata"]]
    with widgets.watch(WIDGETS, Accept=PROTOBUF + PARTIAL) as watch:
        kind, obj = next(events(watch))
        assert (kind, obj["kind"], obj["metadata"]) == ("ADDED", "PartialObjectMetadata", made["metadata"])


def test_custom_resources_and_tables_come_as_json(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("w")).ok()
    for path in (WIDGETS, f"{WIDGETS}/w"):
        answer = widgets.get(path, Accept=CLIENT_GO)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert widgets.get(path, Accept=PROTOBUF).status == 406
    table = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1"
    assert widgets.get(CONFIG_MAPS, Accept=table).ok()["kind"] == "Table"
    refused = read(widgets.get(CONFIG_MAPS, Accept=f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"), 406)
    assert refused["message"] == (
        f"only the following media types are accepted: application/json, application/yaml, {PROTOBUF}"
    )


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (f"application/json,{PROTOBUF}", "application/json"),
        (f"*/*,{PROTOBUF}", "application/json"),
        (f"text/html,{PROTOBUF}", PROTOBUF),
        (f"application/json;q=0.5, {PROTOBUF};q=0.9", PROTOBUF),
        (f"{PROTOBUF};q=0.1,application/json", "application/json"),
    ],
)
def test_the_first_that_is_served_wins(cluster: Cluster, accept: str, form: str) -> None:
    assert cluster.get(CONFIG_MAPS, Accept=accept).headers["content-type"] == form


def test_a_watch_in_frames(cluster: Cluster) -> None:
    first = cluster.post(CONFIG_MAPS, config_map("a", {"x": "0"}, labels={"mine": "yes"})).ok()
    path = f"{CONFIG_MAPS}?labelSelector=mine&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with cluster.watch(path + "&allowWatchBookmarks=true", Accept=CLIENT_GO) as watch:
        assert watch.answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
        seen = events(watch)
        assert next(seen) == ("ADDED", first)
        kind, bookmark = next(seen)
        assert (kind, bookmark["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
        changed = cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}).ok()
        assert next(seen) == ("MODIFIED", changed)
        cluster.delete(f"{CONFIG_MAPS}/a").ok()
        kind, last = next(seen)
        assert (kind, last["data"]) == ("DELETED", {"x": "1"})
        assert int(last["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


def test_an_old_watch_is_told_so_in_a_frame(cluster: Cluster) -> None:
    future = f"{CONFIG_MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999"
    with cluster.watch(future + "&allowWatchBookmarks=true", Accept=PROTOBUF) as watch:
        kind, status = next(events(watch))
        assert (kind, status["kind"], status["reason"]) == ("ERROR", "Status", "Timeout")


def test_everywhere_in_protobuf(cluster: Cluster) -> None:
    cluster.post(CONFIG_MAPS, config_map("a", annotations={"mine": "yes"})).ok()
    with closing(Cluster(cluster.server, "*")) as everywhere:
        found = read(everywhere.get("/api/v1/configmaps", Accept=PROTOBUF))
    mine = [item["metadata"] for item in found["items"] if (item["metadata"].get("annotations") or {}).get("mine")]
    assert cluster.name in [metadata["annotations"]["shoal.dev/cluster"] for metadata in mine]


def test_events_in_both_their_groups(cluster: Cluster) -> None:
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": involved, "reason": "Why"}
    cluster.post("/api/v1/namespaces/default/events", body).ok()
    for path in ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"):
        said, found = cluster.get(f"{path}/e").ok(), read(cluster.get(f"{path}/e", Accept=PROTOBUF))
        assert (found["apiVersion"], found["reason"]) == (said["apiVersion"], "Why")
        assert found.get("regarding") == said.get("regarding")
        listed = read(cluster.get(path, Accept=PROTOBUF))
        assert (listed["apiVersion"], listed["items"][0]["reason"]) == (said["apiVersion"], "Why")


def test_a_watch_everywhere(cluster: Cluster) -> None:
    everywhere = Cluster(cluster.server, "*")
    with closing(everywhere), everywhere.watch("/api/v1/configmaps?resourceVersion=0", Accept=PROTOBUF) as watch:
        cluster.post(CONFIG_MAPS, config_map("here", {"x": "y"})).ok()
        for kind, obj in events(watch):
            annotations = obj["metadata"].get("annotations") or {}
            if obj["metadata"]["name"] == "here" and annotations["shoal.dev/cluster"] == cluster.name:
                assert (kind, obj["data"]) == ("ADDED", {"x": "y"})
                break
