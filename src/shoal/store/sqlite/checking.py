"""Checks a store file below its objects: pages and indexes, the log and its metadata. Read-only."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from shoal.objects.errors import StoreError
from shoal.store.sqlite.copying import open_reading
from shoal.store.sqlite.file import meta

MOST = 10


def check_file(file: Path) -> list[str]:
    """Returns the problems as sentences; empty if there are none."""
    try:
        connection = open_reading(file)
    except StoreError as error:
        return [str(error)]
    try:
        return _pages(connection) or _log(connection)
    except sqlite3.Error as error:
        return [f"it cannot be read to its end: {error}"]
    finally:
        connection.close()


def _pages(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(f"PRAGMA integrity_check({MOST})").fetchall()
    return [f"SQLite says: {text}" for (text,) in rows if text != "ok"]


def _log(connection: sqlite3.Connection) -> list[str]:
    found = []
    about = meta(connection)
    (lowest,) = connection.execute("SELECT min(rev) FROM log").fetchone()
    if lowest is not None and lowest < 1:
        found.append(f"the log begins at revision {lowest}; the first there can be is 1")
    compacted = about.get("compacted")
    if not isinstance(compacted, int) or compacted < 1:
        found.append(f"the oldest revision is said to be {compacted!r}")
    (texts,) = connection.execute(
        "SELECT count(*) FROM log WHERE typeof(key) != 'text' OR typeof(value) NOT IN ('blob', 'null')"
    ).fetchone()
    if texts:
        found.append(f"{texts} rows of the log have keys or values of another type than Shoal writes")
    return found
