"""Watches. One that begins in the past reads history on its own stream until it catches up with the live watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc

from shoal.objects.errors import StoreError
from shoal.store.etcd.connection import FIRST_PAUSE, Connection
from shoal.store.etcd.feed import ASK_AGAIN_SECONDS, Feed, Stream
from shoal.store.etcd.messages import Keys
from shoal.store.interface import Advance, Compacted, Deliver, Event

log = logging.getLogger("shoal.store")


class Watch:
    def __init__(self, watches: Watches, after: int, deliver: Deliver, advance: Advance | None) -> None:
        self._watches, self._deliver, self._advance = watches, deliver, advance
        self.seen = after
        self.cancelled = False
        self.reading: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        self.cancelled = True
        self._watches.drop(self)

    def hand(self, events: Sequence[Event], revision: int) -> None:
        if self.cancelled or revision <= self.seen:
            return
        if events and events[0].revision <= self.seen:
            events = [event for event in events if event.revision > self.seen]
        self.seen = revision
        try:
            if events:
                self._deliver(events)
            elif self._advance is not None:
                self._advance(revision)
        except Exception:
            # One broken handler must not stop delivery to the others or to the writers.
            log.exception("a watch failed at revision %d and is ended", revision)
            self.cancel()


class Watches:
    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection, self._keys = connection, keys
        self._live: dict[Watch, None] = {}
        self._behind: set[Watch] = set()
        self.feed: Feed | None = None

    def add(self, after: int, deliver: Deliver, advance: Advance | None, delivered: int) -> Watch:
        watch = Watch(self, after, deliver, advance)
        if after == delivered:
            self._live[watch] = None
        else:
            self._behind.add(watch)
            watch.reading = asyncio.ensure_future(self._catch_up(watch))
        return watch

    def drop(self, watch: Watch) -> None:
        self._live.pop(watch, None)
        self._behind.discard(watch)
        if watch.reading is not None:
            watch.reading.cancel()

    def deliver(self, events: Sequence[Event], revision: int) -> None:
        for watch in tuple(self._live):
            watch.hand(events, revision)

    def close(self) -> None:
        for watch in (*self._live, *self._behind):
            watch.cancel()

    async def caught_up(self) -> None:
        """Returns when no watch reads the present history any more: it must not be compacted under them."""
        if self._behind:
            await asyncio.wait([watch.reading for watch in self._behind if watch.reading is not None])

    async def _catch_up(self, watch: Watch) -> None:
        while not watch.cancelled:
            stream = Stream(self._connection, self._keys)
            asking: asyncio.Task[None] | None = None
            try:
                await stream.open(watch.seen)
                asking = asyncio.ensure_future(_keep_asking(stream))
                async for events, revision in stream.read():
                    watch.hand(events, revision)
                    if self._meets(watch):
                        return
            except Compacted as error:
                log.error("history after revision %d was compacted (up to %d)", watch.seen, error.oldest)
                watch.cancel()
                return
            except (StoreError, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                log.warning("history after revision %d cannot be read, trying again: %s", watch.seen, error)
            finally:
                if asking is not None:
                    asking.cancel()
                stream.close()
            await asyncio.sleep(FIRST_PAUSE)

    def _meets(self, watch: Watch) -> bool:
        assert self.feed is not None
        if watch.cancelled:
            return True
        if watch.seen < self.feed.delivered:
            return False
        self._behind.discard(watch)
        self._live[watch] = None
        watch.reading = None
        return True


async def _keep_asking(stream: Stream) -> None:
    """Requests progress: a stream that has sent all its events reports its revision only on request."""
    try:
        while True:
            await stream.ask_progress()
            await asyncio.sleep(ASK_AGAIN_SECONDS)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass
