"""A write is answered in the same words whether the event loop or a child process makes its object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from random import Random
from typing import Any

import orjson
import pytest
import yaml

from shoal.objects.wire import Request, Response
from tests.apiserver.kind_samples import samples
from tests.faults.requests import request_of
from tests.faults.test_fuzz import read, served
from tests.serving import DEFINITIONS, Cluster, Server, config_map, fresh_cluster, widget, widget_definition

Object = dict[str, Any]

SEEDS = 1500
EVERYTHING, NOTHING = -1, 1 << 40
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
PODS = "/api/v1/namespaces/default/pods"
FINALIZE = "/api/v1/namespaces/default/finalize"
JSON, YAML = "application/json", "application/yaml"
MERGE, OPERATIONS = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"

_VARYING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'(resourceVersion\\*"\s*:\s*\\*")\d+'), r"\1<revision>"),
    (re.compile(r"\bt\d+\b"), "<cluster>"),
    (re.compile(r"(made-)[a-z0-9]{5}"), r"\1<suffix>"),
    (re.compile(r"(kube-api-access-)[a-z0-9]{5}"), r"\1<suffix>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+"), "<address>"),
    (re.compile(r'("nodePort":)\d+'), r"\1<port>"),
]


class Pair:
    """The same requests to two logical clusters, of which the second has only heavy writes."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.light, self.heavy = fresh_cluster(server, "cluster"), fresh_cluster(server, "cluster")
        self.tasks = 0

    def send(self, request: Request) -> tuple[int, Any, list[str]]:
        light = self.server.call(self._handle(request, self.light, NOTHING))
        before = self.pool.outcomes["completed"]
        heavy = self.server.call(self._handle(request, self.heavy, EVERYTHING))
        self.tasks += self.pool.outcomes["completed"] - before
        sent = f"{request.method} {request.path}?{request.query} {dict(request.headers)} {request.body[:1000]!r}"
        assert light == heavy, sent
        return light

    @property
    def pool(self) -> Any:
        return self.server.shoal.server.core.processes

    async def _handle(self, request: Request, cluster: Cluster, limit: int) -> tuple[int, Any, list[str]]:
        limits = self.server.shoal.server.core.heavy_limits
        usual = asdict(limits)
        limits.body_bytes = limits.yaml_bytes = limits.dense_bytes = limits.object_bytes = limit
        # Where an object has many errors, built-in admission answers first in the event loop only.
        limits.mendable_errors = NOTHING
        try:
            request = replace(request, path=request.path.replace("/clusters/CLUSTER", cluster.prefix))
            answer = self.server.shoal.server.app.handle(request)
            if not isinstance(answer, Response):
                answer = await answer  # type: ignore[misc]
        finally:
            for field, value in usual.items():
                setattr(limits, field, value)
        assert isinstance(answer, Response)
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        warnings = [value for name, value in answer.headers if name == "Warning"]
        try:
            text = orjson.dumps(read(body)).decode()
        except (ValueError, KeyError, TypeError, yaml.YAMLError):
            text = body.decode(errors="replace")
        for pattern, word in _VARYING:
            text = pattern.sub(word, text)
        return answer.status, text, warnings

    def close(self) -> None:
        self.light.close()
        self.heavy.close()


@pytest.fixture(scope="module")
def pair(still_server: Server) -> Iterator[Pair]:
    pair = Pair(still_server)
    for cluster in (pair.light, pair.heavy):
        cluster.post(DEFINITIONS, widget_definition()).ok()
    yield pair
    pair.close()


def request(pair: Pair, method: str, path: str, body: object, content_type: str = "application/json") -> Request:
    path, _, query = path.partition("?")
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    headers = {"authorization": f"Bearer {pair.server.token}", "content-type": content_type, "user-agent": "tests/1"}
    return Request(method, f"/clusters/CLUSTER{path}", query, headers, data, remote_addr="127.0.0.1")


def test_random_requests_get_the_same_answers(pair: Pair) -> None:
    resources = served(pair.light)
    for seed in range(SEEDS):
        drawn = request_of(Random(seed), "/clusters/CLUSTER", pair.server.token, resources)
        if drawn.method in ("POST", "PUT", "PATCH") and drawn.path.startswith("/clusters/CLUSTER/"):
            pair.send(drawn)
    assert pair.tasks > SEEDS / 10


