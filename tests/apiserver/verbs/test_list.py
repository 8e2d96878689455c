"""LIST: pages, revisions, selectors and output media types."""

from __future__ import annotations

import gzip
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving import WIDGETS, Cluster, Server, config_map, widget

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIALS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def names(found: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


def fill(cluster: Cluster, count: int, prefix: str = "m") -> list[str]:
    made = [f"{prefix}{number:03}" for number in range(count)]
    for name in made:
        cluster.post(MAPS, config_map(name)).ok()
    return made


def compact(server: Server) -> int:
    """Forgets all history, as the compactor does when its window has passed."""

    async def work() -> int:
        core = server.shoal.server.core
        until = core.cache.revision
        core.cache.history.trim(until)
        await core.store.compact(until)
        return until

    return server.call(work())


def causes(answer: Any) -> list[tuple[str, str]]:
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    return [(cause["field"], cause["message"]) for cause in answer["details"]["causes"]]


# --- shape ---


def test_an_empty_list_has_a_revision_and_no_items(widgets: Cluster) -> None:
    found = widgets.get(WIDGETS).ok()
    assert (found["kind"], found["apiVersion"], found["items"]) == ("WidgetList", "example.com/v1", [])
    assert found["metadata"].keys() == {"resourceVersion", "continue"}
    assert int(found["metadata"]["resourceVersion"]) > 0


def test_items_are_in_order_of_their_keys_and_do_not_repeat_what_they_are(cluster: Cluster) -> None:
    for name in ("b", "a.b", "a", "a-b"):
        cluster.post(MAPS, config_map(name)).ok()
    found = cluster.get(MAPS).ok()
    assert names(found) == ["a", "a-b", "a.b", "b"]
    assert {*found["items"][0]} == {"metadata"}


def test_items_of_custom_kinds_say_what_they_are(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    (item,) = widgets.get(WIDGETS).ok()["items"]
    assert (item["kind"], item["apiVersion"]) == ("Widget", "example.com/v1")


def test_all_namespaces_or_one(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "other"}}).ok()
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "defaults"}}).ok()
    cluster.post(MAPS, config_map("a")).ok()
    cluster.post("/api/v1/namespaces/other/configmaps", config_map("b")).ok()
    cluster.post("/api/v1/namespaces/defaults/configmaps", config_map("c")).ok()
    assert names(cluster.get(MAPS).ok()) == ["a"]
    assert sorted(names(cluster.get("/api/v1/configmaps").ok())) == ["a", "b", "c"]
    assert names(cluster.get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dother").ok()) == ["b"]
    assert names(cluster.get("/api/v1/namespaces/nowhere/configmaps").ok()) == []


def test_a_collection_cannot_be_put_or_patched(widgets: Cluster) -> None:
    for answer in (widgets.put(WIDGETS, widget("a")), widgets.patch(WIDGETS, {})):
        assert (answer.status, answer["reason"], answer["message"]) == (400, "BadRequest", "name must be provided")
    assert widgets.put(MAPS, config_map("a")).status == 405


# --- pages ---


def test_pages_are_of_one_revision_whatever_happens_in_between(cluster: Cluster) -> None:
    made = fill(cluster, 10)
    first = cluster.get(f"{MAPS}?limit=4").ok()
    assert names(first) == made[:4]
    assert first["metadata"]["remainingItemCount"] == 6
    cluster.post(MAPS, config_map("m0045")).ok()
    cluster.post(MAPS, config_map("a")).ok()
    cluster.delete(f"{MAPS}/m005").ok()
    cluster.delete(f"{MAPS}/m001").ok()
    cluster.patch(f"{MAPS}/m006", {"data": {"new": "1"}}).ok()
    second = cluster.get(f"{MAPS}?limit=4&continue={first['metadata']['continue']}").ok()
    assert names(second) == made[4:8]
    assert "data" not in second["items"][2]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["remainingItemCount"] == 2
    third = cluster.get(f"{MAPS}?limit=4&continue={second['metadata']['continue']}").ok()
    assert names(third) == made[8:]
    assert third["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_the_limit_may_change_from_page_to_page(cluster: Cluster) -> None:
    made = fill(cluster, 6)
    first = cluster.get(f"{MAPS}?limit=1").ok()
    rest = cluster.get(f"{MAPS}?continue={first['metadata']['continue']}").ok()
    assert names(first) + names(rest) == made


def test_an_exact_page_needs_no_continuation(cluster: Cluster) -> None:
    fill(cluster, 3)
    assert cluster.get(f"{MAPS}?limit=3").ok()["metadata"].keys() == {"resourceVersion"}


def test_with_a_selector_nobody_counts_what_remains(cluster: Cluster) -> None:
    for number in range(4):
        cluster.post(MAPS, config_map(f"m{number}", labels={"even": str(number % 2 == 0).lower()})).ok()
    first = cluster.get(f"{MAPS}?limit=1&labelSelector=even%3Dtrue").ok()
    assert names(first) == ["m0"]
    assert first["metadata"].keys() == {"resourceVersion", "continue"}
    second = cluster.get(f"{MAPS}?limit=1&labelSelector=even%3Dtrue&continue={first['metadata']['continue']}").ok()
    assert names(second) == ["m2"]
    assert second["metadata"].keys() == {"resourceVersion"}


def test_pages_over_all_namespaces(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "aaa"}}).ok()
    fill(cluster, 3)
    cluster.post("/api/v1/namespaces/aaa/configmaps", config_map("z")).ok()
    found, token = [], ""
    while True:
        page = cluster.get(f"/api/v1/configmaps?limit=2&continue={token}").ok()
        found += names(page)
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == ["z", "m000", "m001", "m002"]


