"""Conversion webhooks of CRDs: every way to read and write another version, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.objects import digest
from tests.apiserver.webhooks.receiver import Receiver, Reply
from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster

Object = dict[str, Any]
V1, V2 = (f"/apis/example.com/{version}/namespaces/default/hosts" for version in ("v1", "v2"))


def converted(obj: Object, wanted: str) -> Object:
    """v1 has `hostPort: a:1`, v2 `host: a` and `port: 1`."""
    obj = json.loads(json.dumps(obj))
    spec = obj["spec"]
    if wanted.endswith("/v2"):
        host, _, port = spec.pop("hostPort").partition(":")
        spec["host"], spec["port"] = host, int(port)
    else:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port')}"
    obj["apiVersion"] = wanted
    return obj


def answer(review: Object, **response: object) -> Object:
    request = review["request"]
    objects = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    said = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects, **response}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": said}


def schema(**properties: Object) -> Object:
    spec = {"type": "object", "properties": properties}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}


def definition(config: Object, storage: str = "v1") -> Object:
    texts = {"hostPort": {"type": "string"}}, {"host": {"type": "string"}, "port": {"type": "integer"}}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": schema(**properties),
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": f".spec.{'hostPort' if name == 'v1' else 'host'}"}],
        }
        for name, properties in zip(("v1", "v2"), texts, strict=True)
    ]
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "hosts.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Host", "plural": "hosts"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def v1(name: str, host_port: str) -> Object:
    meta, spec = {"name": name}, {"hostPort": host_port}
    return {"apiVersion": "example.com/v1", "kind": "Host", "metadata": meta, "spec": spec}


def v2(name: str, host: str, port: int) -> Object:
    meta, spec = {"name": name}, {"host": host, "port": port}
    return {"apiVersion": "example.com/v2", "kind": "Host", "metadata": meta, "spec": spec}


class Hosts:
    def __init__(self, cluster: Cluster, receiver: Receiver) -> None:
        self.cluster, self.receiver = cluster, receiver
        self.path = f"/{cluster.name}/convert"
        receiver.replies[self.path] = answer
        self.config = {"url": receiver.url(self.path), "caBundle": receiver.bundle}
        cluster.post(DEFINITIONS, definition(self.config)).ok()

    def reply(self, reply: Reply) -> None:
        self.receiver.replies[self.path] = reply

    @property
    def calls(self) -> list[Object]:
        return self.receiver.requests(self.path)


@pytest.fixture
def hosts(still_server: Server, receiver: Receiver) -> Iterator[Hosts]:
    cluster = fresh_cluster(still_server)
    yield Hosts(cluster, receiver)
    cluster.close()


def test_get_and_list_in_both_versions(hosts: Hosts) -> None:
    cluster = hosts.cluster
    for name in ("a", "b", "c"):
        cluster.post(V1, v1(name, f"{name}:1")).ok()
    assert hosts.calls == []  # written and answered in the version it is stored in
    one = cluster.get(f"{V2}/a").ok()
    assert (one["apiVersion"], one["spec"]) == ("example.com/v2", {"host": "a", "port": 1})
    assert one["metadata"] == cluster.get(f"{V1}/a").ok()["metadata"]
    listed = cluster.get(V2).ok()
    assert [item["spec"]["host"] for item in listed["items"]] == ["a", "b", "c"]
    assert {item["apiVersion"] for item in listed["items"]} == {"example.com/v2"}
    cluster.get(V2).ok()
    # One call for the object, one for the rest of the list, and none for what is known.
    assert [[obj["metadata"]["name"] for obj in call["objects"]] for call in hosts.calls] == [["a"], ["b", "c"]]
    assert [call["desiredAPIVersion"] for call in hosts.calls] == ["example.com/v2"] * 2


def test_pages_and_selectors_of_another_version(hosts: Hosts) -> None:
    cluster = hosts.cluster
    for name in ("a", "b", "c"):
        cluster.post(V1, v1(name, f"{name}:1")).ok()
    first = cluster.get(f"{V2}?limit=2").ok()
    assert [item["spec"]["host"] for item in first["items"]] == ["a", "b"]
    rest = cluster.get(f"{V2}?limit=2&continue={first['metadata']['continue']}").ok()
    assert [item["spec"]["host"] for item in rest["items"]] == ["c"]
    assert [len(call["objects"]) for call in hosts.calls] == [2, 1]
    chosen = cluster.get(f"{V2}?fieldSelector=spec.host%3Db").ok()
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["b"]
    known = digest.encode(digest.bucket_sums([], 1))
    assert list(cluster.get(f"{V2}?fieldSelector=spec.host%3Db&digest={known}").ok()["items"]) == ["default/b"]


def test_writes_of_another_version(hosts: Hosts) -> None:
    cluster = hosts.cluster
    made = cluster.post(V2, v2("a", "x", 1)).ok()
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"host": "x", "port": 1})
    assert cluster.get(f"{V1}/a").ok()["spec"] == {"hostPort": "x:1"}
    assert cluster.patch(f"{V2}/a", {"spec": {"port": 2}}).ok()["spec"] == {"host": "x", "port": 2}
    assert cluster.get(f"{V1}/a").ok()["spec"] == {"hostPort": "x:2"}
    body = cluster.get(f"{V2}/a").ok()
    body["spec"]["host"] = "y"
    assert cluster.put(f"{V2}/a", body).ok()["spec"] == {"host": "y", "port": 2}
    applied = cluster.patch(f"{V2}/a?fieldManager=me&force=true", v2("a", "z", 3), "apply").ok()
    assert applied["spec"] == {"host": "z", "port": 3}
    cluster.patch(f"{V2}/a/status", {"status": {"phase": "Up"}}).ok()
    stored = cluster.get(f"{V1}/a").ok()
    assert (stored["spec"], stored["status"]) == ({"hostPort": "z:3"}, {"phase": "Up"})
    created = cluster.patch(f"{V2}/b?fieldManager=me", v2("b", "new", 4), "apply").ok()
    assert created["spec"] == {"host": "new", "port": 4}
    cluster.delete(f"{V2}/a").ok()
    assert cluster.get(f"{V1}/a").status == 404


def test_a_deletion_that_waits_is_kept_in_the_stored_version(hosts: Hosts) -> None:
    body = v1("a", "x:1")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    hosts.cluster.post(V1, body).ok()
    marked = hosts.cluster.delete(f"{V2}/a").ok()
    assert (marked["apiVersion"], marked["spec"]["host"]) == ("example.com/v2", "x")
    assert hosts.cluster.get(f"{V1}/a").ok()["spec"] == {"hostPort": "x:1"}
    hosts.cluster.patch(f"{V2}/a", {"metadata": {"finalizers": None}}).ok()
    assert hosts.cluster.get(f"{V1}/a").status == 404


def test_deletecollection_selects_by_fields_of_the_requested_version(hosts: Hosts) -> None:
    cluster = hosts.cluster
    for name, host in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "x")):
        cluster.post(V1, v1(name, f"{host}:1")).ok()
    deleted = cluster.delete(f"{V2}?fieldSelector=spec.host%3Dx&limit=2").ok()
    assert [(item["apiVersion"], item["metadata"]["name"]) for item in deleted["items"]] == [
        ("example.com/v2", "a"),
        ("example.com/v2", "c"),
    ]
    # One call converts the whole collection.
    assert [[obj["metadata"]["name"] for obj in call["objects"]] for call in hosts.calls] == [["a", "b", "c", "d"]]
    assert [item["metadata"]["name"] for item in cluster.get(V1).ok()["items"]] == ["b", "d"]
    assert cluster.delete(f"{V2}?fieldSelector=spec.host%3Dz").ok()["items"] == []
    cluster.delete(f"{V2}?fieldSelector=spec.host%21%3Dx").ok()
    assert [item["metadata"]["name"] for item in cluster.get(V1).ok()["items"]] == ["d"]


def test_deletecollection_deletes_nothing_if_the_conversion_fails(hosts: Hosts) -> None:
    for name in ("a", "b"):
        hosts.cluster.post(V1, v1(name, "x:1")).ok()
    hosts.reply(lambda review: answer(review, result={"status": "Failed", "message": "cannot"}))
    assert hosts.cluster.delete(f"{V2}?fieldSelector=spec.host%3Dx").status == 500
    assert len(hosts.cluster.get(V1).ok()["items"]) == 2


def test_watches_of_another_version_keep_their_order(hosts: Hosts) -> None:
    cluster = hosts.cluster
    cluster.post(V1, v1("a", "a:1")).ok()
    with cluster.watch(f"{V2}?fieldSelector=spec.host%3Da") as chosen, cluster.watch(V2) as all_of_them:
        assert all_of_them.next()["object"]["spec"] == {"host": "a", "port": 1}
        cluster.post(V1, v1("b", "b:1")).ok()
        cluster.patch(f"{V1}/a", {"spec": {"hostPort": "a:2"}}).ok()
        cluster.patch(f"{V1}/a", {"spec": {"hostPort": "z:2"}}).ok()
        cluster.delete(f"{V1}/b").ok()
        seen = [(event["type"], event["object"]["spec"]) for event in all_of_them.take(4)]
        assert seen == [
            ("ADDED", {"host": "b", "port": 1}),
            ("MODIFIED", {"host": "a", "port": 2}),
            ("MODIFIED", {"host": "z", "port": 2}),
            ("DELETED", {"host": "b", "port": 1}),
        ]
        mine = [(event["type"], event["object"]["spec"]) for event in chosen.take(3)]
        assert [kind for kind, _ in mine] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_from_a_revision_with_bookmarks(hosts: Hosts) -> None:
    cluster = hosts.cluster
    cluster.post(V1, v1("a", "a:1")).ok()
    at = cluster.get(V2).ok()["metadata"]["resourceVersion"]
    cluster.patch(f"{V1}/a", {"spec": {"hostPort": "a:2"}}).ok()
    query = f"resourceVersion={at}&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"
    with cluster.watch(f"{V2}?{query}") as state:
        added, bookmark = state.take(2)
        assert (added["type"], added["object"]["spec"]["port"]) == ("ADDED", 2)
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    with cluster.watch(f"{V2}?resourceVersion={at}") as later:
        assert later.next()["object"]["spec"]["port"] == 2


def test_another_storage_version(hosts: Hosts) -> None:
    """Objects of the old one are converted when they are read, and stored anew when they are written."""
    cluster = hosts.cluster
    cluster.post(V1, v1("a", "x:1")).ok()
    crd = cluster.get(f"{DEFINITIONS}/hosts.example.com").ok()
    crd["spec"]["versions"] = definition(hosts.config, storage="v2")["spec"]["versions"]
    cluster.put(f"{DEFINITIONS}/hosts.example.com", crd).ok()
    assert cluster.get(f"{V2}/a").ok()["spec"] == {"host": "x", "port": 1}
    assert cluster.get(f"{V1}/a").ok()["spec"] == {"hostPort": "x:1"}
    cluster.patch(f"{V1}/a", {"spec": {"hostPort": "x:2"}}).ok()
    before = len(hosts.calls)
    assert cluster.get(f"{V2}/a").ok()["spec"] == {"host": "x", "port": 2}
    assert len(hosts.calls) == before


def test_of_the_metadata_only_labels_and_annotations_are_its(hosts: Hosts) -> None:
    def more(review: Object) -> Object:
        made = answer(review)
        for obj in made["response"]["convertedObjects"]:
            obj["metadata"].update(labels={"l": "1"}, annotations={"a": "2"}, finalizers=["x/y"], generation=99)
        return made

    hosts.reply(more)
    before = hosts.cluster.post(V1, v1("a", "x:1")).ok()["metadata"]
    after = hosts.cluster.get(f"{V2}/a").ok()["metadata"]
    assert (after["labels"], after["annotations"]) == ({"l": "1"}, {"a": "2"})
    assert {k: v for k, v in after.items() if k not in ("labels", "annotations")} == before


def spoilt(**change: object) -> Reply:
    def reply(review: Object) -> Object:
        made = answer(review)
        for obj in made["response"]["convertedObjects"]:
            obj.update(change)
        return made

    return reply


FAILED = "conversion webhook for example.com/v1, Kind=Host "
WRONG: dict[str, tuple[Reply, str]] = {
    "says no": (lambda r: answer(r, result={"status": "Failed", "message": "cannot"}), "failed: cannot"),
    "says nothing": (lambda r: answer(r, result={}), "failed: response.result.status was '', not 'Success'"),
    "no type": (lambda r: {"kind": "ConversionReview"}, "failed: expected webhook response of apiextensions.k8s.io/v1"),
    "no response": (
        lambda r: {"apiVersion": r["apiVersion"], "kind": "ConversionReview"},
        "failed: no response provided",
    ),
    "uid": (lambda r: answer(r, uid="other"), "failed: expected response.uid="),
    "too few": (lambda r: answer(r, convertedObjects=[]), "returned 0 objects, expected 1"),
    "text": (lambda r: b"hello", "failed: couldn't get version/kind; json parse error: "),
    "version": (
        spoilt(apiVersion="example.com/v9"),
        "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v9)",
    ),
    "kind": (spoilt(kind="Guest"), "returned invalid object at index 0: invalid kind (expected Host, received Guest)"),
    "name": (spoilt(metadata={"name": "b"}), "returned invalid object: must have the same name: a != b"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_goes_wrong_is_said_and_harms_nothing(hosts: Hosts, wrong: str) -> None:
    reply, said = WRONG[wrong]
    hosts.cluster.post(V1, v1("a", "x:1")).ok()
    hosts.reply(reply)
    for read in (hosts.cluster.get(f"{V2}/a"), hosts.cluster.get(V2)):
        assert (read.status, read["code"], "reason" in read.json) == (500, 500, False)
        assert read["message"].startswith(FAILED + said)
    with hosts.cluster.watch(V2) as watch:
        event = watch.next()
        assert event["type"] == "ERROR"
        assert event["object"]["message"].startswith(FAILED + said)
    assert hosts.cluster.patch(f"{V2}/a", {"spec": {"port": 2}}).status == 500
    assert hosts.cluster.get(f"{V1}/a").ok()["spec"] == {"hostPort": "x:1"}
    hosts.reply(answer)
    assert hosts.cluster.get(f"{V2}/a").ok()["spec"] == {"host": "x", "port": 1}


def test_a_write_that_cannot_be_stored_is_not(hosts: Hosts) -> None:
    hosts.reply(lambda review: answer(review, result={"status": "Failed", "message": "cannot"}))
    refused = hosts.cluster.post(V2, v2("a", "x", 1))
    assert refused.status == 500
    assert hosts.cluster.get(V1).ok()["items"] == []


def test_one_that_hangs_ends_with_the_request(hosts: Hosts) -> None:
    hosts.cluster.post(V1, v1("a", "x:1")).ok()
    hosts.reply(lambda review: hosts.receiver.hang(review))
    late = hosts.cluster.get(f"{V2}/a?timeout=1s")
    assert late.status == 504
    assert hosts.cluster.get(f"{V1}/a").status == 200


def test_a_definition_says_where_its_webhook_is(hosts: Hosts) -> None:
    crd = definition(hosts.config)
    crd["metadata"]["name"] = "hosts.example.org"
    crd["spec"]["group"] = "example.org"
    crd["spec"]["conversion"] = {"strategy": "Webhook"}
    refused = hosts.cluster.post(DEFINITIONS, crd)
    assert refused.status == 422
    said = "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"
    assert said in refused["message"]
    assert "spec.conversion.conversionReviewVersions: Required value" in refused["message"]
