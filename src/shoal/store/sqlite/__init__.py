"""The embedded store: one SQLite file, one append-only log of revisions, group commit in a writer thread.

store.py         SqliteStore: the contract, compares, queue and compaction; all of it runs on the event loop watches.py
watches: history first, then live checkpointer.py  moves the write-ahead log into the database, outside the write path
thread.py        a thread that owns one connection log.py           every statement on the log; runs in such threads
snapshot.py      reads a file while it is written, and creates a file from a backup fsck.py          checks the file
below its objects file.py          opens the file: identity, format, index
"""

from shoal.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
