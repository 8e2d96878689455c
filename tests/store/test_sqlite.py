"""Tests of the embedded store only: its file, its disk, and kills."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from shoal.store.interface import CompareFailed, KeyValue, StoreEvent, StoreFormatError, StoreUnavailable
from shoal.store.sqlite import SqliteStore, log
from shoal.store.sqlite import file as store_file
from shoal.store.sqlite import store as sqlite_store
from tests.store.contract import WatchRecorder, read_state


def rows(directory: Path) -> list[tuple[int, str, bytes | None]]:
    with contextlib.closing(sqlite3.connect(directory / "shoal.db")) as connection:
        return connection.execute("SELECT rev, key, value FROM log ORDER BY rev").fetchall()


# --- the file ---


async def test_the_file_is_private_and_durable(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "new" / "data")
    file = tmp_path / "new" / "data" / "shoal.db"
    await store.put("/a", b"secret", 0)
    assert {oct(path.stat().st_mode & 0o777) for path in file.parent.iterdir()} == {"0o600"}
    assert oct(file.parent.stat().st_mode & 0o777) == "0o700"

    def pragmas(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "wal_autocheckpoint")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store._writer.run(pragmas) == ["wal", 2, 0]
    await store.close()
    assert [path.name for path in file.parent.iterdir()] == ["shoal.db"]


async def test_closing_ends_every_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    store = await SqliteStore.open(tmp_path)
    await store.put("/a", b"one", 0)
    await store.get("/a")
    assert threading.active_count() > before
    await store.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("content", [b"not a database " * 100, b"x", b"SQLite format 3\0" + b"x" * 500])
async def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "shoal.db"
    file.write_bytes(content)
    with pytest.raises(StoreFormatError) as failed:
        await SqliteStore.open(tmp_path)
    assert str(failed.value) == f"{file} is not a Shoal store"
    assert file.read_bytes() == content


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "shoal.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE kine (id INTEGER)")
    before = file.read_bytes()
    with pytest.raises(StoreFormatError) as failed:
        await SqliteStore.open(tmp_path)
    assert str(failed.value) == f"{file} is not a Shoal store"
    assert file.read_bytes() == before


async def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(store_file, "FORMAT_VERSION", 2)
        await (await SqliteStore.open(tmp_path)).close()
    before = (tmp_path / "shoal.db").read_bytes()
    with pytest.raises(StoreFormatError) as failed:
        await SqliteStore.open(tmp_path)
    assert str(failed.value) == f"{tmp_path / 'shoal.db'} has format 2, this Shoal reads format 1"
    assert (tmp_path / "shoal.db").read_bytes() == before


async def test_a_start_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "shoal.db").touch()
    store = await SqliteStore.open(tmp_path)
    assert store.revision == 1
    await store.close()


async def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable) as failed:
        await SqliteStore.open(tmp_path / "file")
    assert str(failed.value) == f"{tmp_path / 'file' / 'shoal.db'} cannot be opened: File exists"


# --- history ---


async def test_file_and_history_stay_bounded_under_churn(tmp_path: Path, sqlite: SqliteStore) -> None:
    keys = [f"/{n}" for n in range(50)]
    revisions = dict.fromkeys(keys, 0)
    sizes = []
    for _ in range(20):
        for _ in range(20):
            writes = [(key, sqlite.put(key, b"x" * 500, revisions[key])) for key in keys]
            revisions.update({key: await write for key, write in writes})
        await sqlite.compact(sqlite.revision - 500)
        sizes.append(await sqlite._writer.run(_pages))
        assert len(sqlite._garbage) == 500
    assert sqlite.revision == 20_001
    assert len(rows(tmp_path / "data")) == 550
    assert max(sizes) <= sizes[1] * 1.2
    assert {item.revision for item in (await sqlite.range(""))[0]} == set(revisions.values())


def _pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return int(pages)


async def test_a_file_that_was_large_shrinks(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SPARE_PAGES", 16)
    revision = 0
    for n in range(400):
        revision = await sqlite.put("/a", b"%d" % n * 2000, revision)
    before = await sqlite._writer.run(_pages)
    await sqlite.compact(revision)
    assert await sqlite._writer.run(_pages) < before / 4
    assert await read_state(sqlite) == {"/a": b"399" * 2000}


async def test_compaction_keeps_what_a_reader_of_the_past_needs(tmp_path: Path, sqlite: SqliteStore) -> None:
    first = await sqlite.put("/a", b"one", 0)
    second = await sqlite.put("/a", b"two", first)
    third = await sqlite.put("/a", b"three", second)
    reading = asyncio.ensure_future(sqlite.range("", revision=first))
    await asyncio.sleep(0)
    await sqlite.compact(third)
    assert await reading == ([KeyValue("/a", b"one", first)], first)
    await sqlite.compact(third)
    assert rows(tmp_path / "data") == [(third, "/a", b"three")]


async def test_compaction_cut_short_brings_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.store.sqlite.store.COMPACTION_STEP", 1)
    store = await SqliteStore.open(tmp_path)
    gone = await store.delete("/a", await store.put("/a", b"one", 0))
    drop = log.delete_rows
    steps: list[Sequence[int]] = []

    def fail_later(connection: sqlite3.Connection, revisions: Sequence[int]) -> None:
        if steps:
            raise sqlite3.OperationalError("disk I/O error")
        steps.append(revisions)
        drop(connection, revisions)

    monkeypatch.setattr(log, "delete_rows", fail_later)
    with pytest.raises(StoreUnavailable, match=r"^the store cannot be used now: disk I/O error$"):
        await store.compact(gone)
    await store.close()
    assert rows(tmp_path) == [(gone, "/a", None)]
    monkeypatch.undo()
    store = await SqliteStore.open(tmp_path)
    assert (store.compacted_revision, await read_state(store)) == (gone, {})
    await store.compact(gone)
    await store.close()
    assert rows(tmp_path) == []


async def test_writes_come_between_the_steps_of_compaction(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("append", "delete_rows"):
        monkeypatch.setattr(log, name, partial(_record_call, order, name, getattr(log, name)))
    revision = 0
    for n in range(600):
        revision = await sqlite.put("/a", b"%d" % n, revision)
    order.clear()
    compaction = asyncio.ensure_future(sqlite.compact(revision))
    while not compaction.done():
        revision = await sqlite.put("/a", b"v", revision)
    await compaction
    assert order.count("delete_rows") == 5
    first, last = order.index("delete_rows"), len(order) - 1 - order[::-1].index("delete_rows")
    assert "delete_rows delete_rows delete_rows" not in " ".join(order[first:last])


def _record_call(order: list[str], name: str, call: object, *args: object, **named: object) -> object:
    order.append(name)
    assert callable(call)
    return call(*args, **named)


# --- the disk ---


async def test_a_failed_commit_fails_everything_that_may_build_on_it(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, append, seen = threading.Event(), log.append, WatchRecorder()

    def fail(connection: sqlite3.Connection, events: Sequence[StoreEvent]) -> None:
        held.wait(10)
        raise sqlite3.OperationalError("disk I/O error")

    first = await sqlite.put("/a", b"one", 0)
    sqlite.watch(first, seen)
    monkeypatch.setattr(log, "append", fail)
    sent = sqlite.put("/a", b"two", first)
    await asyncio.sleep(0)
    behind = [sqlite.put("/a", b"three", first + 1), sqlite.put("/b", b"b", 0)]
    settled = asyncio.ensure_future(sqlite.flush())
    await asyncio.sleep(0)
    held.set()
    for write in (sent, *behind):
        with pytest.raises(StoreUnavailable, match=r"^the store cannot be written now: disk I/O error$"):
            await write
    await settled
    assert (sqlite.revision, seen.events) == (first, [])
    with pytest.raises(CompareFailed) as failed:
        sqlite.put("/a", b"four", first + 1)
    assert failed.value.current_revision == first

    monkeypatch.setattr(log, "append", append)
    second = await sqlite.put("/a", b"five", first)
    assert second == first + 1
    assert seen.events == [StoreEvent(second, "/a", b"five")]
    assert await read_state(sqlite) == {"/a": b"five"}


async def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    pages = await store._writer.run(_pages)
    await store._writer.run(lambda c: c.execute(f"PRAGMA max_page_count={pages + 10}").fetchone())
    kept: dict[str, bytes] = {}

    async def fill() -> None:
        for n in range(100):
            await store.put(f"/{n}", b"x" * 5000, 0)
            kept[f"/{n}"] = b"x" * 5000

    with pytest.raises(StoreUnavailable, match=r"^the store cannot be written now: database or disk is full$"):
        await fill()
    assert 0 < len(kept) < 100
    assert await read_state(store) == kept
    await store._writer.run(lambda c: c.execute("PRAGMA max_page_count=1000000").fetchone())
    last = await store.put("/last", b"fits", 0)
    assert last == len(kept) + 2
    await store.close()
    store = await SqliteStore.open(tmp_path)
    assert await read_state(store) == {**kept, "/last": b"fits"}
    await store.close()


async def test_a_key_that_is_no_text_harms_only_itself(sqlite: SqliteStore) -> None:
    good = sqlite.put("/a", b"one", 0)
    with pytest.raises(UnicodeEncodeError):
        sqlite.put("/\ud800", b"one", 0)
    assert await good == sqlite.revision


async def test_a_watch_that_raises_is_ended_alone(sqlite: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    def broken(events: Sequence[StoreEvent]) -> None:
        raise RuntimeError("broken")

    seen = WatchRecorder()
    sqlite.watch(1, broken)
    sqlite.watch(1, seen)
    first = await sqlite.put("/a", b"one", 0)
    second = await sqlite.put("/b", b"one", 0)
    assert [event.revision for event in seen.events] == [first, second]
    assert caplog.messages == [f"watch failed at revision {first}; ending it"]


async def test_what_is_durable_but_not_delivered_yet_is_no_history(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, held = log.append, threading.Event()

    def append_and_wait(connection: sqlite3.Connection, events: Sequence[StoreEvent]) -> None:
        append(connection, events)
        held.wait(10)

    first = await sqlite.put("/a", b"one", 0)
    monkeypatch.setattr(log, "append", append_and_wait)
    write = sqlite.put("/a", b"two", first)
    await asyncio.sleep(0)
    stored: list[StoreEvent] = []
    while len(stored) < 2:
        stored = await sqlite._reader.run(partial(log.read_history, after_revision=1, up_to_revision=first + 1))
    seen = WatchRecorder()
    sqlite.watch(1, seen)
    assert await seen.wait_for_revision(first) == [StoreEvent(first, "/a", b"one")]
    held.set()
    second = await write
    assert await seen.wait_for_revision(second) == [StoreEvent(first, "/a", b"one"), StoreEvent(second, "/a", b"two")]


async def test_history_that_cannot_be_read_is_tried_again(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    history, tries = log.read_history, []

    def fail_once(connection: sqlite3.Connection, after_revision: int, up_to_revision: int) -> list[StoreEvent]:
        tries.append(after_revision)
        if len(tries) == 1:
            raise sqlite3.OperationalError("disk I/O error")
        return history(connection, after_revision, up_to_revision)

    monkeypatch.setattr("shoal.store.sqlite.watches.RETRY_SECONDS", 0)
    monkeypatch.setattr(log, "read_history", fail_once)
    first = await sqlite.put("/a", b"one", 0)
    seen = WatchRecorder()
    sqlite.watch(1, seen)
    assert await seen.wait_for_revision(first) == [StoreEvent(first, "/a", b"one")]
    assert tries == [1, 1]


async def test_the_write_ahead_log_is_moved_away_and_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(sqlite_store, "WAL_LIMIT", 1 << 20)
    restarted = threading.Event()
    restart = log.restart_wal

    def note(connection: sqlite3.Connection) -> None:
        restart(connection)
        restarted.set()

    monkeypatch.setattr(log, "restart_wal", note)
    store = await SqliteStore.open(tmp_path)
    revision = 0
    async with asyncio.timeout(30):
        while not restarted.is_set() or await store._writer.run(log.checkpoint) > 1 << 20:
            revision = await store.put("/a", os.urandom(100_000), revision)
    await store.close()


async def test_an_idle_store_wakes_nobody(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "INTERVAL_SECONDS", 0)
    copied = asyncio.Event()
    done = sqlite._checkpointer._on_checkpoint

    def note(size: int | None, error: Exception | None) -> None:
        done(size, error)
        copied.set()

    monkeypatch.setattr(sqlite._checkpointer, "_on_checkpoint", note)
    assert sqlite._checkpointer._timer is None
    await sqlite.put("/a", b"one", 0)
    await copied.wait()
    assert sqlite._checkpointer._timer is None


# --- being killed ---

WRITER = """
import asyncio, sys
from pathlib import Path
from shoal.store.sqlite import SqliteStore

