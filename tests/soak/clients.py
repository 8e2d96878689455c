"""Clients that write down what they ask and what they are told: writers and readers of shared keys, and followers.

They retry as client-go does: somebody else is asked when a server cannot be reached, 429 is waited for, reads are
repeated. A write that got no answer is not repeated: nobody knows whether it was done.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.faults.processes import HANG
from tests.serving import config_map
from tests.soak.history import Followed, Outcome, Request, State, Told

Object = dict[str, Any]
PATIENCE, LONG_PATIENCE = 8.0, 25.0
"""Seconds until somebody else is asked; some wait until the server itself gives up."""
LOST = (OSError, http.client.HTTPException)
LEAKED = "ignore:unclosed <ssl.SSLSocket:ResourceWarning"
"""What a test whose servers die has to ignore: Python's `ssl` loses a socket that is reset between its connection and
its first handshake byte, and nobody has it to close it."""


@dataclass
class Place:
    """Where servers of one store are, and the collection that is the clients' own."""

    servers: list[tuple[str, int]]
    token: str
    context: ssl.SSLContext
    path: str = "/api/v1/namespaces/default/configmaps"


@dataclass
class Record:
    """What one client saw; only its thread writes."""

    requests: list[Request] = field(default_factory=list)
    followed: list[Followed] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    """Requests that were sent and got no answer, by method; watches that were cut."""
    ends: int = 0
    """Watches that ended properly."""


class Cut(Exception):
    """The request was sent, and there was no answer."""


def connected(server: tuple[str, int], context: ssl.SSLContext, patience: float) -> http.client.HTTPSConnection:
    """As the library does it; that one leaves a socket open whose handshake fails."""
    plain = socket.create_connection(server, patience)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialled = context.wrap_socket(plain, server_hostname=server[0], do_handshake_on_connect=False)
    except BaseException:
        plain.close()
        raise
    try:
        dialled.do_handshake()
    except BaseException:
        dialled.close()
        raise
    made = http.client.HTTPSConnection(*server, context=context, timeout=patience)
    made.sock = dialled
    return made


