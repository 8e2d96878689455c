"""Every statement on an open store file. Blocking; each function runs in the thread of its connection.

A writing function is one transaction: if it raises, nothing has changed; if it returns, everything is durable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from shoal.store.interface import KeyValue, StoreEvent
from shoal.store.sqlite.file import WAL_LIMIT

CHUNK_ROWS = 256
CHUNK_BYTES = 1 << 20
CHECKPOINT_PASSES = 3
VACUUM_PAGES = 16
SPARE_PAGES = 1024
"""Free pages that are always kept for reuse. Beyond that, up to half of a file may be free before space is released."""


def append(connection: sqlite3.Connection, events: Sequence[StoreEvent]) -> None:
    with _transaction(connection):
        connection.executemany("INSERT INTO log VALUES (?, ?, ?)", events)


def set_compacted(connection: sqlite3.Connection, revision: int) -> None:
    connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,))


def delete_rows(connection: sqlite3.Connection, revisions: Sequence[int]) -> None:
    with _transaction(connection):
        connection.executemany("DELETE FROM log WHERE rev = ?", [(revision,) for revision in revisions])


def release_free_pages(connection: sqlite3.Connection) -> bool:
    """Returns a few free pages to the file system; False if there are few enough."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if free <= SPARE_PAGES or free * 2 <= pages:
        return False
    # The pragma returns a row without columns per page; `execute` would stop at the first.
    connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
    return True


def checkpoint(connection: sqlite3.Connection) -> int:
    """Copies what it can without blocking anybody and returns the bytes of the write-ahead log in use. Pages written
    during a long copy are copied again, so that `restart_wal` has little to do.
    """
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    size = 0
    for _ in range(CHECKPOINT_PASSES):
        _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        size = int(frames) * int(page)
        if size <= WAL_LIMIT:
            break
    return size


def restart_wal(connection: sqlite3.Connection) -> None:
    """Restarts the write-ahead log unless a reader uses it: writes must not wait for a reader."""
    connection.execute("PRAGMA busy_timeout=0")
    try:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    finally:
        connection.execute("PRAGMA busy_timeout=5000")


def value_of(connection: sqlite3.Connection, revision: int) -> bytes:
    row = connection.execute("SELECT value FROM log WHERE rev = ?", (revision,)).fetchone()
    return bytes(row[0])


def read_history(connection: sqlite3.Connection, after_revision: int, up_to_revision: int) -> list[StoreEvent]:
    """Returns the first events of that range, as many as fit a chunk."""
    events: list[StoreEvent] = []
    size = 0
    rows = connection.execute(
        "SELECT rev, key, value FROM log WHERE rev > ? AND rev <= ? ORDER BY rev", (after_revision, up_to_revision)
    )
    for row in rows:
        event = StoreEvent._make(row)
        events.append(event)
        size += len(event.value or b"")
        if len(events) == CHUNK_ROWS or size >= CHUNK_BYTES:
            break
    rows.close()
    return events


def read_range(
    connection: sqlite3.Connection, index: Mapping[str, int] | None, revision: int, prefix: str, start: str, limit: int
) -> list[KeyValue]:
    """`index` holds the keys of that revision, if the caller has it."""
    if index is None:
        index = _index_at(connection, revision, prefix)
    # Code points sort as their UTF-8 bytes do.
    keys = sorted(key for key in index if key >= start and key.startswith(prefix))
    remaining = iter(keys[:limit] if limit else keys)
    items: list[KeyValue] = []
    while chunk := list(islice(remaining, CHUNK_ROWS)):
        revisions = [index[key] for key in chunk]
        marks = ",".join("?" * len(chunk))
        rows = dict(connection.execute(f"SELECT rev, value FROM log WHERE rev IN ({marks})", revisions).fetchall())
        items += [KeyValue(key, rows[revision], revision) for key, revision in zip(chunk, revisions, strict=True)]
    return items


def _index_at(connection: sqlite3.Connection, revision: int, prefix: str) -> dict[str, int]:
    index: dict[str, int] = {}
    low = prefix.encode()
    high = low[:-1] + bytes((low[-1] + 1,)) if low else b"\xff"
    rows = connection.execute(
        "SELECT rev, key, length(value) FROM log"
        " WHERE rev <= ? AND CAST(key AS BLOB) >= ? AND CAST(key AS BLOB) < ? ORDER BY rev",
        (revision, low, high),
    )
    for row_revision, key, size in rows:
        if size is None:
            index.pop(key, None)
        else:
            index[key] = row_revision
    return index


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    if connection.in_transaction:  # an earlier rollback has failed
        connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
