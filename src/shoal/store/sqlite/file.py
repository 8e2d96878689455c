"""Opens the database file: creates a new one, refuses a foreign or newer one, reads the index of an existing one.

A refused file is left unchanged. Blocking; runs in the writer thread.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shoal.store.interface import StoreFormatError, StoreUnavailable

FILE_NAME = "shoal.db"
FORMAT_VERSION = 1
MAGIC = b"SQLite format 3\0"
APPLICATION_ID = 0x53484F4C
"""In the header of every Shoal file ("SHOL")."""

FIRST_REVISION = 1
WAL_LIMIT = 64 << 20
PAGE_SIZE = 8192


class SupersededRow(NamedTuple):
    superseded_at: int
    """The revision from which on the row cannot be read any more: that of the overwriting write, or of the deletion
    itself.
    """
    revision: int


@dataclass(slots=True)
class StoreIndex:
    id: str
    revision: int
    compacted_revision: int
    index: dict[str, int]
    garbage: deque[SupersededRow]


def connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    return connection


def open_file(directory: Path) -> sqlite3.Connection:
    """Returns the writer's connection to an initialized file of the supported format."""
    file = directory / FILE_NAME
    try:
        _create_file(file)
        connection = connect(file)
        try:
            _initialize(connection, file)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise StoreFormatError(f"{file} is not a Shoal store") from error
        if is_corruption(error):
            raise StoreFormatError(corruption_message(file, error)) from error
        raise StoreUnavailable(f"{file} cannot be opened: {error}") from error
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be opened: {error.strerror}") from error
    return connection


def load(connection: sqlite3.Connection, file: Path) -> StoreIndex:
    """Reads keys and revisions, never values."""
    try:
        return _read_index(connection)
    except sqlite3.DatabaseError as error:
        if not is_corruption(error):
            raise
        raise StoreFormatError(corruption_message(file, error)) from error


def is_corruption(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def corruption_message(file: Path, error: Exception) -> str:
    return (
        f"{file} is damaged ({error}); run shoal fsck for details, "
        "or shoal restore FILE --force-replace to replace it with a backup"
    )


def _read_index(connection: sqlite3.Connection) -> StoreIndex:
    metadata = read_meta(connection)
    index: dict[str, int] = {}
    garbage: deque[SupersededRow] = deque()
    revision = compacted = int(metadata["compacted"])
    for revision, key, size in connection.execute("SELECT rev, key, length(value) FROM log ORDER BY rev"):
        apply_to_index(index, garbage, revision, key, deleted=size is None)
    # The newest row may be a deletion that compaction has dropped.
    return StoreIndex(str(metadata["id"]), max(revision, compacted), compacted, index, garbage)


def apply_to_index(
    index: dict[str, int], garbage: deque[SupersededRow], revision: int, key: str, *, deleted: bool
) -> None:
    """Applies the next row of the log to the index. The order of `garbage` is the order in which rows may be deleted: a
    value before the deletion that hides it, so that no value reappears when only some rows are deleted.
    """
    previous = index.get(key)
    if previous is not None:
        garbage.append(SupersededRow(revision, previous))
    if deleted:
        garbage.append(SupersededRow(revision, revision))
        index.pop(key, None)
    else:
        index[key] = revision


def _create_file(file: Path) -> None:
    if file.exists():
        # SQLite treats a file shorter than its header as an empty database and would overwrite it.
        with file.open("rb") as opened:
            if opened.read(len(MAGIC)) not in (b"", MAGIC):
                raise StoreFormatError(f"{file} is not a Shoal store")
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # It holds Secrets. SQLite gives its other files the mode of this one.
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    for directory in (file.parent, file.parent.parent):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_initialized(connection: sqlite3.Connection, file: Path) -> bool:
    """Returns whether the file holds a store. Raises StoreFormatError if it holds something else."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID:
        version = int(read_meta(connection)["format"])
        if version != FORMAT_VERSION:
            raise StoreFormatError(
                f"{file} has format {version}, this Shoal reads format {FORMAT_VERSION}",
                "use the newer shoal that wrote it",
            )
        return True
    if application or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise StoreFormatError(f"{file} is not a Shoal store")
    return False


def _initialize(connection: sqlite3.Connection, file: Path) -> None:
    if not check_initialized(connection, file):
        create_schema(connection, str(uuid.uuid4()))
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(f"{file} cannot be opened: no write-ahead log on this file system")
    connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")


def create_schema(connection: sqlite3.Connection, store_id: str) -> None:
    connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
    connection.execute("CREATE TABLE log (rev INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB)")
    rows = [("format", FORMAT_VERSION), ("id", store_id), ("compacted", FIRST_REVISION)]
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    connection.execute("COMMIT")


def read_meta(connection: sqlite3.Connection) -> dict[str, str | int]:
    return dict(connection.execute("SELECT name, value FROM meta").fetchall())
