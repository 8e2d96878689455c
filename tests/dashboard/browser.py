"""A browser's side of `/ui/`, with plain HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any

from tests.serving import Answer, Server

Object = dict[str, Any]


def get(server: Server, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = server.connect()
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


class BrowserStream:
    """An open stream, read by `read_until`."""

    def __init__(self, server: Server, watches: Object, token: str | None = None, body: bytes | None = None) -> None:
        self._connection = server.connect()
        headers = {"Content-Type": "application/json"}
        token = server.token if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._connection.request("POST", "/ui/stream", body or json.dumps({"watches": watches}).encode(), headers)
        self.answer: http.client.HTTPResponse = self._connection.getresponse()

    def read_until(self, wanted: Callable[[Object], bool]) -> list[Object]:
        """Returns the lines up to the first match."""
        found = []
        for line in self.answer:
            found.append(json.loads(line))
            if wanted(found[-1]):
                return found
        raise AssertionError(f"the stream ended after {found}")

    def error(self) -> tuple[int, str]:
        return self.answer.status, json.loads(self.answer.read())["message"]

    def __enter__(self) -> BrowserStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def is_event(name: str, event: str) -> Callable[[Object], bool]:
    return lambda line: line.get("id") == name and line["type"] == event
