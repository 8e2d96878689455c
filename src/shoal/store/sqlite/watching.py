"""Watches on the log: history from the file first, then every batch as it becomes durable.

A watch that reads history buffers no events: it reads until it has reached the newest revision and is live from that
moment on. Until then it pins its position, so that compaction keeps the rows it still needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from shoal.store.interface import Deliver, Event, StoreUnavailable
from shoal.store.sqlite import log
from shoal.store.sqlite.thread import ConnectionThread

RETRY_SECONDS = 1.0
logger = logging.getLogger(__name__)


class Watch:
    def __init__(self, watches: Watches, deliver: Deliver) -> None:
        self._watches = watches
        self._deliver = deliver
        self.cancelled = False
        self.reading: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        self.cancelled = True
        self._watches.drop(self)

    def hand(self, events: Sequence[Event]) -> None:
        if self.cancelled or not events:
            return
        try:
            self._deliver(events)
        except Exception:
            # One broken handler must not stop delivery to the others or to the writers.
            logger.exception("a watch failed at revision %d and is ended", events[0].revision)
            self.cancel()


class Watches:
    def __init__(self, reader: ConnectionThread, pins: dict[object, int], revision: int) -> None:
        self._reader = reader
        self._pins = pins
        self._revision = revision
        self._live: dict[Watch, None] = {}
        self._behind: set[Watch] = set()

    def add(self, after: int, deliver: Deliver) -> Watch:
        watch = Watch(self, deliver)
        if after == self._revision:
            self._live[watch] = None
        else:
            self._pins[watch] = after
            self._behind.add(watch)
            watch.reading = asyncio.ensure_future(self._catch_up(watch, after))
        return watch

    def drop(self, watch: Watch) -> None:
        self._live.pop(watch, None)
        self._behind.discard(watch)
        self._pins.pop(watch, None)
        if watch.reading is not None:
            watch.reading.cancel()

    def deliver(self, events: Sequence[Event]) -> None:
        self._revision = events[-1].revision
        for watch in tuple(self._live):
            watch.hand(events)

    def close(self) -> None:
        for watch in (*self._live, *self._behind):
            watch.cancel()

    async def _catch_up(self, watch: Watch, place: int) -> None:
        while place < self._revision:
            upto = self._revision
            try:
                events = await self._reader.run(partial(log.history, after=place, upto=upto))
            except StoreUnavailable as error:
                logger.warning("history after revision %d cannot be read, trying again: %s", place, error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            watch.hand(events)
            if watch.cancelled:
                return
            place = self._pins[watch] = events[-1].revision if events else upto
        watch.reading = None
        del self._pins[watch]
        self._behind.remove(watch)
        self._live[watch] = None
