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
    Compacted,
    CompareFailed,
    EventHandler,
    FutureRevision,
    KeyValue,
    ProgressHandler,
    StoreEvent,
    StoreUnavailable,
    Subscription,
    WriteOp,
)
from shoal.store.sqlite import log
from shoal.store.sqlite.file import (
    FILE_NAME,
    WAL_LIMIT,
    StoreIndex,
    SupersededRow,
    apply_to_index,
    connect,
    load,
    open_file,
)
from shoal.store.sqlite.thread import ConnectionThread, Job
from shoal.store.sqlite.watches import SqliteWatches

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


COMPACTION_STEP = 128
MAX_VACUUM_STEPS = 128
"""The most that one compaction releases: shrinking a file costs more than leaving it."""
T = TypeVar("T")


@dataclass(slots=True)
class WriteBatch:
    events: list[StoreEvent] = field(default_factory=list)
    futures: list[asyncio.Future[int]] = field(default_factory=list)
    flush_waiters: list[asyncio.Future[None]] = field(default_factory=list)


class SqliteStore:
    def __init__(self, file: Path, writer: ConnectionThread, index: StoreIndex) -> None:
        self._loop = asyncio.get_running_loop()
        self._id = index.id
        self._revision = index.revision
        self._compacted_revision = index.compacted_revision
        self._index: dict[str, int] = index.index
        """The durable revision of every existing key."""
        self._garbage: deque[SupersededRow] = index.garbage
        self._last_assigned_revision = index.revision
        self._pending_by_key: dict[str, StoreEvent] = {}
        """The newest write of a key that is not durable yet."""
        self._queue = WriteBatch()
        self._in_flight: WriteBatch | None = None
        self._pins: dict[object, int] = {}
        """Revisions that are being read. Compaction keeps everything that is visible from these revisions on."""
        self._writer = writer
        self._reader = ConnectionThread("shoal-store-reader", lambda: connect(file))
        self._watches = SqliteWatches(self._reader, self._pins, self._revision)
        self._checkpointer = WALCheckpointer(file, writer)
        self._compaction_lock = asyncio.Lock()
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
    def compacted_revision(self) -> int:
        return self._compacted_revision

    @property
    def supports_transactions(self) -> bool:
        return True

    # --- writes ---

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        return self._write(key, value, expected_revision)

    def delete(self, key: str, expected_revision: int) -> asyncio.Future[int]:
        if not expected_revision:
            raise ValueError("delete requires an expected revision")
        return self._write(key, None, expected_revision)

    def transaction(self, operations: Sequence[WriteOp], above_revision: int = 0) -> asyncio.Future[int]:
        """Writes queued in one call are in one batch, and a batch is one transaction and one delivery."""
        self._check_open()
        if len({write.key for write in operations}) != len(operations) or not operations:
            raise ValueError("a transaction needs at least one write, and each key only once")
        for key, _, expected in operations:
            if (current := self._current_revision(key)) != expected:
                raise CompareFailed(key, current)
        self._last_assigned_revision = max(self._last_assigned_revision, above_revision)
        *others, last = [self._write(*write) for write in operations]
        for answer in others:
            answer.add_done_callback(asyncio.Future.exception)  # they end like the last one, and nobody awaits them
        return last

    async def flush(self) -> None:
        self._check_open()
        await self._flush()

    def _write(self, key: str, value: bytes | None, expected_revision: int) -> asyncio.Future[int]:
        self._check_open()
        current = self._current_revision(key)
        if current != expected_revision:
            raise CompareFailed(key, current)
        if not key.isascii():
            key.encode()  # an invalid key must fail here, not in the batch with the writes of others
        self._last_assigned_revision += 1
        event = self._pending_by_key[key] = StoreEvent(self._last_assigned_revision, key, value)
        future: asyncio.Future[int] = self._loop.create_future()
        batch = self._queue
        if self._in_flight is None and not batch.events:
            self._loop.call_soon(self._submit_batch)
        batch.events.append(event)
        batch.futures.append(future)
        return future

    def _current_revision(self, key: str) -> int:
        """Returns the newest revision of a key, queued writes included."""
        pending = self._pending_by_key.get(key)
        if pending is None:
            return self._index.get(key, 0)
        return 0 if pending.value is None else pending.revision

    def _submit_batch(self) -> None:
        if self._in_flight is None and self._queue.events:
            batch = self._in_flight = self._queue
            self._queue = WriteBatch()
            self._writer.submit(partial(log.append, events=batch.events), self._on_batch_written)

    def _on_batch_written(self, _: None, error: Exception | None) -> None:
        batch = self._in_flight
        assert batch is not None
        self._in_flight = None
        if error is not None:
            self._fail_batches(batch, error)
            return
        self._submit_batch()
        for event in batch.events:
            revision, key, value = event
            apply_to_index(self._index, self._garbage, revision, key, deleted=value is None)
            if self._pending_by_key[key] is event:
                del self._pending_by_key[key]
        self._revision = batch.events[-1].revision
        self._checkpointer.on_write()
        self._watches.deliver(batch.events)
        for event, answer in zip(batch.events, batch.futures, strict=True):
            if not answer.done():
                answer.set_result(event.revision)
        _release_flush_waiters(batch)

    def _fail_batches(self, batch: WriteBatch, error: Exception) -> None:
        """Queued writes may have been compared with the failed batch, so they fail too and nothing stays pending."""
        queued, self._queue = self._queue, WriteBatch()
        self._pending_by_key.clear()
        self._last_assigned_revision = self._revision
        for lost in (batch, queued):
            for answer in lost.futures:
                if not answer.done():
                    answer.set_exception(StoreUnavailable(f"the store cannot be written now: {error}"))
            _release_flush_waiters(lost)

    async def _flush(self) -> None:
        last_batch = self._queue if self._queue.events else self._in_flight
        if last_batch is not None:
            done: asyncio.Future[None] = self._loop.create_future()
            last_batch.flush_waiters.append(done)
            await done

    # --- reads ---

    def read_index(self) -> None:
        """Returns None: nobody else writes this file."""

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        revision = self._index.get(key)
        if revision is None:
            return None
        with self._pin(self._revision):
            value = await self._reader.run(partial(log.value_of, revision=revision))
        return KeyValue(key, value, revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        self._check_open()
        read_revision = revision or self._revision
        self._check_readable(read_revision)
        index = self._index.copy() if read_revision == self._revision else None
        job = partial(log.read_range, index=index, revision=read_revision, prefix=prefix, start=start, limit=limit)
        with self._pin(read_revision):
            return await self._reader.run(job), read_revision

    def watch(
        self, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None = None
    ) -> Subscription:
        self._check_open()
        self._check_readable(after_revision)
        return self._watches.add(after_revision, handler)

    # --- maintenance ---

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        async with self._compaction_lock:
            if revision > self._compacted_revision:
                await self._run_maintenance(partial(log.set_compacted, revision=revision))
                self._compacted_revision = revision
            await self._delete_garbage()
            for _ in range(MAX_VACUUM_STEPS):
                if not await self._run_maintenance(log.release_free_pages):
                    break

    def health_error(self) -> str:
        return "the store is closed" if self._closed else ""

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._flush()
        async with self._compaction_lock:
            self._watches.close()
            await self._checkpointer.close()
            await self._reader.stop()
            await self._writer.stop()

    async def _delete_garbage(self) -> None:
        """Deletes rows a step at a time; writes queued meanwhile run between the steps. Rows that a reader pins are
        left for the next compaction.
        """
        while step := self._deletable_revisions():
            await self._run_maintenance(partial(log.delete_rows, revisions=step))
            for _ in step:
                self._garbage.popleft()

    def _deletable_revisions(self) -> list[int]:
        floor = min((self._compacted_revision, *self._pins.values()))
        deletable = takewhile(lambda row: row.superseded_at <= floor, self._garbage)
        return [row.revision for row in islice(deletable, COMPACTION_STEP)]

    async def _run_maintenance(self, job: Job[T]) -> T:
        self._check_open()
        result = await self._writer.run(job)
        self._checkpointer.on_write()
        return result

    @contextmanager
    def _pin(self, revision: int) -> Iterator[None]:
        pin = object()
        self._pins[pin] = revision
        try:
            yield
        finally:
            del self._pins[pin]

    def _check_readable(self, revision: int) -> None:
        if revision < self._compacted_revision:
            raise Compacted(revision, self._compacted_revision)
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")


def _release_flush_waiters(batch: WriteBatch) -> None:
    for waiter in batch.flush_waiters:
        if not waiter.done():
            waiter.set_result(None)
