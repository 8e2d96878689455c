"""Watches on the log: history from the file first, then every batch as it becomes durable.

A watch that reads history buffers no events: it reads until it has reached the newest revision and is live from that
moment on. Until then it pins its position, so that compaction keeps the rows it still needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from shoal.store.interface import EventHandler, StoreEvent, StoreUnavailable
from shoal.store.sqlite import log
from shoal.store.sqlite.thread import ConnectionThread

RETRY_SECONDS = 1.0
logger = logging.getLogger(__name__)


class SqliteWatch:
    def __init__(self, watches: SqliteWatches, handler: EventHandler) -> None:
        self._watches = watches
        self._handler = handler
        self.cancelled = False
        self.catch_up_task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        self.cancelled = True
        self._watches.remove(self)

    def deliver(self, events: Sequence[StoreEvent]) -> None:
        if self.cancelled or not events:
            return
        try:
            self._handler(events)
        except Exception:
            # One broken handler must not stop delivery to the others or to the writers.
            logger.exception("watch failed at revision %d; ending it", events[0].revision)
            self.cancel()


class SqliteWatches:
    def __init__(self, reader: ConnectionThread, pins: dict[object, int], revision: int) -> None:
        self._reader = reader
        self._pins = pins
        self._revision = revision
        self._live: dict[SqliteWatch, None] = {}
        self._behind: set[SqliteWatch] = set()

    def add(self, after_revision: int, handler: EventHandler) -> SqliteWatch:
        watch = SqliteWatch(self, handler)
        if after_revision == self._revision:
            self._live[watch] = None
        else:
            self._pins[watch] = after_revision
            self._behind.add(watch)
            watch.catch_up_task = asyncio.ensure_future(self._catch_up(watch, after_revision))
        return watch

    def remove(self, watch: SqliteWatch) -> None:
        self._live.pop(watch, None)
        self._behind.discard(watch)
        self._pins.pop(watch, None)
        if watch.catch_up_task is not None:
            watch.catch_up_task.cancel()

    def deliver(self, events: Sequence[StoreEvent]) -> None:
        self._revision = events[-1].revision
        for watch in tuple(self._live):
            watch.deliver(events)

    def close(self) -> None:
        for watch in (*self._live, *self._behind):
            watch.cancel()

    async def _catch_up(self, watch: SqliteWatch, position: int) -> None:
        while position < self._revision:
            up_to_revision = self._revision
            try:
                events = await self._reader.run(
                    partial(log.read_history, after_revision=position, up_to_revision=up_to_revision)
                )
            except StoreUnavailable as error:
                logger.warning("cannot read history after revision %d; retrying: %s", position, error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            watch.deliver(events)
            if watch.cancelled:
                return
            position = self._pins[watch] = events[-1].revision if events else up_to_revision
        watch.catch_up_task = None
        del self._pins[watch]
        self._behind.remove(watch)
        self._live[watch] = None
