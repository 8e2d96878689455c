"""The store contract on etcd. etcd compares; deliveries and futures follow one live watch.

A write without an answer is retried: its compare shows whether the first attempt was applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from shoal.objects.errors import StoreError
from shoal.store.etcd import messages
from shoal.store.etcd.claim import StoreClaim, check_members, ensure_claim, oldest_revision, read_claim, watch_claim
from shoal.store.etcd.connection import EtcdConnection, EtcdSettings, TransientError
from shoal.store.etcd.live_watch import LiveWatch
from shoal.store.etcd.messages import KeyLayout
from shoal.store.etcd.read_index import ReadIndexBatcher
from shoal.store.etcd.watches import EtcdWatches
from shoal.store.fencing import FencedError, current_lease_check
from shoal.store.interface import (
    Compacted,
    CompareFailed,
    EventHandler,
    FutureRevision,
    KeyValue,
    ProgressHandler,
    StoreEvent,
    StoreLost,
    StoreUnavailable,
    Subscription,
    TransactionUnsupported,
    WriteOp,
)


class EtcdStore:
    def __init__(
        self, connection: EtcdConnection, keys: KeyLayout, store_claim: StoreClaim, compacted_revision: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection, self._keys = connection, keys
        self._id = store_claim.id
        self._compacted_revision = compacted_revision
        self._claim_compare = keys.claim_key, store_claim.mod_revision
        """Compared with every write, so that a store replaced by a restore takes no writes."""
        self._compaction_mod_revision = 0
        """The revision at which the compaction key was last seen to change."""
        self._writes: set[asyncio.Task[None]] = set()
        self._watches = EtcdWatches(connection, keys)
        self._live_watch = self._watches.live_watch = LiveWatch(
            connection, keys, store_claim.revision, self._deliver, self._check_same_store
        )
        self._read_index_batcher = ReadIndexBatcher(self._newest_revision, self._live_watch.wait_for_revision)
        self._closed = False
        self.failure: asyncio.Future[StoreError] = self._loop.create_future()
        self._running = asyncio.gather(
            self._run_until_failure(self._live_watch.run), self._run_until_failure(self._watch_claim)
        )

    @classmethod
    async def open(cls, settings: EtcdSettings, expected_id: str = "") -> Self:
        """Opens the store below the prefix, or creates one. `expected_id` is the ID that must be found, if one was seen
        before.

        Raises StoreFormatError, StoreLost or StoreUnavailable.
        """
        connection = EtcdConnection(settings)
        keys = KeyLayout(settings.prefix)
        try:
            await connection.authenticate()
            await check_members(connection)
            store_claim = await ensure_claim(connection, keys, expected_id)
            keys = store_claim.keys
            compacted = await oldest_revision(connection, keys, store_claim.created_revision)
        except BaseException:
            await connection.close()
            raise
        return cls(connection, keys, store_claim, compacted)

    @property
    def id(self) -> str:
        return self._id

    @property
    def revision(self) -> int:
        return self._live_watch.delivered_revision

    @property
    def compacted_revision(self) -> int:
        return self._compacted_revision

    @property
    def supports_transactions(self) -> bool:
        return False

    @property
    def is_exclusive(self) -> bool:
        return self._connection.settings.exclusive

    @property
    def keys_read(self) -> int:
        return self._connection.keys_read

    # --- writes ---

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        name, etcd_revision = self._keys.object_key(key), self._keys.to_etcd_revision(expected_revision)
        return self._write(
            key,
            value,
            expected_revision,
            lambda sure: messages.put_if_unchanged(name, value, etcd_revision, not sure, self._claim_compare),
        )

    def delete(self, key: str, expected_revision: int) -> asyncio.Future[int]:
        if not expected_revision:
            raise ValueError("delete requires an expected revision")
        name, etcd_revision = self._keys.object_key(key), self._keys.to_etcd_revision(expected_revision)
        return self._write(
            key,
            None,
            expected_revision,
            lambda sure: messages.delete_if_unchanged(name, etcd_revision, self._claim_compare),
        )

    def transaction(self, operations: Sequence[WriteOp], above_revision: int = 0) -> asyncio.Future[int]:
        raise TransactionUnsupported(
            "the etcd store has no transactions: etcd limits their size and assigns the revisions"
        )

    async def flush(self) -> None:
        self._check_open()
        if self._writes:
            await asyncio.wait(tuple(self._writes))

    def _write(
        self, key: str, value: bytes | None, expected_revision: int, request: Callable[[bool], Any]
    ) -> asyncio.Future[int]:
        self._check_open()
        answer: asyncio.Future[int] = self._loop.create_future()
        task = self._loop.create_task(self._run_write(answer, key, value, expected_revision, request))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return answer

    async def _run_write(
        self,
        answer: asyncio.Future[int],
        key: str,
        value: bytes | None,
        expected_revision: int,
        request: Callable[[bool], Any],
    ) -> None:
        try:
            revision = await self._write_revision(key, value, expected_revision, request)
            await self._live_watch.revision_future(revision)
        except StoreError as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(revision)

    async def _write_revision(
        self, key: str, value: bytes | None, expected_revision: int, request: Callable[[bool], Any]
    ) -> int:
        """Returns the revision of the write. `first_attempt`: no earlier attempt can have been applied."""
        first_attempt, seen_revision, lease_check = True, self.revision, current_lease_check()

        async def attempt() -> Any:
            nonlocal first_attempt
            if lease_check is not None and not lease_check():
                raise FencedError
            try:
                return await self._connection.call_once(lambda member: member.kv.Txn, request(first_attempt))
            except TransientError:
                first_attempt = False
                raise

        answer = await self._connection.retry(attempt)
        revision = self._keys.from_etcd_revision(int(answer.header.revision))
        self._check_not_rolled_back(revision, seen_revision)
        if answer.succeeded:
            return revision
        existing, claim = (each.response_range.kvs for each in answer.responses)
        if not claim or claim[0].mod_revision != self._claim_compare[1]:
            await self._check_same_store()
            raise StoreUnavailable(
                f"{self._keys.claim_key.decode()} in etcd was changed by another process; restart the server"
            )
        current = self._keys.from_etcd_revision(int(existing[0].mod_revision)) if existing else 0
        if not first_attempt and existing and existing[0].value == value and current > expected_revision:
            return current
        # A caller that gets a conflict must be able to read the conflicting write.
        await self._live_watch.wait_for_revision(revision)
        if not first_attempt and value is None and not existing:
            return revision
        if not first_attempt:
            # A conflict would mean that the write was not applied and may be repeated.
            raise StoreUnavailable(
                f"etcd did not answer in time, and {key} has changed since: the outcome of the write is unknown"
            )
        raise CompareFailed(key, current)

    # --- reads ---

    def read_index(self) -> asyncio.Future[None] | None:
        if self.is_exclusive and not self.failure.done():
            return None
        self._check_open()
        return self._read_index_batcher()

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        answer = await self._connection.call(lambda member: member.kv.Range, messages.get(self._keys.object_key(key)))
        return self._key_value(key, answer.kvs[0]) if answer.kvs else None

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        self._check_open()
        if revision:
            self._check_readable(revision)
        start_key = self._keys.object_key(max(prefix, start))
        end = messages.prefix_end(self._keys.object_key(prefix))
        items: list[KeyValue] = []
        while start_key < end:
            size = min(messages.PAGE_SIZE, limit - len(items)) if limit else messages.PAGE_SIZE
            request = messages.page(start_key, end, size, self._keys.to_etcd_revision(revision))
            try:
                answer = await self._connection.call(lambda member: member.kv.Range, request)
            except Compacted:
                raise Compacted(revision, self._compacted_revision) from None
            revision = revision or self._keys.from_etcd_revision(int(answer.header.revision))
            items += [self._key_value(self._keys.store_key(item.key), item) for item in answer.kvs]
            if not answer.more or (limit and len(items) >= limit):
                break
            start_key = answer.kvs[-1].key + b"\0"
        return items, revision or self.revision

    def watch(
        self, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None = None
    ) -> Subscription:
        self._check_open()
        self._check_readable(after_revision)
        return self._watches.add(after_revision, handler, on_progress, self._live_watch.delivered_revision)

    # --- maintenance ---

    async def compact(self, revision: int) -> None:
        """One server of the store compacts at a time: the one that has changed the compaction key since it was last
        seen.
        """
        self._check_open()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self._compacted_revision:
            return
        await self._watches.wait_caught_up()
        request = messages.put_if_unchanged(
            self._keys.compaction_key, str(revision).encode(), self._compaction_mod_revision, True
        )
        answer = await self._connection.call(lambda member: member.kv.Txn, request)
        if not answer.succeeded:
            existing = answer.responses[0].response_range.kvs
            self._compaction_mod_revision = existing[0].mod_revision if existing else 0
            compacted_by_other = int(existing[0].value) if existing else 0
            if compacted_by_other < revision:
                await self.compact(revision)
            else:
                self._compacted_revision = max(self._compacted_revision, revision)
            return
        self._compaction_mod_revision = answer.header.revision
        with suppress(Compacted):  # another client of this etcd has compacted further
            await self._connection.call(
                lambda member: member.kv.Compact, messages.compact(self._keys.to_etcd_revision(revision))
            )
        self._compacted_revision = revision

    async def get_metadata(self, name: str) -> bytes | None:
        """Returns the metadata that the servers of this store share under that name."""
        answer = await self._connection.call(
            lambda member: member.kv.Range, messages.get(self._keys.metadata_key(name))
        )
        return bytes(answer.kvs[0].value) if answer.kvs else None

    async def put_metadata_if_absent(self, name: str, value: bytes) -> bytes:
        """Stores the metadata unless it exists, and returns what is stored."""
        key = self._keys.metadata_key(name)
        await self._connection.call(lambda member: member.kv.Txn, messages.put_if_unchanged(key, value, 0))
        stored = await self.get_metadata(name)
        assert stored is not None
        return stored

    async def compare_and_swap_metadata(self, name: str, value: bytes, before: bytes) -> bool:
        """Replaces the metadata if it is still `before`."""
        key = self._keys.metadata_key(name)
        existing = await self._connection.call(lambda member: member.kv.Range, messages.get(key))
        if not existing.kvs or bytes(existing.kvs[0].value) != before:
            return False
        request = messages.put_if_unchanged(key, value, existing.kvs[0].mod_revision)
        answer = await self._connection.call(lambda member: member.kv.Txn, request)
        return bool(answer.succeeded)

    def health_error(self) -> str:
        try:
            self._check_open()
        except StoreError as error:
            return str(error)
        return (
            ""
            if self._live_watch.is_connected
            else f"etcd at {self._connection.settings.endpoints_text} is not connected"
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._writes and not self.failure.done():
            await asyncio.wait(tuple(self._writes))
        self._watches.close()
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._read_index_batcher.close()
        await self._connection.close()
        self.failure.cancel()

    # --- internals ---

    async def _watch_claim(self) -> None:
        await watch_claim(self._connection, self._keys, self._claim_compare[1], self._check_same_store)

    async def _run_until_failure(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as error:
            if not self.failure.done():
                self.failure.set_result(error)
            self._live_watch.fail_waiters(error)

    def _deliver(self, events: Sequence[StoreEvent], revision: int) -> None:
        self._watches.deliver(events, revision)

    async def _newest_revision(self) -> int:
        seen_revision = self.revision
        answer = await self._connection.call(lambda member: member.kv.Range, messages.newest_revision(self._keys))
        revision = self._keys.from_etcd_revision(int(answer.header.revision))
        self._check_not_rolled_back(revision, seen_revision)
        return revision

    def _check_not_rolled_back(self, revision: int, seen_revision: int) -> None:
        """A wiped or restored etcd may answer before the live watch has noticed; nothing it answers is acknowledged."""
        if revision < seen_revision:
            raise StoreUnavailable(
                f"etcd at {self._connection.settings.endpoints_text} went back from "
                f"revision {seen_revision} to {revision}"
            )

    async def _check_same_store(self) -> None:
        """Checks the store after a lost connection or a change of the claim: etcd may have been wiped or restored from
        a snapshot.
        """
        # Read before the request: events delivered meanwhile are newer than the answer.
        seen_revision = self.revision
        try:
            current = await read_claim(self._connection, self._keys)
        except StoreUnavailable:
            return  # still unreachable; the live watch keeps retrying
        where = f"etcd at {self._connection.settings.endpoints_text}"
        if current is None or current.id != self._id:
            state = "is empty" if current is None else f"holds another store ({current.id})"
            raise StoreLost(
                f"{where}: {self._keys.prefix}/ {state} now, this server served {self._id}",
                "restore etcd from a snapshot, then restart the server",
            )
        if current.revision < seen_revision:
            raise StoreLost(
                f"{where}: the store went back from revision {seen_revision} to {current.revision}",
                "etcd was restored from a snapshot: restart the server; its clients will list again",
            )

    def _check_readable(self, revision: int) -> None:
        if revision < self._compacted_revision:
            raise Compacted(revision, self._compacted_revision)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self.failure.done() and not self.failure.cancelled():
            raise self.failure.result()

    def _key_value(self, key: str, item: Any) -> KeyValue:
        return KeyValue(key, item.value, self._keys.from_etcd_revision(item.mod_revision))
