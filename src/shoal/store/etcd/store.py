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
from shoal.store.etcd.connection import Connection, EtcdSettings, Transient
from shoal.store.etcd.feed import Feed
from shoal.store.etcd.freshness import Freshness
from shoal.store.etcd.guarding import guard
from shoal.store.etcd.history import Watches
from shoal.store.etcd.messages import Keys
from shoal.store.etcd.opening import Claim, check_members, claim, oldest_revision, read_claim
from shoal.store.fencing import Fenced, condition
from shoal.store.interface import (
    Advance,
    Compacted,
    CompareFailed,
    Deliver,
    Event,
    FutureRevision,
    KeyValue,
    NotTogether,
    StoreLost,
    StoreUnavailable,
    Subscription,
    Write,
)


class EtcdStore:
    def __init__(self, connection: Connection, keys: Keys, found: Claim, compacted: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection, self._keys = connection, keys
        self._id = found.id
        self._compacted = compacted
        self._claim = keys.claim, found.written
        """Compared with every write, so that a store replaced by a restore takes no writes."""
        self._holder = 0
        """The revision at which the compaction key was last seen to change."""
        self._writes: set[asyncio.Task[None]] = set()
        self._watches = Watches(connection, keys)
        self._feed = self._watches.feed = Feed(connection, keys, found.revision, self._deliver, self._check_same)
        self._freshness = Freshness(self._newest, self._feed.reached)
        self._closed = False
        self.failure: asyncio.Future[StoreError] = self._loop.create_future()
        self._running = asyncio.gather(self._run(self._feed.run), self._run(self._guard))

    @classmethod
    async def open(cls, settings: EtcdSettings, known: str = "") -> Self:
        """Opens the store below the prefix, or creates one. `expected_id` is the ID that must be found, if one was seen
        before.

        Raises StoreFormatError, StoreLost or StoreUnavailable.
        """
        connection = Connection(settings)
        keys = Keys(settings.prefix)
        try:
            await connection.authenticate()
            await check_members(connection)
            found = await claim(connection, keys, known)
            keys = found.keys
            compacted = await oldest_revision(connection, keys, found.created)
        except BaseException:
            await connection.close()
            raise
        return cls(connection, keys, found, compacted)

    @property
    def id(self) -> str:
        return self._id

    @property
    def revision(self) -> int:
        return self._feed.delivered

    @property
    def compacted(self) -> int:
        return self._compacted

    @property
    def takes_together(self) -> bool:
        return False

    @property
    def is_exclusive(self) -> bool:
        return self._connection.settings.exclusive

    @property
    def keys_read(self) -> int:
        return self._connection.keys_read

    # --- writes ---

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        name, there = self._keys.object(key), self._keys.etcds(expected)
        return self._write(
            key, value, expected, lambda sure: messages.put_if(name, value, there, not sure, self._claim)
        )

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        if not expected:
            raise ValueError("a deletion names the revision it deletes")
        name, there = self._keys.object(key), self._keys.etcds(expected)
        return self._write(key, None, expected, lambda sure: messages.delete_if(name, there, self._claim))

    def together(self, writes: Sequence[Write], above: int = 0) -> asyncio.Future[int]:
        raise NotTogether("the etcd store has limits to what is one transaction, and revisions are etcd's to give")

    async def settled(self) -> None:
        self._check_open()
        if self._writes:
            await asyncio.wait(tuple(self._writes))

    def _write(
        self, key: str, value: bytes | None, expected: int, request: Callable[[bool], Any]
    ) -> asyncio.Future[int]:
        self._check_open()
        answer: asyncio.Future[int] = self._loop.create_future()
        task = self._loop.create_task(self._carry_out(answer, key, value, expected, request))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return answer

    async def _carry_out(
        self,
        answer: asyncio.Future[int],
        key: str,
        value: bytes | None,
        expected: int,
        request: Callable[[bool], Any],
    ) -> None:
        try:
            revision = await self._decided(key, value, expected, request)
            await self._feed.arrival(revision)
        except StoreError as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(revision)

    async def _decided(self, key: str, value: bytes | None, expected: int, request: Callable[[bool], Any]) -> int:
        """Returns the revision of the write. `first_attempt`: no earlier attempt can have been applied."""
        sure, seen, holds = True, self.revision, condition()

        async def attempt() -> Any:
            nonlocal sure
            if holds is not None and not holds():
                raise Fenced
            try:
                return await self._connection.once(lambda member: member.kv.Txn, request(sure))
            except Transient:
                sure = False
                raise

        answer = await self._connection.patiently(attempt)
        revision = self._keys.ours(int(answer.header.revision))
        self._check_not_back(revision, seen)
        if answer.succeeded:
            return revision
        there, claim = (each.response_range.kvs for each in answer.responses)
        if not claim or claim[0].mod_revision != self._claim[1]:
            await self._check_same()
            raise StoreUnavailable(
                f"{self._keys.claim.decode()} in etcd was written by somebody; start the server again"
            )
        current = self._keys.ours(int(there[0].mod_revision)) if there else 0
        if not sure and there and there[0].value == value and current > expected:
            return current
        # A caller that gets a conflict must be able to read the conflicting write.
        await self._feed.reached(revision)
        if not sure and value is None and not there:
            return revision
        if not sure:
            # A conflict would mean that the write was not applied and may be repeated.
            raise StoreUnavailable(f"etcd did not answer in time, and {key} was changed since: look what became of it")
        raise CompareFailed(key, current)

    # --- reads ---

    def fresh(self) -> asyncio.Future[None] | None:
        if self.is_exclusive and not self.failure.done():
            return None
        self._check_open()
        return self._freshness()

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        answer = await self._connection.call(lambda member: member.kv.Range, messages.get(self._keys.object(key)))
        return self._key_value(key, answer.kvs[0]) if answer.kvs else None

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        self._check_open()
        if revision:
            self._check_readable(revision)
        low = self._keys.object(max(prefix, start))
        end = messages.after(self._keys.object(prefix))
        found: list[KeyValue] = []
        while low < end:
            size = min(messages.PAGE, limit - len(found)) if limit else messages.PAGE
            request = messages.page(low, end, size, self._keys.etcds(revision))
            try:
                answer = await self._connection.call(lambda member: member.kv.Range, request)
            except Compacted:
                raise Compacted(revision, self._compacted) from None
            revision = revision or self._keys.ours(int(answer.header.revision))
            found += [self._key_value(self._keys.name(item.key), item) for item in answer.kvs]
            if not answer.more or (limit and len(found) >= limit):
                break
            low = answer.kvs[-1].key + b"\0"
        return found, revision or self.revision

    def watch(self, after: int, deliver: Deliver, advance: Advance | None = None) -> Subscription:
        self._check_open()
        self._check_readable(after)
        return self._watches.add(after, deliver, advance, self._feed.delivered)

    # --- maintenance ---

    async def compact(self, revision: int) -> None:
        """One server of the store compacts at a time: the one that has changed the compaction key since it was last
        seen.
        """
        self._check_open()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self._compacted:
            return
        await self._watches.caught_up()
        request = messages.put_if(self._keys.compaction, str(revision).encode(), self._holder, True)
        answer = await self._connection.call(lambda member: member.kv.Txn, request)
        if not answer.succeeded:
            there = answer.responses[0].response_range.kvs
            self._holder = there[0].mod_revision if there else 0
            done = int(there[0].value) if there else 0
            if done < revision:
                await self.compact(revision)
            else:
                self._compacted = max(self._compacted, revision)
            return
        self._holder = answer.header.revision
        with suppress(Compacted):  # another client of this etcd has compacted further
            await self._connection.call(lambda member: member.kv.Compact, messages.compact(self._keys.etcds(revision)))
        self._compacted = revision

    async def note(self, name: str) -> bytes | None:
        """Returns the metadata that the servers of this store share under that name."""
        answer = await self._connection.call(lambda member: member.kv.Range, messages.get(self._keys.note(name)))
        return bytes(answer.kvs[0].value) if answer.kvs else None

    async def keep_note(self, name: str, value: bytes) -> bytes:
        """Stores the metadata unless it exists, and returns what is stored."""
        key = self._keys.note(name)
        await self._connection.call(lambda member: member.kv.Txn, messages.put_if(key, value, 0))
        kept = await self.note(name)
        assert kept is not None
        return kept

    async def change_note(self, name: str, value: bytes, before: bytes) -> bool:
        """Replaces the metadata if it is still `before`."""
        key = self._keys.note(name)
        found = await self._connection.call(lambda member: member.kv.Range, messages.get(key))
        if not found.kvs or bytes(found.kvs[0].value) != before:
            return False
        request = messages.put_if(key, value, found.kvs[0].mod_revision)
        answer = await self._connection.call(lambda member: member.kv.Txn, request)
        return bool(answer.succeeded)

    def problem(self) -> str:
        try:
            self._check_open()
        except StoreError as error:
            return str(error)
        return "" if self._feed.connected else f"etcd at {self._connection.settings.where} is not connected"

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._writes and not self.failure.done():
            await asyncio.wait(tuple(self._writes))
        self._watches.close()
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._freshness.close()
        await self._connection.close()
        self.failure.cancel()

    # --- internals ---

    async def _guard(self) -> None:
        await guard(self._connection, self._keys, self._claim[1], self._check_same)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as error:
            if not self.failure.done():
                self.failure.set_result(error)
            self._feed.give_up(error)

    def _deliver(self, events: Sequence[Event], revision: int) -> None:
        self._watches.deliver(events, revision)

    async def _newest(self) -> int:
        seen = self.revision
        answer = await self._connection.call(lambda member: member.kv.Range, messages.newest_revision(self._keys))
        revision = self._keys.ours(int(answer.header.revision))
        self._check_not_back(revision, seen)
        return revision

    def _check_not_back(self, revision: int, seen: int) -> None:
        """A wiped or restored etcd may answer before the live watch has noticed; nothing it answers is acknowledged."""
        if revision < seen:
            raise StoreUnavailable(
                f"etcd at {self._connection.settings.where} went back from revision {seen} to {revision}"
            )

    async def _check_same(self) -> None:
        """Checks the store after a lost connection or a change of the claim: etcd may have been wiped or restored from
        a snapshot.
        """
        # Read before the request: events delivered meanwhile are newer than the answer.
        seen = self.revision
        try:
            found = await read_claim(self._connection, self._keys)
        except StoreUnavailable:
            return  # still unreachable; the live watch keeps retrying
        where = f"etcd at {self._connection.settings.where}"
        if found is None or found.id != self._id:
            there = "is empty" if found is None else f"holds another store ({found.id})"
            raise StoreLost(
                f"{where}: {self._keys.prefix}/ {there} now, this server served {self._id}",
                "restore etcd from a snapshot, then start the server again",
            )
        if found.revision < seen:
            raise StoreLost(
                f"{where}: the store went back from revision {seen} to {found.revision}",
                "it was restored from a snapshot: start the server again, and its clients will list anew",
            )

    def _check_readable(self, revision: int) -> None:
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self.failure.done() and not self.failure.cancelled():
            raise self.failure.result()

    def _key_value(self, key: str, item: Any) -> KeyValue:
        return KeyValue(key, item.value, self._keys.ours(item.mod_revision))