def test_an_expired_token_comes_back_with_a_fresh_one_that_works(cluster: Cluster, server: Server) -> None:
    fill(cluster, 5)
    first = cluster.get(f"{MAPS}?limit=2").ok()
    cluster.post(MAPS, config_map("m0035")).ok()
    compact(server)
    answer = cluster.get(f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (answer.status, answer["reason"]) == (410, "Expired")
    assert answer["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    fresh = answer["metadata"]["continue"]
    rest = cluster.get(f"{MAPS}?continue={fresh}").ok()
    assert names(rest) == ["m002", "m003", "m0035", "m004"]
    assert int(rest["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


@pytest.mark.parametrize("token", ["abc", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjkiLCJydiI6MSwic3RhcnQiOiJhIn0"])
def test_an_unreadable_token_is_a_bad_request(cluster: Cluster, token: str) -> None:
    answer = cluster.get(f"{MAPS}?limit=1&continue={token}")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert answer["message"].startswith("invalid continue token: continue key is not valid")


def test_a_token_brings_its_own_revision(cluster: Cluster) -> None:
    fill(cluster, 2)
    token = cluster.get(f"{MAPS}?limit=1").ok()["metadata"]["continue"]
    answer = cluster.get(f"{MAPS}?limit=1&continue={token}&resourceVersion=3")
    assert (answer.status, answer["message"]) == (
        400,
        "specifying resource version is not allowed when using continue",
    )
    cluster.get(f"{MAPS}?limit=1&continue={token}&resourceVersion=0").ok()


def test_a_limit_must_be_a_number(cluster: Cluster) -> None:
    answer = cluster.get(f"{MAPS}?limit=abc")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


# --- revisions ---


def test_latest_any_and_not_older(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a")).ok()
    revision = made["metadata"]["resourceVersion"]
    cluster.post(MAPS, config_map("b")).ok()
    queries = ("", "?resourceVersion=0", f"?resourceVersion={revision}")
    for query in (*queries, f"?resourceVersion={revision}&resourceVersionMatch=NotOlderThan"):
        found = cluster.get(MAPS + query).ok()
        assert names(found) == ["a", "b"]
        assert int(found["metadata"]["resourceVersion"]) > int(revision)


def test_exactly_an_older_revision(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map("a", {"k": "old"})).ok()
    revision = made["metadata"]["resourceVersion"]
    cluster.post(MAPS, config_map("b")).ok()
    cluster.patch(f"{MAPS}/a", {"data": {"k": "new"}}).ok()
    found = cluster.get(f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact").ok()
    del made["apiVersion"], made["kind"]
    assert found["items"] == [made]
    assert found["metadata"]["resourceVersion"] == revision
    paged = cluster.get(f"{MAPS}?resourceVersion={revision}&limit=5").ok()
    assert paged["items"] == [made]


def test_a_future_revision_times_out(cluster: Cluster) -> None:
    for more in ("", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan", "&limit=1"):
        answer = cluster.get(f"{MAPS}?resourceVersion=999999999{more}")
        assert (answer.status, answer["reason"]) == (504, "Timeout")
        assert answer["message"].startswith("Timeout: Too large resource version: 999999999, current: ")
        assert answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_forgotten_revision_is_expired(cluster: Cluster, server: Server) -> None:
    revision = cluster.post(MAPS, config_map("a")).ok()["metadata"]["resourceVersion"]
    cluster.post(MAPS, config_map("b")).ok()
    compact(server)
    answer = cluster.get(f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact")
    assert (answer.status, answer["reason"]) == (410, "Expired")
    assert answer["message"] == "The resourceVersion for the provided list is too old."
    assert names(cluster.get(f"{MAPS}?resourceVersion={revision}").ok()) == ["a", "b"]


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "99999999999999999999999"])
def test_an_unreadable_revision_is_invalid(cluster: Cluster, text: str) -> None:
    answer = cluster.get(f"{MAPS}?resourceVersion={text}")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert answer["message"].startswith(f'invalid resource version: resourceVersion: Invalid value: "{text}": ')


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch",
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            "resourceVersionMatch=Newest&resourceVersion=1",
            "resourceVersionMatch",
            'Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""',
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=1&continue=abc",
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
        ("sendInitialEvents=true", "sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list"),
    ],
)
def test_what_does_not_go_together(cluster: Cluster, query: str, field: str, message: str) -> None:
    answer = cluster.get(f"{MAPS}?{query}")
    assert causes(answer) == [(field, message)]
    assert answer["details"]["kind"] == "ListOptions"
    assert answer["message"] == f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}'


# --- selectors ---


def labelled(cluster: Cluster) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "y"}), ("c", {}), ("d", {"app": "x"})):
        cluster.post(MAPS, config_map(name, labels=labels)).ok()


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=x", "ad"), ("app==x", "ad"), ("app!=x", "bc"), ("app", "abd"), ("!app", "c"), ("app in (x,y)", "abd"),
        ("app notin (x)", "bc"), ("app=x,tier=1", "a"), ("tier>0", "a"), ("tier<1", ""), ("app=x,!tier", "d"),
        ("app=", ""),
    ],
)  # fmt: skip
def test_label_selectors(cluster: Cluster, selector: str, expected: str) -> None:
    labelled(cluster)
    assert "".join(names(cluster.get(f"{MAPS}?labelSelector={quote(selector)}").ok())) == expected


