"""Ten times the load the machine can serve: Leases, health and the administrator are still answered, memory is bounded.

Users with ServiceAccounts of their own list thousands of objects and write as fast as an open loop of connections
sends, ten times what the server was seen to serve. In `make test` a small one, which asserts what was answered; the
times and the memory are of `make soak`.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import Up

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WITHIN = 1.0
"""Seconds."""
HANG = 120.0
CONNECTIONS = 800
BUFFERED = 0.3
"""Megabytes that the server holds at most for one client that takes its answer slowly."""

Answer = tuple[int, bytes]


@dataclass(frozen=True)
class Door:
    port: int
    authority: str

    @cached_property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)


class Wire:
    """One connection with plain requests on it; it is opened anew when the server has closed it."""

    def __init__(self, door: Door, token: str) -> None:
        self._door, self._token = door, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._door.port, ssl=self._door.context)
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        kind = "merge-patch+json" if method == "PATCH" else "json"
        who = f"Authorization: Bearer {self._token}\r\n" if self._token else ""
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: shoal\r\n{who}"
            f"Content-Type: application/{kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return int(head.split(b" ", 2)[1]), await reader.readexactly(int(lengths[0].split(b":")[1]))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


@dataclass
class Seen:
    """What came of the requests of one sort."""

    codes: dict[int, int] = field(default_factory=dict)
    longest: float = 0.0
    failed: int = 0

    def add(self, code: int, seconds: float) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1
        self.longest = max(self.longest, seconds)


async def timed(seen: Seen, wire: Wire, method: str, path: str, body: object = None) -> None:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(HANG):
            code, _ = await wire.ask(method, path, body)
    except (OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError):
        wire.close()
        seen.failed += 1
        return
    seen.add(code, time.perf_counter() - began)


class Flood:
    """An open loop: so many requests a second are begun, whatever became of the last ones; connections are bounded."""

    def __init__(self, door: Door, tokens: list[str], rate: float, connections: int) -> None:
        self.seen = Seen()
        self._rate = rate
        self._idle = [Wire(door, tokens[number % len(tokens)]) for number in range(connections)]
        self._all = list(self._idle)
        self._running: set[asyncio.Task[None]] = set()
        self.dropped = 0
        """No connection was free: the server had as many to answer already."""

    async def run(self, seconds: float) -> None:
        began, begun = time.perf_counter(), 0
        while (now := time.perf_counter() - began) < seconds:
            while begun < now * self._rate:
                begun += 1
                if not self._idle:
                    self.dropped += 1
                    continue
                task = asyncio.create_task(self._one(self._idle.pop(), begun))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            await asyncio.sleep(0.005)

    async def end(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for wire in self._all:
            wire.close()

    async def _one(self, wire: Wire, number: int) -> None:
        try:
            await asked(self.seen, wire, number)
        finally:
            self._idle.append(wire)


async def asked(seen: Seen, wire: Wire, number: int) -> None:
    """Three lists for one write."""
    if number % 4:
        await timed(seen, wire, "GET", f"{CONFIG_MAPS}?labelSelector=odd%21%3Dyes")
    else:
        body = {"metadata": {"generateName": "flood-"}, "data": {"v": "x" * 200}}
        await timed(seen, wire, "POST", CONFIG_MAPS, body)


def watched(door: Door, holder: str, admin: str, seconds: float) -> dict[str, Seen]:
    """Whom nobody may keep waiting: a Lease that is renewed, the health, and the administrator. In a process of its
    own: the one that floods is too busy to tell the time."""
    return asyncio.run(_watched(door, holder, admin, seconds))


async def _watched(door: Door, holder: str, admin: str, seconds: float) -> dict[str, Seen]:
    found = {"leases": Seen(), "health": Seen(), "admin": Seen()}
    end = time.perf_counter() + seconds

    async def one(name: str, token: str, method: str, path: str) -> None:
        wire, seen = Wire(door, token), found[name]
        while time.perf_counter() < end:
            body = {"spec": {"holderIdentity": f"me-{sum(seen.codes.values())}"}} if method == "PATCH" else None
            await timed(seen, wire, method, path, body)
            if name != "leases":
                wire.close()  # kubectl and probes come anew each time
            await asyncio.sleep(0.1)
        wire.close()

    await asyncio.gather(
        one("leases", holder, "PATCH", f"{LEASES}/leader"),
        one("health", "", "GET", "/readyz"),
        one("admin", admin, "GET", "/api/v1/namespaces/default"),
    )
    return found


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path, "--root-profile", "cluster", verb="hub", ready="ready")
    yield running
    running.close()


async def prepared(door: Door, token: str, objects: int, users: int) -> list[str]:
    """The objects are there, and tokens of users who may read and write them."""
    admin = Wire(door, token)
    everybody = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "users"}, "subjects": everybody, "roleRef": role}
    assert (await admin.ask("POST", f"{RBAC}/clusterrolebindings", binding))[0] == 201
    for number in range(objects):
        labels = {"odd": "yes" if number % 2 else "no"}
        body = {"metadata": {"name": f"c{number}", "labels": labels}, "data": {"v": "x" * 200}}
        assert (await admin.ask("POST", CONFIG_MAPS, body))[0] == 201
    assert (await admin.ask("POST", LEASES, {"metadata": {"name": "leader"}}))[0] == 201
    tokens = []
    for number in range(users):
        name = f"user-{number}"
        assert (await admin.ask("POST", ACCOUNTS, {"metadata": {"name": name}}))[0] == 201
        code, answer = await admin.ask("POST", f"{ACCOUNTS}/{name}/token", {"spec": {}})
        assert code == 201
        tokens.append(str(json.loads(answer)["status"]["token"]))
    admin.close()
    return tokens


async def capacity(door: Door, tokens: list[str], seconds: float) -> float:
    """How many a second are served to a few who wait for each answer."""
    seen, end = Seen(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        wire, turn = Wire(door, tokens[number % len(tokens)]), number
        while time.perf_counter() < end:
            turn += 1
            await asked(seen, wire, turn)
        wire.close()

    await asyncio.gather(*(client(number) for number in range(8)))
    return sum(seen.codes.values()) / seconds


def resident(up: Up) -> int:
    for line in Path(f"/proc/{up.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise AssertionError("no VmRSS")


async def flooded(up: Up, objects: int, connections: int, seconds: float) -> dict[str, Any]:
    door = Door(up.port, str(up.data / "pki" / "ca.crt"))
    tokens = await prepared(door, up.token, objects, 6)
    alone = await capacity(door, tokens[1:], min(seconds, 3.0))
    before = resident(up)
    flood = Flood(door, tokens[1:], alone * 10, connections)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        watching = asyncio.wrap_future(pool.submit(watched, replace(door), tokens[0], up.token, seconds))
        await flood.run(seconds)
        during = resident(up)
        found = await watching
    await flood.end()
    after, wire = Seen(), Wire(door, tokens[1])
    await timed(after, wire, "GET", f"{CONFIG_MAPS}/c0")
    wire.close()
    return {
        "a second alone": alone,
        "flood": flood.seen,
        "dropped": flood.dropped,
        "MB": (before, during),
        "after": after,
        **found,
    }


def test_nobody_who_matters_is_refused(up: Up) -> None:
    found = asyncio.run(flooded(up, objects=300, connections=60, seconds=2.0))
    for name in ("leases", "health", "admin"):
        assert list(found[name].codes) == [200], name
        assert found[name].failed == 0, name
    assert set(found["flood"].codes) <= {200, 201, 429}
    assert found["after"].codes == {200: 1}


@pytest.mark.soak
def test_ten_times_the_load(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    found = asyncio.run(flooded(up, objects=3000, connections=CONNECTIONS, seconds=30.0))
    with capsys.disabled():
        print()
        for name, value in found.items():
            print(f"{name}: {value}")
    for name in ("leases", "health", "admin"):
        assert list(found[name].codes) == [200], name
        assert found[name].longest < WITHIN, name
    before, during = found["MB"]
    assert during - before < BUFFERED * CONNECTIONS + 100
    assert found["after"].codes == {200: 1}
    assert found["after"].longest < WITHIN
