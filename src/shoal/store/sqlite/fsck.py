"""Checks a store file below its objects: pages and indexes, the log and its metadata. Read-only."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from shoal.objects.errors import StoreError
from shoal.store.sqlite.file import read_meta
from shoal.store.sqlite.snapshot import open_read_only

MAX_PROBLEMS = 10


def check_file(file: Path) -> list[str]:
    """Returns the problems as sentences; empty if there are none."""
    try:
        connection = open_read_only(file)
    except StoreError as error:
        return [str(error)]
    try:
        return _page_problems(connection) or _log_problems(connection)
    except sqlite3.Error as error:
        return [f"cannot read the whole file: {error}"]
    finally:
        connection.close()


def _page_problems(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})").fetchall()
    return [f"SQLite integrity check: {text}" for (text,) in rows if text != "ok"]


def _log_problems(connection: sqlite3.Connection) -> list[str]:
    problems = []
    metadata = read_meta(connection)
    (lowest,) = connection.execute("SELECT min(rev) FROM log").fetchone()
    if lowest is not None and lowest < 1:
        problems.append(f"the log begins at revision {lowest}; the lowest valid revision is 1")
    compacted_revision = metadata.get("compacted")
    if not isinstance(compacted_revision, int) or compacted_revision < 1:
        problems.append(f"the metadata has an invalid compacted revision: {compacted_revision!r}")
    (wrong_type_count,) = connection.execute(
        "SELECT count(*) FROM log WHERE typeof(key) != 'text' OR typeof(value) NOT IN ('blob', 'null')"
    ).fetchone()
    if wrong_type_count:
        problems.append(f"{wrong_type_count} rows of the log have a key or value of the wrong type")
    return problems
