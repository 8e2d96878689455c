"""Stories: requests in a row, told to each of two servers alone, whose answers are then laid side by side."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
HANG = 60.0
"""No answer is waited for longer: a hang guard, not a measure."""
PATIENCE = 5.0
"""For what comes in a server's own time: the lines of a watch, a status that is awaited."""
MANAGER = "pairs/1.0"


@dataclass(frozen=True)
class Ask:
    """One request. `@rv@`, `@uid@`, `@continue@` and `@first@` stand for what this server said last of them."""

    method: str
    path: str
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    events: int = 0
    """Of a watch: as many lines are read, then it is left."""
    until: int = 0
    """Asked again until the status is this one: for what a server notices in its own time."""


@dataclass(frozen=True)
class Story:
    """What is asked in it depends on nothing outside it."""

    name: str
    asks: tuple[Ask, ...]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


class Side:
    """One of the two servers, and an administrator's connection to it."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._token = token
        context = ssl.create_default_context()
        # Each signs its certificates in its own way; who they are is not what is compared.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._open: Callable[[float], http.client.HTTPSConnection] = lambda seconds: http.client.HTTPSConnection(
            host, port, context=context, timeout=seconds
        )
        self._connection = self._open(HANG)
        self._known: dict[str, str] = {}

    def tell(self, stories: Iterable[Story]) -> list[list[Reply]]:
        found = []
        for story in stories:
            self._known = {}
            found.append([self.ask(each) for each in story.asks])
        self._connection.close()
        return found

    def ask(self, ask: Ask) -> Reply:
        end = time.monotonic() + PATIENCE
        reply = self._ask(ask)
        while ask.until and reply.status != ask.until and time.monotonic() < end:
            time.sleep(0.05)
            reply = self._ask(ask)
        self._remember(reply)
        return reply

    def _ask(self, ask: Ask) -> Reply:
        headers = {"User-Agent": f"{MANAGER} (x)", "Authorization": f"Bearer {self._token}", **ask.headers}
        headers = {name: self._filled(value) for name, value in headers.items() if value}
        body = self._body(ask.body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection = self._open(PATIENCE) if ask.events else self._connection
        try:
            connection.request(ask.method, self._filled(ask.path), body, headers)
            response = connection.getresponse()
            watched = ask.events and response.status == 200
            content = self._lines(response, ask.events) if watched else response.read()
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            return Reply(0, [], f"{type(error).__name__}: {error}".encode())
        if ask.events:
            connection.close()
        return Reply(response.status, response.getheaders(), content)

    @staticmethod
    def _lines(response: http.client.HTTPResponse, count: int) -> bytes:
        """As many as come, at most that many: who waits for more than there are is told fewer."""
        found: list[bytes] = []
        with contextlib.suppress(TimeoutError):
            while len(found) < count and (line := response.readline()):
                found.append(line)
        return b"".join(found)

    def _body(self, body: object) -> bytes | None:
        if body is None or isinstance(body, bytes):
            return body
        # Without blanks, as clients write it: upstream compares the `data` of a ControllerRevision as text.
        return self._filled(body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))).encode()

    def _filled(self, text: str) -> str:
        if "@" not in text:
            return text
        for name, value in self._known.items():
            text = text.replace(f"@{name}@", value)
        return text

    def _remember(self, reply: Reply) -> None:
        if reply.status >= 300 or not reply.body.startswith(b"{") or b"\n{" in reply.body:
            return
        metadata = json.loads(reply.body).get("metadata") or {}
        for name, key in (("rv", "resourceVersion"), ("uid", "uid"), ("continue", "continue")):
            if metadata.get(key):
                self._known[name] = metadata[key]
                self._known.setdefault("first" if name == "rv" else name, metadata[key])