@pytest.mark.parametrize("selector", ["app===x", "app in (", "-app=x", "app=-x-", "app in x", ",", "app>x"])
def test_a_bad_label_selector_is_a_bad_request(cluster: Cluster, selector: str) -> None:
    answer = cluster.get(f"{MAPS}?labelSelector={quote(selector)}")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert answer["message"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", "a"), ("metadata.name==a", "a"), ("metadata.name!=a", "bcd"), ("metadata.name=z", ""),
        ("metadata.name!=a,metadata.name!=b", "cd"), ("metadata.namespace=default", "abcd"),
    ],
)  # fmt: skip
def test_field_selectors(cluster: Cluster, selector: str, expected: str) -> None:
    labelled(cluster)
    assert "".join(names(cluster.get(f"{MAPS}?fieldSelector={quote(selector)}").ok())) == expected


def test_a_field_that_cannot_be_selected(widgets: Cluster) -> None:
    answer = widgets.get(f"{WIDGETS}?fieldSelector=spec.size%3D1")
    assert (answer.status, answer["message"]) == (400, "field label not supported: spec.size")
    answer = widgets.get(f"{MAPS}?fieldSelector=data.a%3D1")
    said = '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert (answer.status, answer["message"]) == (400, said)
    answer = widgets.get("/api/v1/namespaces/default/secrets?fieldSelector=data.a%3D1")
    assert (answer.status, answer["message"]) == (400, "field label not supported: data.a")
    answer = widgets.get(f"{MAPS}?fieldSelector=nonsense")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