def test_every_kind_gets_the_same_answers(pair: Pair) -> None:
    for api_version, plural, kind, namespaced in served(pair.light):
        group = api_version.rpartition("/")[0]
        sample = samples().get(f"{plural}.{group}" if group else plural)
        if sample is None:
            continue
        path = ("/api/v1" if api_version == "v1" else f"/apis/{api_version}") + "/namespaces/default" * namespaced
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "made-abcde"}, **sample}
        changed = {**obj, "metadata": {"name": "made-abcde", "labels": {"a": "b"}}}
        place = f"{path}/{plural}/made-abcde"
        pair.send(request(pair, "POST", f"{path}/{plural}", obj))
        pair.send(request(pair, "PUT", place, changed))
        patch = {"metadata": {"annotations": {"a": "b"}}}
        pair.send(request(pair, "PATCH", place, patch, MERGE))
        pair.send(request(pair, "PATCH", place, patch, MERGE))
        pair.send(request(pair, "PATCH", place, patch, STRATEGIC))
        applied = f"{place}?fieldManager=m&force=true"
        pair.send(request(pair, "PATCH", applied, yaml.safe_dump(obj).encode(), APPLY))
        pair.send(request(pair, "PATCH", f"{place}/status", {"status": {}}, MERGE))


STRICT = f"{MAPS}?fieldValidation=Strict"
CONTAINER = {"name": "e", "image": "i"}
CPU = {"requests": {"cpu": "1"}}
CASES: list[tuple[str, str, object, str]] = [
    ("POST", MAPS, b'{"metadata":{"name":"a"},"data":{"a":"1","a":"2"},"nope":1}', JSON),
    ("POST", STRICT, b'{"metadata":{"name":"b"},"data":{"a":"1","a":"2"},"nope":1}', JSON),
    ("POST", MAPS, b"metadata: {name: c}\ndata: {a: x, a: z}\nnope: 1\n", YAML),
    ("POST", STRICT, b"metadata: {name: d}\ndata: {a: x, a: z}\n", YAML),
    ("POST", MAPS, b"metadata: [", YAML),
    ("POST", MAPS, b'{"metadata"', JSON),
    ("POST", MAPS, b"[1]", JSON),
    ("POST", MAPS, {"metadata": {"generateName": "made-"}}, JSON),
    ("POST", MAPS, {"metadata": {"name": "a"}}, JSON),
    ("POST", MAPS, {"metadata": {"name": "A_"}, "data": {"/": "x"}}, JSON),
    ("POST", f"{MAPS}?dryRun=All", config_map("dry"), JSON),
    ("POST", MAPS, config_map("n", namespace="other"), JSON),
    ("PUT", f"{MAPS}/none", config_map("none"), JSON),
    ("PUT", f"{MAPS}/a", config_map("b"), JSON),
    ("PUT", f"{MAPS}/a", config_map("a", {"k": "v"}, resourceVersion="1"), JSON),
    ("PUT", f"{MAPS}/a", config_map("a", {"k": "v"}, uid="other"), JSON),
    ("PATCH", f"{MAPS}/none", {"data": {}}, MERGE),
    ("PATCH", f"{MAPS}/a", [{"op": "test", "path": "/data/a", "value": "no"}], OPERATIONS),
    ("PATCH", f"{MAPS}/a", {"data": {"a": None, "b": "c"}}, MERGE),
    ("PATCH", f"{MAPS}/a", {"data": 5}, MERGE),
    ("PATCH", f"{MAPS}/a?fieldManager=m", config_map("a", {"b": "d"}), APPLY),
    ("PATCH", f"{MAPS}/a?fieldManager=n", config_map("a", {"b": "e"}), APPLY),
    ("PATCH", f"{MAPS}/a?fieldManager=n&force=true", config_map("a", {"b": "e"}), APPLY),
    ("PATCH", f"{MAPS}/new?fieldManager=n", b"{bad: [", APPLY),
    ("PATCH", f"{MAPS}/new?fieldManager=n", config_map("new"), APPLY),
    ("POST", WIDGETS, widget("w", 0), JSON),
    ("POST", WIDGETS, {**widget("w"), "nope": 1}, JSON),
    ("POST", f"{WIDGETS}/w", widget("v"), JSON),
    ("PATCH", f"{WIDGETS}/w", {"spec": {"color": "green"}}, MERGE),
    ("PATCH", f"{WIDGETS}/w/status", {"status": {"replicas": 3}}, MERGE),
    ("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 4}}, MERGE),
    ("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": -4}}, MERGE),
    ("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, JSON),
    ("PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [CONTAINER]}}, STRATEGIC),
    ("PATCH", f"{PODS}/p/resize", {"spec": {"containers": [{"name": "c", "resources": CPU}]}}, STRATEGIC),
    ("PATCH", f"{PODS}/p", {"spec": {"containers": [{"name": "d", "image": "i"}]}}, STRATEGIC),
    ("POST", f"{PODS}/p/binding", {"metadata": {"name": "p", "labels": {"x": "y"}}, "target": {"name": "n"}}, JSON),
    ("POST", DEFINITIONS, {**widget_definition(), "metadata": {"name": "wrong"}}, JSON),
    ("PUT", FINALIZE, {"metadata": {"name": "default"}, "spec": {"finalizers": ["a/b"]}}, JSON),
]  # fmt: skip


def test_chosen_requests_get_the_same_answers(pair: Pair) -> None:
    statuses = {pair.send(request(pair, *case))[0] for case in CASES}
    assert statuses >= {200, 201, 400, 404, 409, 422}
