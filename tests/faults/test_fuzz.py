"""Random requests through the whole chain: never a 500, never an error in the log, never a request that hangs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.apiserver.inprocess import Pipe
from shoal.objects import protobuf
from shoal.objects.wire import Request, Response, StreamResponse
from tests.faults.quiet import check_cache, errors_logged
from tests.faults.requests import Resources, requests
from tests.serving import DEFINITIONS, Answer, Cluster, Server, fresh_cluster, widget_definition

ALLOWED_5XX = (501, 504)
"""Refused by name, and a resourceVersion from the future: upstream's answers too."""
NO_SUCH_PATH = b"404 page not found\n"


def served(cluster: Cluster) -> Resources:
    """Every resource that discovery lists."""
    groups = [group["preferredVersion"]["groupVersion"] for group in cluster.get("/apis").ok()["groups"]]
    found = []
    for version in ["v1", *groups]:
        path = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        for resource in cluster.get(path).ok()["resources"]:
            if "/" not in resource["name"]:
                found.append((version, resource["name"], resource["kind"], resource["namespaced"]))
    return found


async def handled(server: Server, request: Request) -> tuple[int, bytes]:
    answer = server.shoal.server.app.handle(request)
    if not isinstance(answer, Response) and hasattr(answer, "__await__"):
        answer = await answer
    if isinstance(answer, Response):
        return answer.status, answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    assert isinstance(answer, StreamResponse)
    pipe = Pipe()
    answer.start(pipe)
    pipe.close()
    return answer.status, b"".join([piece async for piece in pipe.read()])


def read(body: bytes) -> dict[str, Any]:
    """An object in whichever of the three forms the client had asked for."""
    if body.startswith(b"{"):
        return orjson.loads(body)  # type: ignore[no-any-return]
    found: dict[str, Any] = protobuf.decode(body)[2] if body.startswith(b"k8s\0") else yaml.safe_load(body)
    return found


def check(request: Request, status: int, body: bytes) -> None:
    sent = f"{request.method} {request.path}?{request.query} {dict(request.headers)} {request.body[:2000]!r}"
    said = f"{sent}: {status} {body[:500]!r}"
    assert status < 500 or status in ALLOWED_5XX, said
    if status >= 400 and body != NO_SUCH_PATH:
        found = read(body)
        assert (found["kind"], found["status"], found["code"]) == ("Status", "Failure", status), said
        assert found["reason"], said
        assert found["message"], said


def prepared(server: Server) -> tuple[Cluster, Resources]:
    cluster = fresh_cluster(server)
    cluster.post(DEFINITIONS, widget_definition()).ok()
    resources = served(cluster)
    for api_version, plural, kind, namespaced in resources:
        path = ("/api/v1" if api_version == "v1" else f"/apis/{api_version}") + "/namespaces/default" * namespaced
        for name in ("x", "y", "z"):
            obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {"size": 1}}
            cluster.post(f"{path}/{plural}", obj)
    return cluster, resources


def through_the_handler(server: Server, examples: int) -> None:
    cluster, resources = prepared(server)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(requests(cluster.prefix, server.token, resources))
    def run(request: Request) -> None:
        check(request, *server.call(handled(server, request)))

    with errors_logged() as records:
        run()
    assert [record.getMessage() for record in records] == []
    assert check_cache(server, cluster.name) > 10
    cluster.close()


def through_the_socket(server: Server, examples: int) -> None:
    cluster, resources = prepared(server)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(requests("", server.token, resources), st.booleans())
    def run(request: Request, fresh: bool) -> None:
        if "watch=" in request.query:
            # In front: of a parameter given twice, the first counts.
            request.query = "timeoutSeconds=1&resourceVersion=1&" + request.query
        if fresh:
            cluster.close()
        check(request, *sent(cluster, request))

    with errors_logged() as records:
        run()
    assert [record.getMessage() for record in records] == []
    check_cache(server, cluster.name)
    cluster.close()


def sent(cluster: Cluster, request: Request) -> tuple[int, bytes]:
    path = quote(request.path.replace("..", "."), safe="/*") + (f"?{request.query}" if request.query else "")
    headers = {name: value.encode("latin-1", "replace").decode("latin-1") for name, value in request.headers.items()}
    answer: Answer = cluster.request(request.method, path, request.body, token="", **headers)
    if request.method == "HEAD":
        return 200, b""
    return answer.status, answer.body


def test_no_request_breaks_the_handler(server: Server) -> None:
    through_the_handler(server, 5_000)


def test_no_request_breaks_the_server(server: Server) -> None:
    through_the_socket(server, 500)


@pytest.mark.soak
def test_no_request_breaks_the_handler_for_long(server: Server) -> None:
    through_the_handler(server, 60_000)


@pytest.mark.soak
def test_no_request_breaks_the_server_for_long(server: Server) -> None:
    through_the_socket(server, 5_000)
