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
from shoal.store.etcd.connection import FIRST_PAUSE, LONGEST_PAUSE, Connection
from shoal.store.etcd.messages import Keys
from shoal.store.interface import Compacted, Event

log = logging.getLogger("shoal.store")

ASK_AGAIN_SECONDS = 0.05
"""etcd drops a progress request while a watch is still catching up."""


class Stream:
    """One watch of the objects on one connection, from a revision on."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection, self._keys = connection, keys
        self.member = connection.member
        self._call: Any = None
        self._left = False
        self._asking = asyncio.Lock()

    async def open(self, after: int) -> None:
        await self._connection.authenticate()
        self._call = self.member.watch.Watch(metadata=self._connection.headers)
        objects = self._keys.objects
        with self._cut():
            await self._call.write(messages.watch(objects, messages.after(objects), self._keys.etcds(after) + 1))

    async def ask_progress(self) -> None:
        async with self._asking:
            with self._cut():
                await self._call.write(messages.progress())

    async def read(self) -> AsyncIterator[tuple[list[Event], int]]:
        """Yields events and the revision up to which no more will come. Raises when the stream ends."""
        name, ours = self._keys.name, self._keys.ours
        while True:
            with self._cut():
                response = await self._call.read()
            if response is grpc.aio.EOF:
                raise self._connection.failed(self.member, await _end_of(self._call))
            if response.canceled:
                if response.compact_revision:
                    raise Compacted(0, ours(response.compact_revision))
                raise StoreError(f"etcd ended a watch: {response.cancel_reason or 'it does not say why'}")
            if response.created:
                continue
            events = [
                Event(
                    ours(event.kv.mod_revision),
                    name(event.kv.key),
                    None if messages.is_deletion(event) else event.kv.value,
                )
                for event in response.events
            ]
            yield events, events[-1].revision if events else ours(response.header.revision)

    def leave(self) -> None:
        """Ends the stream because its member does not answer other calls. Here that would look like silence for a
        while.
        """
        self._left = True
        self.close()

    @contextmanager
    def _cut(self) -> Iterator[None]:
        """Raises InvalidStateError for users of an abandoned stream: the library raises the same CancelledError as for
        a cancelled task.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._left or task is None or task.cancelling():
                raise
            raise asyncio.InvalidStateError from None

    def close(self) -> None:
        if self._call is not None:
            self._call.cancel()


async def _end_of(call: Any) -> Any:
    """Returns the status of a finished stream as an error."""
    code, details = await call.code(), await call.details()
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


class Feed:
    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        revision: int,
        deliver: Callable[[Sequence[Event], int], None],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        """`handler` takes events and the revision they bring the store to. `check_same_store` raises unless the store
        is still the one this watch began with.
        """
        self._connection, self._keys = connection, keys
        self._deliver, self._check = deliver, check
        self._stream: Stream | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._lost: StoreError | None = None
        self.delivered = revision
        connection.moved.append(self._moved)

    def _moved(self) -> None:
        if self._stream is not None and self._stream.member is not self._connection.member:
            self._stream.leave()

    @property
    def connected(self) -> bool:
        return self._stream is not None

    async def run(self) -> None:
        """Runs until it is cancelled, or raises why the store is lost."""
        pause = FIRST_PAUSE
        while True:
            stream = Stream(self._connection, self._keys)
            try:
                await stream.open(self.delivered)
                self._stream = stream
                async for events, revision in stream.read():
                    pause = FIRST_PAUSE
                    self._take(events, revision)
            except Compacted as error:
                raise StoreError(
                    f"etcd has dropped its history up to revision {error.oldest}, this server had seen {self.delivered}"
                    " only; start it again"
                ) from None
            except grpc.aio.AioRpcError as error:
                log.warning("%s; trying again", self._connection.failed(stream.member, error))
            except StoreError as error:
                log.warning("%s; trying again", error)
            except asyncio.InvalidStateError:
                log.warning("the watch of etcd was cut; trying again")
            finally:
                self._stream = None
                stream.close()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            await self._check()

    async def reached(self, revision: int) -> None:
        """Returns once everything up to that revision is delivered. Requests progress from etcd if it has been
        quiet.
        """
        while self.delivered < revision:
            arrival = self.arrival(revision)
            if self._stream is not None:
                # Otherwise `run` is just replacing the stream.
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await self._stream.ask_progress()
            await asyncio.wait([arrival], timeout=ASK_AGAIN_SECONDS)
            if arrival.done():
                await arrival

    def arrival(self, revision: int) -> asyncio.Future[None]:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if revision <= self.delivered:
            arrived.set_result(None)
        elif self._lost is not None:
            arrived.set_exception(self._lost)
        else:
            heappush(self._waiting, (revision, next(self._numbers), arrived))
        return arrived

    def give_up(self, error: StoreError) -> None:
        """Fails all waiters: no more events will come."""
        self._lost = error
        for _, _, arrived in self._waiting:
            if not arrived.done():
                arrived.set_exception(error)
                arrived.exception()
        self._waiting.clear()

    def _take(self, events: Sequence[Event], revision: int) -> None:
        if revision <= self.delivered:
            return
        self.delivered = revision
        self._deliver(events, revision)
        while self._waiting and self._waiting[0][0] <= revision:
            arrived = heappop(self._waiting)[2]
            if not arrived.done():
                arrived.set_result(None)
