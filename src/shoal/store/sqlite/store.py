"""The store contract on one SQLite file. All state here belongs to the event loop; threads only run SQL.

A write is compared and numbered at once and joins the queue. One batch is with the writer at a time. When it returns,
the next one is submitted first, then the batch is delivered and its futures resolve. Values are not kept in memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Self, TypeVar

from shoal.objects.errors import StoreError
from shoal.store.interface import (
    Advance,
    Compacted,
    CompareFailed,
    Deliver,
    Event,
    FutureRevision,
    KeyValue,
    StoreUnavailable,
    Subscription,
    Write,
)
from shoal.store.sqlite import log
from shoal.store.sqlite.checkpoints import Checkpoints
from shoal.store.sqlite.file import FILE_NAME, Contents, Garbage, connect, load, open_file, supersede
from shoal.store.sqlite.thread import ConnectionThread, Job
from shoal.store.sqlite.watching import Watches

COMPACTION_STEP = 128
VACUUM_STEPS = 128
"""The most that one compaction releases: shrinking a file costs more than leaving it."""
T = TypeVar("T")


@dataclass(slots=True)
class Batch:
    events: list[Event] = field(default_factory=list)
    answers: list[asyncio.Future[int]] = field(default_factory=list)
    settled: list[asyncio.Future[None]] = field(default_factory=list)


class SqliteStore:
    def __init__(self, file: Path, writer: ConnectionThread, contents: Contents) -> None:
        self._loop = asyncio.get_running_loop()
        self._id = contents.id
        self._revision = contents.revision
        self._compacted = contents.compacted
        self._index: dict[str, int] = contents.index
        """The durable revision of every existing key."""
        self._garbage: deque[Garbage] = contents.garbage
        self._assigned = contents.revision
        self._ahead: dict[str, Event] = {}
        """The newest write of a key that is not durable yet."""
        self._queued = Batch()
        self._writing: Batch | None = None
        self._pins: dict[object, int] = {}
        """Revisions that are being read. Compaction keeps everything that is visible from these revisions on."""
        self._writer = writer
        self._reader = ConnectionThread("shoal-store-reader", lambda: connect(file))
        self._watches = Watches(self._reader, self._pins, self._revision)
        self._checkpoints = Checkpoints(file, writer)
        self._compacting = asyncio.Lock()
        self._closed = False
        self.failure: asyncio.Future[StoreError] = self._loop.create_future()

    @classmethod
    async def open(cls, directory: Path) -> Self:
        """Opens the store in that directory, or creates one. Raises StoreFormatError or StoreUnavailable."""
        writer = ConnectionThread("shoal-store-writer", lambda: open_file(directory))
        try:
            contents = await writer.run(partial(load, file=directory / FILE_NAME))
        except BaseException:
            await writer.stop()
            raise
        return cls(directory / FILE_NAME, writer, contents)

    @property
    def id(self) -> str:
        return self._id

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compacted(self) -> int:
        return self._compacted

    @property
    def takes_together(self) -> bool:
        return True

    # --- writes ---

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        return self._write(key, value, expected)

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        if not expected:
            raise ValueError("a deletion names the revision it deletes")
        return self._write(key, None, expected)

    def together(self, writes: Sequence[Write], above: int = 0) -> asyncio.Future[int]:
        """Writes queued in one call are in one batch, and a batch is one transaction and one delivery."""
        self._check_open()
        if len({write.key for write in writes}) != len(writes) or not writes:
            raise ValueError("what is written together are different keys, at least one")
        for key, _, expected in writes:
            if (current := self._current(key)) != expected:
                raise CompareFailed(key, current)
        self._assigned = max(self._assigned, above)
        *others, last = [self._write(*write) for write in writes]
        for answer in others:
            answer.add_done_callback(asyncio.Future.exception)  # they end like the last one, and nobody awaits them
        return last

    async def settled(self) -> None:
        self._check_open()
        await self._settled()

    def _write(self, key: str, value: bytes | None, expected: int) -> asyncio.Future[int]:
        self._check_open()
        current = self._current(key)
        if current != expected:
            raise CompareFailed(key, current)
        if not key.isascii():
            key.encode()  # an invalid key must fail here, not in the batch with the writes of others
        self._assigned += 1
        event = self._ahead[key] = Event(self._assigned, key, value)
        answer: asyncio.Future[int] = self._loop.create_future()
        queued = self._queued
        if self._writing is None and not queued.events:
            self._loop.call_soon(self._send)
        queued.events.append(event)
        queued.answers.append(answer)
        return answer

    def _current(self, key: str) -> int:
        """Returns the newest revision of a key, queued writes included."""
        ahead = self._ahead.get(key)
        if ahead is None:
            return self._index.get(key, 0)
        return 0 if ahead.value is None else ahead.revision

    def _send(self) -> None:
        if self._writing is None and self._queued.events:
            batch = self._writing = self._queued
            self._queued = Batch()
            self._writer.submit(partial(log.append, events=batch.events), self._returned)

    def _returned(self, _: None, error: Exception | None) -> None:
        batch = self._writing
        assert batch is not None
        self._writing = None
        if error is not None:
            self._fail(batch, error)
            return
        self._send()
        for event in batch.events:
            revision, key, value = event
            supersede(self._index, self._garbage, revision, key, deleted=value is None)
            if self._ahead[key] is event:
                del self._ahead[key]
        self._revision = batch.events[-1].revision
        self._checkpoints.wrote()
        self._watches.deliver(batch.events)
        for event, answer in zip(batch.events, batch.answers, strict=True):
            if not answer.done():
                answer.set_result(event.revision)
        _release(batch)

    def _fail(self, batch: Batch, error: Exception) -> None:
        """Queued writes may have been compared with the failed batch, so they fail too and nothing stays pending."""
        behind, self._queued = self._queued, Batch()
        self._ahead.clear()
        self._assigned = self._revision
        for lost in (batch, behind):
            for answer in lost.answers:
                if not answer.done():
                    answer.set_exception(StoreUnavailable(f"the store cannot be written now: {error}"))
            _release(lost)

    async def _settled(self) -> None:
        last = self._queued if self._queued.events else self._writing
        if last is not None:
            done: asyncio.Future[None] = self._loop.create_future()
            last.settled.append(done)
            await done

    # --- reads ---

    def fresh(self) -> None:
        """Returns None: nobody else writes this file."""

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        revision = self._index.get(key)
        if revision is None:
            return None
        with self._pinned(self._revision):
            value = await self._reader.run(partial(log.value_of, revision=revision))
        return KeyValue(key, value, revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        self._check_open()
        at = revision or self._revision
        self._check_readable(at)
        index = self._index.copy() if at == self._revision else None
        job = partial(log.read_range, index=index, revision=at, prefix=prefix, start=start, limit=limit)
        with self._pinned(at):
            return await self._reader.run(job), at

    def watch(self, after: int, deliver: Deliver, advance: Advance | None = None) -> Subscription:
        self._check_open()
        self._check_readable(after)
        return self._watches.add(after, deliver)

    # --- maintenance ---

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        async with self._compacting:
            if revision > self._compacted:
                await self._housekeep(partial(log.set_compacted, revision=revision))
                self._compacted = revision
            await self._sweep()
            for _ in range(VACUUM_STEPS):
                if not await self._housekeep(log.give_back):
                    break

    def problem(self) -> str:
        return "the store is closed" if self._closed else ""

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._settled()
        async with self._compacting:
            self._watches.close()
            await self._checkpoints.close()
            await self._reader.stop()
            await self._writer.stop()

    async def _sweep(self) -> None:
        """Deletes rows a step at a time; writes queued meanwhile run between the steps. Rows that a reader pins are
        left for the next compaction.
        """
        while step := self._due():
            await self._housekeep(partial(log.drop, revisions=step))
            for _ in step:
                self._garbage.popleft()

    def _due(self) -> list[int]:
        floor = min((self._compacted, *self._pins.values()))
        due = takewhile(lambda row: row.since <= floor, self._garbage)
        return [row.revision for row in islice(due, COMPACTION_STEP)]

    async def _housekeep(self, job: Job[T]) -> T:
        self._check_open()
        result = await self._writer.run(job)
        self._checkpoints.wrote()
        return result

    @contextmanager
    def _pinned(self, revision: int) -> Iterator[None]:
        pin = object()
        self._pins[pin] = revision
        try:
            yield
        finally:
            del self._pins[pin]

    def _check_readable(self, revision: int) -> None:
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")


def _release(batch: Batch) -> None:
    for waiting in batch.settled:
        if not waiting.done():
            waiting.set_result(None)
