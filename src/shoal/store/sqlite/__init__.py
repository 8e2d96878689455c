"""The embedded store: one SQLite file, one append-only log of revisions, group commit in a writer thread.

store.py       SqliteStore: the contract, compares, queue and compaction; everything here is on the loop
watching.py    watches: history first, then live
checkpoints.py moves the write-ahead log into the database, off the path of writes
thread.py      a thread that owns one connection
log.py         every statement on the log; runs in such threads
copying.py     a file read while it is written, and a file made from a backup
file.py        opening: whose file is it, which format, what is in it
"""

from shoal.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
