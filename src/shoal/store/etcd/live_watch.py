"""The live watch: every change of the store's objects, in revision order, across connection failures.

A broken stream is resumed after the last delivered revision, at the next member that answers. Before that, the store is
checked to be still the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from typing import Any

import grpc

from shoal.objects.errors import StoreError
from shoal.store.etcd import messages
from shoal.store.etcd.connection import MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS, EtcdConnection
from shoal.store.etcd.messages import KeyLayout
from shoal.store.interface import Compacted, StoreEvent

log = logging.getLogger("shoal.store")

PROGRESS_INTERVAL_SECONDS = 0.05
"""etcd drops a progress request while a watch is still catching up."""


class WatchStream:
    """One watch of the objects on one connection, from a revision on."""

    def __init__(self, connection: EtcdConnection, keys: KeyLayout) -> None:
        self._connection, self._keys = connection, keys
        self.member = connection.member
        self._call: Any = None
        self._abandoned = False
        self._write_lock = asyncio.Lock()

    async def open(self, after_revision: int) -> None:
        await self._connection.authenticate()
        self._call = self.member.watch.Watch(metadata=self._connection.headers)
        objects = self._keys.objects_prefix
        with self._raise_if_abandoned():
            await self._call.write(
                messages.watch(objects, messages.prefix_end(objects), self._keys.to_etcd_revision(after_revision) + 1)
            )

    async def request_progress(self) -> None:
        async with self._write_lock:
            with self._raise_if_abandoned():
                await self._call.write(messages.progress())

    async def read(self) -> AsyncIterator[tuple[list[StoreEvent], int]]:
        """Yields events and the revision up to which no more will come. Raises when the stream ends."""
        name, ours = self._keys.store_key, self._keys.from_etcd_revision
        while True:
            with self._raise_if_abandoned():
                response = await self._call.read()
            if response is grpc.aio.EOF:
                raise self._connection.store_error(self.member, await _final_status(self._call))
            if response.canceled:
                if response.compact_revision:
                    raise Compacted(0, ours(response.compact_revision))
                raise StoreError(f"etcd ended a watch: {response.cancel_reason or 'no reason given'}")
            if response.created:
                continue
            events = [
                StoreEvent(
                    ours(event.kv.mod_revision),
                    name(event.kv.key),
                    None if messages.is_deletion(event) else event.kv.value,
                )
                for event in response.events
            ]
            yield events, events[-1].revision if events else ours(response.header.revision)

    def abandon(self) -> None:
        """Ends the stream because its member does not answer other calls. Here that would look like silence for a
        while.
        """
        self._abandoned = True
        self.close()

    @contextmanager
    def _raise_if_abandoned(self) -> Iterator[None]:
        """Raises InvalidStateError for users of an abandoned stream: the library raises the same CancelledError as for
        a cancelled task.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._abandoned or task is None or task.cancelling():
                raise
            raise asyncio.InvalidStateError from None

    def close(self) -> None:
        if self._call is not None:
            self._call.cancel()


async def _final_status(call: Any) -> Any:
    """Returns the status of a finished stream as an error."""
    code, details = await call.code(), await call.details()
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


class LiveWatch:
    def __init__(
        self,
        connection: EtcdConnection,
        keys: KeyLayout,
        revision: int,
        handler: Callable[[Sequence[StoreEvent], int], None],
        check_same_store: Callable[[], Awaitable[None]],
    ) -> None:
        """`handler` takes events and the revision they bring the store to. `check_same_store` raises unless the store
        is still the one this watch began with.
        """
        self._connection, self._keys = connection, keys
        self._handler, self._check_same_store = handler, check_same_store
        self._stream: WatchStream | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = count()
        self._failure: StoreError | None = None
        self.delivered_revision = revision
        connection.member_change_handlers.append(self._on_member_change)

    def _on_member_change(self) -> None:
        if self._stream is not None and self._stream.member is not self._connection.member:
            self._stream.abandon()

    @property
    def is_connected(self) -> bool:
        return self._stream is not None

    async def run(self) -> None:
        """Runs until it is cancelled, or raises why the store is lost."""
        backoff = MIN_BACKOFF_SECONDS
        while True:
            stream = WatchStream(self._connection, self._keys)
            try:
                await stream.open(self.delivered_revision)
                self._stream = stream
                async for events, revision in stream.read():
                    backoff = MIN_BACKOFF_SECONDS
                    self._dispatch(events, revision)
            except Compacted as error:
                raise StoreError(
                    f"etcd has compacted its history up to revision {error.oldest}, but "
                    f"this server has read only up to {self.delivered_revision}"
                    "; restart the server"
                ) from None
            except grpc.aio.AioRpcError as error:
                log.warning("%s; retrying", self._connection.store_error(stream.member, error))
            except StoreError as error:
                log.warning("%s; retrying", error)
            except asyncio.InvalidStateError:
                log.warning("the watch of etcd was aborted; retrying")
            finally:
                self._stream = None
                stream.close()
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
            await self._check_same_store()

    async def wait_for_revision(self, revision: int) -> None:
        """Returns once everything up to that revision is delivered. Requests progress from etcd if it has been
        quiet.
        """
        while self.delivered_revision < revision:
            future = self.revision_future(revision)
            if self._stream is not None:
                # Otherwise `run` is just replacing the stream.
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await self._stream.request_progress()
            await asyncio.wait([future], timeout=PROGRESS_INTERVAL_SECONDS)
            if future.done():
                await future

    def revision_future(self, revision: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if revision <= self.delivered_revision:
            future.set_result(None)
        elif self._failure is not None:
            future.set_exception(self._failure)
        else:
            heappush(self._waiters, (revision, next(self._sequence), future))
        return future

    def fail_waiters(self, error: StoreError) -> None:
        """Fails all waiters: no more events will come."""
        self._failure = error
        for _, _, future in self._waiters:
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._waiters.clear()

    def _dispatch(self, events: Sequence[StoreEvent], revision: int) -> None:
        if revision <= self.delivered_revision:
            return
        self.delivered_revision = revision
        self._handler(events, revision)
        while self._waiters and self._waiters[0][0] <= revision:
            future = heappop(self._waiters)[2]
            if not future.done():
                future.set_result(None)
