"""docs/architecture.md, "Three requests, by file and function": the tables say what really happens."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from types import FrameType

import pytest

import shoal
from tests.serving import Cluster, Server, config_map, fresh_cluster

PACKAGE = Path(shoal.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MAPS = "/api/v1/namespaces/default/configmaps"
WARM_UP = 3
"""Requests before the one that is followed: caches are filled then."""

Call = tuple[str, str, bool]
"""File, function, and whether the call comes from another file."""


class Trace:
    """All calls of functions of the tree in the thread of the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.calls: list[Call] = []

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        path = _path(frame)
        if event != "call" or path is None:
            return
        caller = frame.f_back
        while caller is not None and _path(caller) is None:
            caller = caller.f_back
        name = frame.f_code.co_qualname
        self.calls.append((path, name, caller is None or _path(caller) != path))

    def __enter__(self) -> Trace:
        self._server.call(self._set(self._note))
        return self

    def __exit__(self, *_: object) -> None:
        self._server.call(self._set(None))

    async def _set(self, profile: object) -> None:
        sys.setprofile(profile)  # type: ignore[arg-type]

    def entered(self, path: str) -> int:
        return sum(1 for where, _, enters in self.calls if where == path and enters)


def _path(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(f"{PACKAGE}/") if name.startswith(str(PACKAGE)) else None


@pytest.fixture
def whole(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, "cluster")
    yield cluster
    cluster.close()


def table(title: str) -> list[tuple[str, list[str], int | None]]:
    """Rows of a table: file, functions in their order, and how often the file is entered if that is said."""
    section = PAGE.read_text().partition("\n## Three requests, by file and function\n")[2].partition("\n## ")[0]
    rows = section.partition(f"\n### {title}\n")[2].partition("\n### ")[0]
    found = re.findall(r"^\| \d+ \| `([\w/.]+)` \| (.*?) \| (\d*) ?\|", rows, re.MULTILINE)
    return [(path, re.findall(r"`([\w.]+)`", text), int(count) if count else None) for path, text, count in found]


def get(cluster: Cluster) -> Trace:
    cluster.post(MAPS, config_map("a")).ok()
    for _ in range(WARM_UP):
        cluster.get(f"{MAPS}/a").ok()
    with Trace(cluster.server) as trace:
        cluster.get(f"{MAPS}/a").ok()
    return trace


def create(cluster: Cluster) -> Trace:
    for number in range(WARM_UP):
        cluster.post(MAPS, config_map(f"w{number}")).ok()
    with Trace(cluster.server) as trace:
        post_in_one_piece(cluster, config_map("a"))
    return trace


def post_in_one_piece(cluster: Cluster, body: object) -> None:
    """As most clients send a small body: with its head."""
    data = json.dumps(body).encode()
    head = (
        f"POST {cluster.prefix}{MAPS} HTTP/1.1\r\nHost: shoal\r\nAuthorization: Bearer {cluster.server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    sock = cluster._connection.sock
    sock.sendall(head.encode() + data)
    with HTTPResponse(sock) as answer:
        answer.begin()
        assert answer.status == 201, answer.read()


def watch(cluster: Cluster) -> Trace:
    cluster.post(MAPS, config_map("a")).ok()
    path = f"{MAPS}?fieldSelector=metadata.name%3Da"
    for _ in range(WARM_UP):
        with cluster.watch(path) as warm:
            warm.next()
    with Trace(cluster.server) as trace, cluster.watch(path) as followed:
        followed.next()
        cluster.delete(f"{MAPS}/a").ok()
        followed.next()
    return trace


WALKS = {"GET of a ConfigMap": get, "POST of a ConfigMap": create, "WATCH of a ConfigMap": watch}


@pytest.mark.parametrize("title", WALKS)
def test_a_request_takes_the_way_that_is_described(whole: Cluster, title: str) -> None:
    rows = table(title)
    assert len(rows) > 5
    trace = WALKS[title](whole)
    calls = iter((path, name) for path, name, _ in trace.calls)
    described = [(path, name) for path, names, _ in rows for name in names]
    missed = next((step for step in described if step not in calls), None)
    assert missed is None, f"{missed} is not called, or not at that point"


@pytest.mark.parametrize("title", ["GET of a ConfigMap", "POST of a ConfigMap"])
def test_files_are_entered_as_often_as_described(whole: Cluster, title: str) -> None:
    counts = {path: count for path, _, count in table(title) if count is not None}
    trace = WALKS[title](whole)
    assert {path: trace.entered(path) for path in counts} == counts
