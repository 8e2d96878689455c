"""Lists in slices: the bytes and the revision are those of a list that is answered at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
import yaml

from shoal.apiserver.flowcontrol.slices import SliceConfig, SliceScheduler
from shoal.apiserver.response import yaml_encoder
from tests.serving import DEFINITIONS, WIDGETS, Answer, Cluster, Server, config_map, fresh_cluster, widget
from tests.serving import widget_definition as definition

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
META = "application/{};as={};v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"
COUNT = 300
TEXTS = ("plain", "two\nlines\n", "1.5e3", "y", "", " x", "é\u2028", "a: b", '"\\', "😀")


@contextmanager
def sliced(server: Server, **config: float) -> Iterator[SliceScheduler]:
    """Reads get one step in each turn of the loop."""
    core = server.shoal.server.core
    scheduler = core.slices
    before = scheduler._config
    scheduler._config = SliceConfig(**{"first_seconds": 0, "crowded_seconds": 0, "turn_seconds": 1e-9} | config)  # type: ignore[arg-type]
    try:
        yield scheduler
    finally:
        scheduler._config = before


@pytest.fixture(scope="module")
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server)
    cluster.post(DEFINITIONS, definition()).ok()
    cluster.eventually(lambda: cluster.get(WIDGETS).status == 200)
    for number in range(COUNT):
        text = TEXTS[number % len(TEXTS)]
        labels = {"odd": str(number % 2), "n": str(number)}
        cluster.post(CONFIG_MAPS, config_map(f"m{number:03}", {"text": text}, labels=labels)).ok()
        cluster.post(WIDGETS, widget(f"w{number:03}", number + 1, labels=labels)).ok()
    yield cluster
    cluster.close()


OUTPUTS: list[dict[str, str]] = [
    {},
    {"User_Agent": "curl/8"},
    {"Accept": "application/yaml"},
    {"Accept": PROTOBUF},
    *(
        {"Accept": META.format(media, kind)}
        for kind in ("Table", "PartialObjectMetadataList")
        for media in ("json", "yaml")
    ),
    {"Accept": META.format("vnd.kubernetes.protobuf", "PartialObjectMetadataList")},
    {"Accept": META.format("json", "Table"), "User_Agent": "Wget/1"},
]
QUERIES = (
    "",
    "?pretty=1",
    "?labelSelector=odd%3D1",
    "?labelSelector=n+in+(" + ",".join(map(str, range(0, 1000, 3))) + ")&limit=50",
    "?fieldSelector=metadata.name!%3Dm007&limit=7",
    "?limit=120",
    "?includeObject=Object",
    "?includeObject=None&labelSelector=odd",
)


@pytest.mark.parametrize("path", [CONFIG_MAPS, WIDGETS, "/api/v1/configmaps"])
@pytest.mark.parametrize("output", OUTPUTS, ids=str)
def test_slices_do_not_change_the_answer(cluster: Cluster, path: str, output: dict[str, str]) -> None:
    def seen(answer: Answer) -> tuple[int, str, bytes]:
        return answer.status, answer.headers["content-type"], answer.body

    for query in QUERIES:

        def compared(query: str = query) -> bool:
            before = seen(cluster.get(path + query, **output))
            with sliced(cluster.server):
                in_slices = [
                    seen(cluster.get(path + query, **output)) for _ in range(3)
                ]  # the third from a cached body
            if seen(cluster.get(path + query, **output)) != before:
                return False  # the store's revision or an age has changed meanwhile
            assert in_slices == [before] * 3, query
            return True

        cluster.eventually(compared)


def test_the_wildcard_view_and_a_deleted_collection_are_the_same_in_slices(cluster: Cluster) -> None:
    everywhere = Cluster(cluster.server, "*")
    for output in OUTPUTS[:5]:
        query = f"{CONFIG_MAPS}?labelSelector=odd&limit=200"

        def compared(query: str = query, output: dict[str, str] = output) -> bool:
            before = everywhere.get(query, **output).body
            with sliced(cluster.server):
                in_slices = everywhere.get(query, **output).body
            if everywhere.get(query, **output).body != before:
                return False
            assert in_slices == before
            return True

        cluster.eventually(compared)
    everywhere.close()
    with sliced(cluster.server):
        other = fresh_cluster(cluster.server)
        for number in range(3):
            other.post(CONFIG_MAPS, config_map(f"m{number}", labels={"odd": str(number % 2)})).ok()
        deleted = other.delete(f"{CONFIG_MAPS}?labelSelector=odd%3D0&pretty=1")
        assert [item["metadata"]["name"] for item in deleted.ok()["items"]] == ["m0", "m2"]
        assert deleted.body == _indented(deleted.json)
        other.close()


def _indented(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"


def test_an_indented_list_is_the_indented_plain_one(cluster: Cluster) -> None:
    for path in (CONFIG_MAPS, WIDGETS, f"{CONFIG_MAPS}?labelSelector=none"):
        for output in ({}, {"Accept": META.format("json", "PartialObjectMetadataList")}):
            pretty = cluster.get(path, User_Agent="curl/8", **output).body
            assert pretty == _indented(orjson.loads(pretty))
            assert orjson.loads(pretty)["items"] == cluster.get(path, **output)["items"]


def test_a_list_in_yaml_is_what_a_dump_of_the_whole_list_gives(cluster: Cluster) -> None:
    class Dumper(yaml_encoder._Dumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}?labelSelector=none", WIDGETS):
        body = cluster.get(path, Accept="application/yaml").body
        whole = yaml.load(body, Loader=yaml.CSafeLoader)
        assert whole["items"] == cluster.get(path)["items"]
        assert body == yaml.dump(whole, Dumper=Dumper, encoding="utf-8", allow_unicode=True, width=1_000_000)


def test_a_long_list_shows_one_revision_while_others_write(cluster: Cluster) -> None:
    """Every write changes two objects in turn, so a torn list would show the second before the first."""
    other = fresh_cluster(cluster.server)
    for number in range(200):
        other.post(CONFIG_MAPS, config_map(f"m{number:03}", {"round": "0"})).ok()
    writer, stop = Cluster(cluster.server, other.name), threading.Event()

    def write() -> None:
        for round_number in range(1, 10_000):
            for name in ("m199", "m000"):
                writer.patch(f"{CONFIG_MAPS}/{name}", {"data": {"round": str(round_number)}}).ok()
            if stop.is_set():
                return

    thread = threading.Thread(target=write)
    with sliced(cluster.server):
        thread.start()
        try:
            answers = [other.get(f"{CONFIG_MAPS}?labelSelector=!none").ok() for _ in range(10)]
        finally:
            stop.set()
            thread.join()
    for answer in answers:
        rounds = {item["metadata"]["name"]: int(item["data"]["round"]) for item in answer["items"]}
        assert rounds["m199"] - rounds["m000"] in (0, 1)
        newest = max(int(item["metadata"]["resourceVersion"]) for item in answer["items"])
        assert newest <= int(answer["metadata"]["resourceVersion"])
    assert len({json.dumps(answer["metadata"]) for answer in answers}) > 1, "there were writes meanwhile"
    writer.close()
    other.close()


def test_a_client_that_disconnects_ends_its_list(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.apiserver.response.render.STEP_BYTES", 0)  # so many steps that the list is seen at work
    monkeypatch.setattr("shoal.apiserver.response.yaml_encoder._STEP_VALUES", 1)
    gone = Cluster(cluster.server, cluster.name)
    headers = {"Authorization": f"Bearer {gone.server.token}", "Accept": "application/yaml"}
    with sliced(cluster.server) as scheduler:
        for _ in range(20):
            gone._connection.request("GET", gone.prefix + CONFIG_MAPS, headers=headers)
            cluster.eventually(lambda: scheduler.running_count == 1)
            gone.close()
            cluster.eventually(lambda: scheduler.running_count == 0)


def test_a_list_over_its_timeout_gets_504(cluster: Cluster) -> None:
    with sliced(cluster.server):
        answer = cluster.get(f"{CONFIG_MAPS}?timeout=1ms", Accept=META.format("json", "Table"))
        assert answer.status == 504
        assert answer["message"].startswith("Timeout: request did not complete within requested timeout")
    cluster.eventually(lambda: cluster.server.shoal.server.core.slices.running_count == 0)


def test_more_lists_than_a_cluster_may_have_are_rejected(cluster: Cluster) -> None:
    with sliced(cluster.server, running_per_cluster=0, waiting_per_cluster=0):
        answer = cluster.get(f"{CONFIG_MAPS}?limit=290")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer["message"] == "Too many requests, please try again later."
        small = cluster.get("/api/v1/namespaces")
        assert small.status == 200, "a short list is no long read"


def test_a_large_object_as_yaml_is_encoded_in_slices(cluster: Cluster) -> None:
    large = config_map("large", {f"k{number:04}": TEXTS[number % len(TEXTS)] for number in range(3000)})
    written = cluster.post(CONFIG_MAPS, large, Accept="application/yaml")
    at_once = cluster.get(f"{CONFIG_MAPS}/large", Accept="application/yaml")
    with sliced(cluster.server):
        in_slices = cluster.get(f"{CONFIG_MAPS}/large", Accept="application/yaml")
    assert (written.status, at_once.status, in_slices.status) == (201, 200, 200)
    assert written.body == at_once.body == in_slices.body
    assert yaml.load(in_slices.body, Loader=yaml.CSafeLoader) == cluster.get(f"{CONFIG_MAPS}/large").json
    cluster.delete(f"{CONFIG_MAPS}/large").ok()
