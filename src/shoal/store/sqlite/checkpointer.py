"""Moves the write-ahead log into the database while it is written, beside the writer; idle when nothing is written.

A passive checkpoint blocks nobody but cannot restart a log in use. Above `WAL_LIMIT` the writer restarts it between two
batches, when little is left to copy.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from shoal.store.sqlite import log
from shoal.store.sqlite.file import WAL_LIMIT, connect
from shoal.store.sqlite.thread import ConnectionThread

INTERVAL_SECONDS = 0.5


class WALCheckpointer:
    def __init__(self, file: Path, writer: ConnectionThread) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._thread = ConnectionThread("shoal-store-checkpoint", lambda: connect(file))
        self._timer: asyncio.TimerHandle | None = None
        self._dirty = False
        self._closed = False

    def on_write(self) -> None:
        self._dirty = True
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(INTERVAL_SECONDS, self._start)

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._thread.stop()

    def _start(self) -> None:
        self._dirty = False
        self._thread.submit(log.checkpoint, self._on_checkpoint)

    def _on_checkpoint(self, size: int | None, error: Exception | None) -> None:
        self._timer = None
        if self._closed:
            return
        if size is not None and size > WAL_LIMIT:
            self._writer.submit(log.restart_wal, lambda _result, _error: None)
        if self._dirty:
            self.on_write()
