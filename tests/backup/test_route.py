"""`GET /backup` without a server: clients that do not read, that disconnect, and that are too many."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from shoal.assemble.server import backup_route
from shoal.assemble.server.backup_route import BackupRoute
from shoal.clock import SystemClock
from shoal.objects.errors import StoreError, TooManyRequests
from shoal.objects.wire import Request, StreamResponse
from shoal.store.backup import format as backup_format
from shoal.store.backup.format import verify
from shoal.store.interface import KeyValue, StoreUnavailable


class FakeSnapshot:
    """A snapshot that repeats the same records."""

    kind, id, revision, newest_revision = "sqlite", "s", 5, 5
    ancestors: tuple[str, ...] = ()

    def __init__(self, pages: int, fails: bool = False) -> None:
        self._pages, self._fails = pages, fails
        self.read = 0
        self.closed = asyncio.Event()

    async def pages(self) -> AsyncIterator[Sequence[KeyValue]]:
        for number in range(self._pages):
            self.read += 1
            yield [KeyValue(f"/{number}", random.Random(number).randbytes(20_000), 5)]
        if self._fails:
            raise StoreUnavailable("the disk is gone")

    async def get_metadata(self, name: str) -> bytes | None:
        return None

    async def orphaned_prefixes(self) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        self.closed.set()


class FakeSink:
    """A sink that accepts as much as it is configured to."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads, self.closed, self.aborted = reads, False, False
        self.data = b""
        self.ended = asyncio.Event()
        self._closing: list[Callable[[], None]] = []

    @property
    def pending_bytes(self) -> int:
        return 0 if self.reads else len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True
        self.ended.set()

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def leave(self) -> None:
        self.close()
        for callback in self._closing:
            callback()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._closing.append(callback)

    def on_drain(self, callback: Callable[[], None]) -> None:
        pass


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_format, "CHUNK_BYTES", 10_000)
    monkeypatch.setattr(backup_route, "MAX_PENDING_BYTES", 100_000)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


def begin(route: BackupRoute, client: FakeSink) -> None:
    answer = route.handle(Request("GET", "/backup"))
    assert isinstance(answer, StreamResponse)
    answer.start(client)


def route_to(source: FakeSnapshot, tmp_path: Path) -> BackupRoute:
    async def opened(revision: int) -> FakeSnapshot:
        return source

    return BackupRoute(opened, tmp_path, SystemClock())


async def test_a_client_that_reads_gets_all_of_it(tmp_path: Path) -> None:
    source, client = FakeSnapshot(5), FakeSink()
    begin(route_to(source, tmp_path), client)
    async with asyncio.timeout(60):
        await client.ended.wait()
    assert verify(io.BytesIO(client.data), "sent")[1] == 5
    assert source.closed.is_set()


async def test_what_the_store_says_in_the_middle_is_said(tmp_path: Path) -> None:
    client = FakeSink()
    begin(route_to(FakeSnapshot(5, fails=True), tmp_path), client)
    async with asyncio.timeout(60):
        await client.ended.wait()
    with pytest.raises(StoreError, match="the disk is gone"):
        verify(io.BytesIO(client.data), "sent")


async def test_who_does_not_read_is_cut_off_and_little_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_route, "CLIENT_TIMEOUT_SECONDS", 0.05)
    source, client = FakeSnapshot(1000), FakeSink(reads=False)
    begin(route_to(source, tmp_path), client)
    async with asyncio.timeout(60):
        await source.closed.wait()
    assert client.aborted
    assert source.read < 50


async def test_who_leaves_leaves_nothing_behind(tmp_path: Path) -> None:
    source, client = FakeSnapshot(1000), FakeSink(reads=False)
    route = route_to(source, tmp_path)
    begin(route, client)
    await until(lambda: client.pending_bytes > backup_route.MAX_PENDING_BYTES)
    client.leave()
    await until(lambda: not route._tasks)
    assert source.closed.is_set()
    assert not client.aborted


async def test_many_at_once_are_told_to_come_later(tmp_path: Path) -> None:
    route, clients = route_to(FakeSnapshot(1000), tmp_path), [FakeSink(reads=False), FakeSink(reads=False)]
    for client in clients:
        begin(route, client)
    with pytest.raises(TooManyRequests):
        route.handle(Request("GET", "/backup"))
    for client in clients:
        client.leave()
    await until(lambda: not route._tasks)
    begin(route, last := FakeSink())
    last.leave()
    await until(lambda: not route._tasks)
