"""Watches. One that begins in the past reads history on its own stream until it catches up with the live watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc

from shoal.objects.errors import StoreError
from shoal.store.etcd.connection import MIN_BACKOFF_SECONDS, EtcdConnection
from shoal.store.etcd.live_watch import PROGRESS_INTERVAL_SECONDS, LiveWatch, WatchStream
from shoal.store.etcd.messages import KeyLayout
from shoal.store.interface import Compacted, EventHandler, ProgressHandler, StoreEvent

log = logging.getLogger("shoal.store")


class EtcdWatch:
    def __init__(
        self, watches: EtcdWatches, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None
    ) -> None:
        self._watches, self._handler, self._on_progress = watches, handler, on_progress
        self.seen_revision = after_revision
        self.cancelled = False
        self.catch_up_task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        self.cancelled = True
        self._watches.remove(self)

    def deliver(self, events: Sequence[StoreEvent], revision: int) -> None:
        if self.cancelled or revision <= self.seen_revision:
            return
        if events and events[0].revision <= self.seen_revision:
            events = [event for event in events if event.revision > self.seen_revision]
        self.seen_revision = revision
        try:
            if events:
                self._handler(events)
            elif self._on_progress is not None:
                self._on_progress(revision)
        except Exception:
            # One broken handler must not stop delivery to the others or to the writers.
            log.exception("watch failed at revision %d; ending it", revision)
            self.cancel()


class EtcdWatches:
    def __init__(self, connection: EtcdConnection, keys: KeyLayout) -> None:
        self._connection, self._keys = connection, keys
        self._live: dict[EtcdWatch, None] = {}
        self._behind: set[EtcdWatch] = set()
        self.live_watch: LiveWatch | None = None

    def add(
        self, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None, delivered_revision: int
    ) -> EtcdWatch:
        watch = EtcdWatch(self, after_revision, handler, on_progress)
        if after_revision == delivered_revision:
            self._live[watch] = None
        else:
            self._behind.add(watch)
            watch.catch_up_task = asyncio.ensure_future(self._catch_up(watch))
        return watch

    def remove(self, watch: EtcdWatch) -> None:
        self._live.pop(watch, None)
        self._behind.discard(watch)
        if watch.catch_up_task is not None:
            watch.catch_up_task.cancel()

    def deliver(self, events: Sequence[StoreEvent], revision: int) -> None:
        for watch in tuple(self._live):
            watch.deliver(events, revision)

    def close(self) -> None:
        for watch in (*self._live, *self._behind):
            watch.cancel()

    async def wait_caught_up(self) -> None:
        """Returns when no watch reads the present history any more: it must not be compacted under them."""
        if self._behind:
            await asyncio.wait([watch.catch_up_task for watch in self._behind if watch.catch_up_task is not None])

    async def _catch_up(self, watch: EtcdWatch) -> None:
        while not watch.cancelled:
            stream = WatchStream(self._connection, self._keys)
            progress_task: asyncio.Task[None] | None = None
            try:
                await stream.open(watch.seen_revision)
                progress_task = asyncio.ensure_future(_request_progress_periodically(stream))
                async for events, revision in stream.read():
                    watch.deliver(events, revision)
                    if self._has_caught_up(watch):
                        return
            except Compacted as error:
                log.error(
                    "ending watch: history after revision %d was compacted (up to %d)",
                    watch.seen_revision,
                    error.oldest,
                )
                watch.cancel()
                return
            except (StoreError, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                log.warning("cannot read history after revision %d; retrying: %s", watch.seen_revision, error)
            finally:
                if progress_task is not None:
                    progress_task.cancel()
                stream.close()
            await asyncio.sleep(MIN_BACKOFF_SECONDS)

    def _has_caught_up(self, watch: EtcdWatch) -> bool:
        assert self.live_watch is not None
        if watch.cancelled:
            return True
        if watch.seen_revision < self.live_watch.delivered_revision:
            return False
        self._behind.discard(watch)
        self._live[watch] = None
        watch.catch_up_task = None
        return True


async def _request_progress_periodically(stream: WatchStream) -> None:
    """Requests progress: a stream that has sent all its events reports its revision only on request."""
    try:
        while True:
            await stream.request_progress()
            await asyncio.sleep(PROGRESS_INTERVAL_SECONDS)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass
