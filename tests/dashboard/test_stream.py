"""The stream of a real hub: its events, and that nobody gets more than the API allows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from shoal.apiserver.inprocess import Pipe
from shoal.clock import FakeClock
from shoal.dashboard.stream import PING_SECONDS, WatchMultiplexer
from shoal.dashboard.stream_request import StreamWatch
from shoal.objects.wire import Request, Response
from tests.dashboard.browser import BrowserStream, get, is_event
from tests.serving import Cluster, Object, Server, config_map

NAMESPACE = "dashboard"
MAPS = {"path": f"/api/v1/namespaces/{NAMESPACE}/configmaps"}
SECRETS = {"path": f"/api/v1/namespaces/{NAMESPACE}/secrets"}


@pytest.fixture
def root(server: Server) -> Iterator[Cluster]:
    root = Cluster(server, "root")
    root.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield root
    for kind in ("configmaps", "secrets"):
        root.delete(f"/api/v1/namespaces/{NAMESPACE}/{kind}")
    root.close()


def token_that_may(root: Cluster, resource: str) -> str:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    root.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": resource}})
    rule = {"apiGroups": [""], "resources": [resource], "verbs": ["get", "list", "watch"]}
    root.post(f"{rbac}/roles", {"metadata": {"name": resource}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": resource, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": resource}
    root.post(f"{rbac}/rolebindings", {"metadata": {"name": resource}, "subjects": [subject], "roleRef": role})
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{resource}/token"
    token: str = root.post(path, {"spec": {}}).ok()["status"]["token"]
    return token


def test_many_watches_are_one_stream_that_follows(root: Cluster) -> None:
    root.post(MAPS["path"], config_map("first")).ok()
    spaces = {"path": "/api/v1/namespaces"}
    with BrowserStream(root.server, {"maps": MAPS, "spaces": spaces}) as stream:
        assert stream.answer.status == 200
        assert stream.answer.headers["content-type"] == "application/x-ndjson"
        assert stream.answer.headers["cache-control"] == "no-store"
        told = stream.read_until(is_event("maps", "BOOKMARK")) + stream.read_until(is_event("spaces", "BOOKMARK"))
        added = {(line["id"], line["object"]["metadata"]["name"]) for line in told if line["type"] == "ADDED"}
        assert {("maps", "first"), ("spaces", NAMESPACE)} <= added
        root.post(MAPS["path"], config_map("second")).ok()
        last = stream.read_until(is_event("maps", "ADDED"))[-1]
        assert last["object"]["metadata"]["name"] == "second"


def test_a_cut_stream_goes_on_from_where_it_was(root: Cluster) -> None:
    root.post(MAPS["path"], config_map("known")).ok()
    with BrowserStream(root.server, {"maps": MAPS}) as stream:
        since = stream.read_until(is_event("maps", "BOOKMARK"))[-1]["object"]["metadata"]["resourceVersion"]
    root.delete(f"{MAPS['path']}/known").ok()
    with BrowserStream(root.server, {"maps": {**MAPS, "since": since}}) as stream:
        told = [line for line in stream.read_until(is_event("maps", "DELETED")) if line["type"] != "PING"]
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in told] == [("DELETED", "known")]


def test_rights_are_those_of_the_token_kind_by_kind(root: Cluster) -> None:
    token = token_that_may(root, "configmaps")
    watches = {
        "maps": MAPS,
        "secrets": SECRETS,
        "costs": {"path": "/metrics"},
        "none": {"path": "/apis/no.such/v1/things"},
    }
    with BrowserStream(root.server, watches, token) as stream:
        errors: dict[str, Object] = {}

        def all_told(line: Object) -> bool:
            if line["type"] == "ERROR":
                errors[line["id"]] = line["object"]
            assert line.get("id") == "maps" or line["type"] in ("ERROR", "PING")
            seen.add(line.get("id"))
            return {"maps", "secrets", "costs", "none"} <= seen

        seen: set[str | None] = set()
        stream.read_until(all_told)
    user = f"system:serviceaccount:{NAMESPACE}:configmaps"
    assert {name: error["code"] for name, error in errors.items()} == {"secrets": 403, "costs": 403, "none": 403}
    assert errors["secrets"]["message"].startswith(
        f'secrets is forbidden: User "{user}" cannot watch resource "secrets"'
    )


def test_without_a_good_token_there_is_nothing(server: Server) -> None:
    with BrowserStream(server, {"maps": MAPS}, token="") as stream:
        assert stream.error() == (401, "Unauthorized")
    with BrowserStream(server, {"maps": MAPS}, token="wrong") as stream:
        assert stream.read_until(is_event("maps", "ERROR"))[-1]["object"]["code"] == 401
        assert [line for line in stream.answer if b"ERROR" not in line] == []
    with BrowserStream(server, inside("any"), token="wrong") as stream:
        assert [json.loads(line).get("object", {}).get("code") for line in stream.answer] == [None, 401]


def test_a_token_that_was_withdrawn_ends_the_stream(root: Cluster) -> None:
    server, clock, pipe = root.server, FakeClock(), Pipe()
    caller = Request("POST", "/ui/stream", "", {"authorization": f"Bearer {token_that_may(root, 'secrets')}"})
    fan = WatchMultiplexer(server.shoal.server.app.handle, clock, caller, {"secrets": StreamWatch(SECRETS["path"])})
    reading = pipe.read()

    async def until(word: bytes) -> bytes:
        """All that is told up to it, or to the end."""
        told = b""
        async for piece in reading:
            told += piece
            if word in piece:
                break
        return told

    async def later() -> bytes:
        clock.step(PING_SECONDS)
        return await until(b"PING")

    async def begin() -> bytes:
        fan.start(pipe)
        return await until(b"BOOKMARK")

    assert b"PING" in server.call(begin())
    assert b"PING" in server.call(later())
    root.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/secrets").ok()
    assert b"PING" not in server.call(later())
    assert pipe.closed


def test_a_stream_ends_if_its_token_cannot_be_checked(server: Server) -> None:
    clock, pipe = FakeClock(), Pipe()

    def fail(request: Request) -> Response:
        raise KeyError("a defect")

    async def stream() -> list[bytes]:
        caller = Request("POST", "/ui/stream", "", {"authorization": "Bearer x"})
        WatchMultiplexer(fail, clock, caller, {}).start(pipe)
        await asyncio.sleep(0)
        clock.step(PING_SECONDS)
        return [piece async for piece in pipe.read()]

    assert len(server.call(stream())) == 1
    assert pipe.closed


def test_a_stream_is_asked_for_by_post_and_json(server: Server) -> None:
    assert get(server, "/ui/stream").status == 405
    bearer = f"Bearer {server.token}"
    assert get(server, "/ui/stream", "POST", Authorization=bearer, Content_Type="text/plain").status == 415
    with BrowserStream(server, {}, body=b"{}") as stream:
        assert stream.error()[0] == 400


def test_a_kind_nobody_serves_is_said_to_be_so(server: Server) -> None:
    with BrowserStream(server, {"none": {"path": "/apis/no.such/v1/things"}}) as stream:
        error = stream.read_until(is_event("none", "ERROR"))[-1]["object"]
        assert (error["code"], error["message"]) == (404, "the server could not find the requested resource")


def inside(cluster: str) -> Object:
    return {"nodes": {"path": "/api/v1/nodes", "inside": f"{NAMESPACE}/{cluster}"}}


def test_inside_a_hosted_cluster_one_looks_with_a_token_of_ones_own(root: Cluster) -> None:
    with BrowserStream(root.server, inside("gone")) as stream:
        error = stream.read_until(is_event("nodes", "ERROR"))[-1]["object"]
        assert (error["code"], error["message"]) == (
            404, 'managedclusters.infrastructure.cluster.x-k8s.io "gone" not found',
        )  # fmt: skip


def test_who_may_not_enter_sees_no_nodes(root: Cluster) -> None:
    with BrowserStream(root.server, inside("shut"), token_that_may(root, "configmaps")) as stream:
        error = stream.read_until(is_event("nodes", "ERROR"))[-1]["object"]
        assert error["code"] == 403
        assert 'cannot create resource "managedclusters/token"' in error["message"]


def test_what_nodes_cost_is_told_once_and_again_when_it_changes(server: Server) -> None:
    with BrowserStream(server, {"costs": {"path": "/metrics"}}) as stream:
        text = stream.read_until(is_event("costs", "TEXT"))[-1]["object"]
        assert [line for line in text.split("\n") if line and "cost" not in line and "plan" not in line] == []


def test_a_stream_that_is_left_leaves_no_watch_behind(root: Cluster) -> None:
    kind = root.server.shoal.server.core.cache.resource_cache("", "configmaps")
    before = kind.watcher_count
    with BrowserStream(root.server, {"maps": MAPS}) as stream:
        stream.read_until(is_event("maps", "BOOKMARK"))
        assert kind.watcher_count == before + 1
    assert root.eventually(lambda: kind.watcher_count == before)