class Client(threading.Thread):
    def __init__(self, number: int, place: Place, stop: threading.Event) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.number, self.record = number, Record()
        self._place, self._stopping = place, stop
        self._dice = random.Random(number)
        self._patience = PATIENCE
        self._turn = number
        self._connection: http.client.HTTPSConnection | None = None
        self._answer: http.client.HTTPResponse | None = None
        self.wrong: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.wrong = error
        finally:
            self.leave()

    def work(self) -> None:
        raise NotImplementedError

    # --- one request ---

    def send(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        """Whose answer begins to come. Cut: it was sent, and nobody knows what became of it."""
        connection = self._connected()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._place.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, data, headers)
            answer = self._answer = connection.getresponse()
        except LOST as error:
            self._elsewhere()
            self.record.unanswered[method] += 1
            raise Cut(str(error)) from None
        self.record.statuses[answer.status] += 1
        return answer

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Object]:
        """429 is waited for; so are other failures of reads."""
        end = time.monotonic() + HANG
        while True:
            assert time.monotonic() < end, f"{method} {path} is never answered"
            try:
                answer = self.send(method, path, body)
                content = answer.read()
            except (Cut, *LOST):
                self._elsewhere()
                if method == "GET":
                    continue
                raise Cut(method) from None
            status = answer.status
            if status == 429 or (status >= 500 and method == "GET"):
                self._stopping.wait(min(float(answer.headers.get("Retry-After") or 0.2), 1.0))
                if status >= 500:
                    self._elsewhere()
                continue
            return status, json.loads(content)

    def _connected(self) -> http.client.HTTPSConnection:
        """Where nobody listens, nothing was sent: the next one is asked."""
        end = time.monotonic() + HANG
        while True:
            if self._connection is not None and self._connection.sock is not None:
                return self._connection
            try:
                server = self._place.servers[self._turn % len(self._place.servers)]
                self._connection = connected(server, self._place.context, self._patience)
            except LOST:
                assert time.monotonic() < end, "nobody serves any more"
                self._elsewhere()
                time.sleep(self._dice.uniform(0.05, 0.2))

    def _elsewhere(self) -> None:
        self.leave()
        self._turn += 1

    def leave(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def listed(self) -> Request:
        called = time.monotonic()
        status, found = self.ask("GET", self._place.path)
        assert status == 200, found
        states = {
            item["metadata"]["name"]: State(int(item["metadata"]["resourceVersion"]), item["data"]["v"])
            for item in found["items"]
            if "v" in (item.get("data") or {})
        }
        made = Request(
            self.number,
            "list",
            "",
            called,
            time.monotonic(),
            Outcome.DONE,
            int(found["metadata"]["resourceVersion"]),
            found=states,
        )
        self.record.requests.append(made)
        return made


class Worker(Client):
    """Reads and writes keys that all of its kind share, each change on what it has seen last."""

    def __init__(self, number: int, place: Place, stop: threading.Event, keys: int, pause: float) -> None:
        super().__init__(number, place, stop)
        self._keys = [f"k{key}" for key in range(keys)]
        self._pause = pause
        self._patience = LONG_PATIENCE if number % 4 == 0 else PATIENCE
        self._count = 0
        self._seen: dict[str, int] = {}

    def work(self) -> None:
        while not self._stopping.is_set():
            self.step()
            self._stopping.wait(self._dice.uniform(0.0, 2 * self._pause))

    def step(self) -> None:
        chance, key = self._dice.random(), self._dice.choice(self._keys)
        if chance < 0.1:
            self._seen = {name: state.revision for name, state in self.listed().found.items()}
        elif chance < 0.3 or (key not in self._seen and chance < 0.7):
            self.get(key)
        elif key not in self._seen:
            self.write("create", key)
        else:
            self.write("delete" if chance < 0.5 else "update", key)

    def get(self, key: str) -> None:
        called = time.monotonic()
        status, found = self.ask("GET", f"{self._place.path}/{key}")
        assert status in (200, 404), found
        revision = int(found["metadata"]["resourceVersion"]) if status == 200 else 0
        self._note("get", key, called, Outcome.DONE, revision, found["data"]["v"] if revision else "")
        self._remember(key, revision)

    def write(self, verb: str, key: str) -> None:
        self._count += 1
        value, before = f"{self.number}.{self._count}", self._seen.pop(key, 0)
        path = self._place.path if verb == "create" else f"{self._place.path}/{key}"
        if verb == "delete":
            method, body, value = "DELETE", {"preconditions": {"resourceVersion": str(before)}}, ""
        else:
            method = "POST" if verb == "create" else "PUT"
            body = config_map(key, {"v": value}, **({"resourceVersion": str(before)} if before else {}))
        called = time.monotonic()
        try:
            status, answer = self.ask(method, path, body)
        except Cut:
            self._note(verb, key, called, Outcome.UNKNOWN, 0, value, before)
            return
        if status in (200, 201):
            revision = 0 if verb == "delete" else int(answer["metadata"]["resourceVersion"])
            self._note(verb, key, called, Outcome.DONE, revision, value, before)
            self._remember(key, revision)
        elif status in (404, 409):
            self._note(verb, key, called, Outcome.REFUSED, 0, value, before)
        else:
            assert status in (503, 504), answer
            self._note(verb, key, called, Outcome.UNKNOWN, 0, value, before)
            self._elsewhere()

    def _remember(self, key: str, revision: int) -> None:
        if revision:
            self._seen[key] = revision
        else:
            self._seen.pop(key, None)

    def _note(
        self, verb: str, key: str, called: float, outcome: Outcome, revision: int, value: str, before: int = 0
    ) -> None:
        now = time.monotonic()
        self.record.requests.append(Request(self.number, verb, key, called, now, outcome, revision, value, before))


class Follower(Client):
    """Lists, and watches from there on; begins anew only when it is told that history is gone."""

    def __init__(self, number: int, place: Place, stop: threading.Event) -> None:
        super().__init__(number, place, stop)
        self.until = 0
        """The revision after which it may end, once it is known."""
        self.began = threading.Event()
        self._last = 0

    def work(self) -> None:
        self._begin()
        self.began.set()
        while not self._over():
            try:
                self._follow()
            except (Cut, *LOST):
                self._elsewhere()

    def _begin(self) -> None:
        listed = self.listed()
        self.record.followed.append(Followed(listed))
        self._last = listed.revision

    def _over(self) -> bool:
        return bool(self.until) and self._last >= self.until

    def _follow(self) -> None:
        query = f"watch=1&allowWatchBookmarks=true&confirm=true&resourceVersion={self._last}"
        answer = self.send("GET", f"{self._place.path}?{query}")
        if answer.status != 200:
            answer.read()
            self._elsewhere()
            if answer.status == 410:
                self._begin()
            return
        for event in self._events(answer):
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 410, event
                self._begin()
                return
            self._take(event)
            if self._over():
                self.leave()
                return

    def _events(self, answer: http.client.HTTPResponse) -> Iterator[Object]:
        """Until it ends; silence ends it too, for it may be that nobody is there any more."""
        while True:
            try:
                line = answer.readline()
            except TimeoutError:
                raise Cut("silence") from None
            except (ValueError, *LOST):
                self.record.unanswered["watch"] += 1
                raise Cut("watch") from None
            if not line:
                if answer.isclosed():
                    self.record.ends += 1
                else:
                    self.record.unanswered["watch"] += 1
                self._elsewhere()
                return
            yield json.loads(line)

    def _take(self, event: Object) -> None:
        obj, kind = event["object"], event["type"]
        metadata = obj["metadata"]
        revision = int(metadata["resourceVersion"])
        if kind == "BOOKMARK" or "v" in (obj.get("data") or {}):
            value = "" if kind == "BOOKMARK" else obj["data"]["v"]
            told = Told(kind, metadata.get("name", ""), revision, value, time.monotonic())
            self.record.followed[-1].told.append(told)
        self._last = max(self._last, revision)