async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]))

    async def write(n: int) -> None:
        revision = 0
        for count in range(1_000_000):
            revision = await store.put(f"/{n}", b"%d" % count, revision)
            print(n, count, revision, flush=True)

    async def compact() -> None:
        while True:
            await asyncio.sleep(0.01)
            await store.compact(max(store.compacted_revision, store.revision - 50))

    await asyncio.gather(compact(), *(write(n) for n in range(8)))

asyncio.run(main())
"""


def write_until_killed(directory: Path) -> dict[str, tuple[int, int]]:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    acknowledged: dict[str, tuple[int, int]] = {}
    with child, child.stdout:
        for lines, line in enumerate(child.stdout):
            if not line.endswith("\n"):
                break
            n, count, revision = map(int, line.split())
            acknowledged[f"/{n}"] = (count, revision)
            if lines == 3000:
                child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    return acknowledged


async def test_kill_9_loses_no_acknowledged_write(tmp_path: Path) -> None:
    acknowledged = write_until_killed(tmp_path)
    store = await SqliteStore.open(tmp_path)
    found = {item.key: item for item in (await store.range(""))[0]}
    assert len(acknowledged) == 8
    for key, (count, revision) in acknowledged.items():
        assert int(found[key].value) >= count
        assert found[key].revision >= revision
    newest = max(revision for _, revision in acknowledged.values())
    assert store.revision >= newest
    assert await store.put("/after", b"v", 0) > newest
    await store.close()


async def test_revisions_rise_in_the_order_of_calls(sqlite: SqliteStore) -> None:
    revisions = await asyncio.gather(*(sqlite.put(f"/{n}", b"v", 0) for n in range(50)))
    assert revisions == sorted(revisions)


async def test_compares_see_queued_writes(sqlite: SqliteStore) -> None:
    first = sqlite.put("/a", b"one", 0)
    with pytest.raises(CompareFailed) as failed:
        sqlite.put("/a", b"two", 0)
    assert not first.done()
    assert failed.value.current_revision == await first


async def test_a_queued_write_can_be_built_upon(sqlite: SqliteStore) -> None:
    first = sqlite.put("/a", b"one", 0)
    with pytest.raises(CompareFailed) as failed:
        sqlite.put("/a", b"", 0)
    second = sqlite.put("/a", b"two", failed.value.current_revision)
    assert await first < await second
    assert await sqlite.get("/a") == KeyValue("/a", b"two", await second)
