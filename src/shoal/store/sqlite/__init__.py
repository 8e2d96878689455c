"""The embedded store: one SQLite file, one append-only log of revisions, group commit in a writer thread.

- `store`: SqliteStore, which implements the contract: compares, queue and compaction, all on the event loop
- `watches`: watches, first through the history and then live
- `thread`: a thread that owns one connection
- `log`: every statement on the log; runs in such threads
- `snapshot`: reads a file while it is written, and creates a file from a backup
- `fsck`: checks the file below its objects
- `file`: opens the file: identity, format, index
"""

from shoal.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
