"""Reads a store file at one revision while a server writes it, and creates a store file from a backup.

Reading is one read transaction on a separate connection: nobody waits for it, and compaction removes nothing from it. A
created file is a store only when it is complete; the caller moves it into place then.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from shoal.store.interface import Compacted, FutureRevision, KeyValue, StoreFormatError, StoreUnavailable
from shoal.store.sqlite.file import FILE_NAME, check_initialized, connect, create_schema, read_meta

PAGE_SIZE = 64
_STATE_QUERY = """
    SELECT log.key, log.value, log.rev
    FROM (SELECT max(rev) AS rev FROM log WHERE rev <= ? GROUP BY key ORDER BY key) AS newest
    JOIN log ON log.rev = newest.rev WHERE log.value IS NOT NULL"""
"""Only keys are sorted, so that no value goes into a temporary file."""


class SqliteSnapshot:
    kind = "sqlite"
    ancestors: tuple[str, ...] = ()

    def __init__(self, connection: sqlite3.Connection, file: Path, revision: int) -> None:
        self._connection, self._file = connection, file
        with _translate_errors(file):
            connection.execute("BEGIN")
            metadata = read_meta(connection)
            self.id, compacted_revision = str(metadata["id"]), int(metadata["compacted"])
            (last,) = connection.execute("SELECT max(rev) FROM log").fetchone()
        self.newest_revision = max(last or 0, compacted_revision)
        self.revision = revision or self.newest_revision
        if self.revision > self.newest_revision:
            raise FutureRevision(revision, self.newest_revision)
        if self.revision < compacted_revision:
            raise Compacted(revision, compacted_revision)

    @classmethod
    async def open(cls, directory: Path, revision: int = 0) -> SqliteSnapshot:
        """Raises Compacted, FutureRevision, StoreFormatError or StoreUnavailable."""
        file = directory / FILE_NAME

        def open_in_thread() -> SqliteSnapshot:
            connection = open_read_only(file)
            try:
                return cls(connection, file, revision)
            except BaseException:
                connection.close()
                raise

        return await asyncio.to_thread(open_in_thread)

    def rows(self) -> Iterator[KeyValue]:
        with _translate_errors(self._file):
            for row in self._connection.execute(_STATE_QUERY, (self.revision,)):
                yield KeyValue._make(row)

    async def pages(self) -> AsyncIterator[Sequence[KeyValue]]:
        rows = self.rows()
        while page := await asyncio.to_thread(lambda: list(islice(rows, PAGE_SIZE))):
            yield page

    async def get_metadata(self, name: str) -> bytes | None:
        return None  # one server owns the file, and its keys are beside it

    async def orphaned_prefixes(self) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        self._connection.close()


def open_read_only(file: Path) -> sqlite3.Connection:
    """Opens a read-only connection to an initialized store file."""
    if not file.exists():
        raise StoreUnavailable(f"{file} does not exist")
    with _translate_errors(file):
        # Several threads use it in turn: each page may be read in another thread.
        address = f"file:{quote(str(file.absolute()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        try:
            if not check_initialized(connection, file):
                raise StoreFormatError(f"{file} is empty: it is not a Shoal store yet")
        except BaseException:
            connection.close()
            raise
    return connection


def create_restored_file(
    file: Path, store_id: str, restored_from: str, base_revision: int, records: Iterable[KeyValue]
) -> int:
    """Creates a store with these values at revisions above `base_revision`, without history. Returns the last
    revision.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    revision = base_revision
    with _translate_errors(file):
        connection = connect(file)
        try:
            create_schema(connection, store_id)
            connection.execute("BEGIN")
            for revision, record in enumerate(records, base_revision + 1):
                connection.execute("INSERT INTO log VALUES (?, ?, ?)", (revision, record.key, record.value))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,))
            connection.execute("INSERT INTO meta VALUES ('restored-from', ?)", (restored_from,))
            connection.execute("COMMIT")
        finally:
            connection.close()
    return revision


def vacuum(directory: Path) -> None:
    """Rewrites the file, so that nothing deleted is left in it. No other connection may have it open."""
    file = directory / FILE_NAME
    with _translate_errors(file):
        connection = connect(file)
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.close()


@contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise StoreFormatError(f"{file} is not a Shoal store") from error
        raise StoreUnavailable(f"{file} cannot be used: {error}") from error