def test_fields_of_a_kind(cluster: Cluster) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    cluster.post(secrets, {"metadata": {"name": "a"}, "type": "x/y"}).ok()
    cluster.post(secrets, {"metadata": {"name": "b"}}).ok()
    assert names(cluster.get(f"{secrets}?fieldSelector=type%3DOpaque").ok()) == ["b"]
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).ok()
    assert "n" in names(cluster.get("/api/v1/namespaces?fieldSelector=status.phase%3DActive").ok())


# --- forms ---


def test_a_table(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", 3)).ok()
    widgets.post(WIDGETS, widget("b", 5)).ok()
    table = widgets.get(f"{WIDGETS}?limit=1", Accept=TABLE).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"].keys() == {"resourceVersion", "continue", "remainingItemCount"}
    assert [(c["name"], c["type"], c["format"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", "string", "name", 0),
        ("Size", "integer", "", 0),
    ]
    assert [row["cells"] for row in table["rows"]] == [["a", 3]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_what_a_row_includes(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a", 3)).ok()
    rows = {
        include: widgets.get(f"{WIDGETS}?includeObject={include}", Accept=TABLE).ok()["rows"][0]
        for include in ("None", "Metadata", "Object")
    }
    assert rows["None"]["object"] is None
    assert rows["Metadata"]["object"]["metadata"] == made["metadata"]
    assert rows["Object"]["object"] == made
    answer = widgets.get(f"{WIDGETS}?includeObject=Some", Accept=TABLE)
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert "includeObject: Invalid value: \"Some\": must be 'Metadata', 'Object', 'None', or empty" in answer["message"]


def test_a_table_of_the_older_version(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a", {"x": "1", "y": "2"})).ok()
    table = cluster.get(MAPS, Accept="application/json;as=Table;g=meta.k8s.io;v=v1beta1").ok()
    assert table["apiVersion"] == "meta.k8s.io/v1beta1"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"][:2] == ["a", 2]


def test_metadata_alone(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    found = widgets.get(WIDGETS, Accept=PARTIALS).ok()
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (item,) = found["items"]
    assert item == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


def test_an_unknown_form_is_not_acceptable(widgets: Cluster) -> None:
    answer = widgets.get(WIDGETS, Accept="application/xml")
    assert (answer.status, answer["reason"]) == (406, "NotAcceptable")


def test_a_large_list_is_compressed(cluster: Cluster) -> None:
    for number in range(4):
        cluster.post(MAPS, config_map(f"m{number}", {"a": "x" * 50_000})).ok()
    answer = cluster.get(MAPS, Accept_Encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    answer.body = gzip.decompress(answer.body)
    assert names(answer.json) == ["m0", "m1", "m2", "m3"]
    assert answer.json["items"] == cluster.get(MAPS).ok()["items"]


def test_metadata_is_asked_for_as_what_it_is(widgets: Cluster) -> None:
    widgets.post(MAPS, config_map("a")).ok()
    for path, kind, said in (
        (MAPS, "PartialObjectMetadata", "a list (*core.ConfigMapList)"),
        (f"{MAPS}/a", "PartialObjectMetadataList", "not a list (*core.ConfigMap)"),
    ):
        answer = widgets.get(path, Accept=f"application/json;as={kind};g=meta.k8s.io;v=v1")
        assert answer.status == 406
        assert answer["message"] == f"you requested {kind}, but the requested object is {said}"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("continue=x&resourceVersion=1", "illegal base64 data at input byte 0"),
        ("continue=bm90IGl0", "invalid character 'o' in literal null (expecting 'u')"),
        ("continue=bm90IGl0&labelSelector=a%3Ex", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("resourceVersion=99999999999&fieldSelector=a%3Db%3Dc", "unescaped character in value: 61"),
    ],
)
def test_what_cannot_be_read_is_told_first(cluster: Cluster, query: str, said: str) -> None:
    answer = cluster.get(f"{MAPS}?{query}")
    assert (answer.status, answer["message"].endswith(said)) == (400, True), answer["message"]
