"""The contract tests of every store. A store is tested by a subclass of `StoreContract` with a `store_factory` fixture.

Revisions are compared with each other, never with numbers, and a test sees only the keys it wrote itself. A failed
compare may be raised at once or be set on the future: `compare_failure_of` handles both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from shoal.store.interface import (
    Compacted,
    CompareFailed,
    FutureRevision,
    KeyValue,
    Store,
    StoreEvent,
    StoreUnavailable,
)

OpenStore = Callable[[], Awaitable[Store]]


class WatchRecorder:
    """A watch handler that records events and can be awaited."""

    def __init__(self) -> None:
        self.events: list[StoreEvent] = []
        self._more = asyncio.Event()

    def __call__(self, events: Sequence[StoreEvent]) -> None:
        assert events, "an empty delivery says nothing"
        self.events += events
        self._more.set()

    async def wait_for_revision(self, revision: int) -> list[StoreEvent]:
        async with asyncio.timeout(30):
            while not self.events or self.events[-1].revision < revision:
                self._more.clear()
                await self._more.wait()
        return self.events


async def read_state(store: Store, revision: int = 0) -> dict[str, bytes]:
    return {key: value for key, value, _ in (await store.range("", revision=revision))[0]}


async def compare_failure_of(write: Callable[[], asyncio.Future[int]]) -> CompareFailed:
    with pytest.raises(CompareFailed) as failed:
        await write()
    return failed.value


class StoreContract:
    # --- writing ---

    async def test_a_fresh_store_has_a_revision_and_nothing_in_it(self, store: Store) -> None:
        assert store.revision == store.compacted_revision >= 1
        assert await store.range("") == ([], store.revision)
        assert await store.get("/a") is None

    async def test_a_put_returns_the_next_revision_and_can_be_read(self, store: Store) -> None:
        before = store.revision
        revision = await store.put("/a", b"one", 0)
        assert before < revision == store.revision
        assert await store.get("/a") == KeyValue("/a", b"one", revision)

    async def test_every_write_has_a_revision_of_its_own(self, store: Store) -> None:
        revisions = await asyncio.gather(*(store.put(f"/{n}", b"v", 0) for n in range(50)))
        assert len(set(revisions)) == 50
        assert store.revision == max(revisions)
        assert await store.put("/late", b"v", 0) > max(revisions)

    async def test_values_are_opaque(self, store: Store) -> None:
        for value in (b"", b"\0\xff\0", bytes(range(256)) * 400):
            kept = await store.put(f"/{len(value)}", value, 0)
            assert await store.get(f"/{len(value)}") == KeyValue(f"/{len(value)}", value, kept)

    async def test_create_fails_where_something_is(self, store: Store) -> None:
        revision = await store.put("/a", b"one", 0)
        failed = await compare_failure_of(lambda: store.put("/a", b"two", 0))
        assert (failed.key, failed.current_revision) == ("/a", revision)
        assert str(failed) == f"/a is at revision {revision}"
        assert await store.get("/a") == KeyValue("/a", b"one", revision)

    async def test_update_and_delete_fail_on_another_revision(self, store: Store) -> None:
        old = await store.put("/a", b"one", 0)
        new = await store.put("/a", b"two", old)
        assert (await compare_failure_of(lambda: store.put("/a", b"three", old))).current_revision == new
        assert (await compare_failure_of(lambda: store.delete("/a", old))).current_revision == new

    async def test_what_does_not_exist_is_at_revision_0(self, store: Store) -> None:
        assert (await compare_failure_of(lambda: store.put("/a", b"one", 7))).current_revision == 0
        assert (await compare_failure_of(lambda: store.delete("/a", 7))).current_revision == 0

    async def test_a_failed_compare_takes_no_revision(self, store: Store) -> None:
        revision = await store.put("/a", b"one", 0)
        await compare_failure_of(lambda: store.put("/a", b"two", 0))
        assert await store.put("/b", b"one", 0) == revision + 1

    async def test_of_two_writes_at_once_one_wins(self, store: Store) -> None:
        async def write(value: bytes) -> int | CompareFailed:
            try:
                return await store.put("/a", value, 0)
            except CompareFailed as failed:
                await store.flush()
                return failed

        answers = await asyncio.gather(*(write(b"%d" % n) for n in range(20)))
        ((winner, revision),) = [(n, answer) for n, answer in enumerate(answers) if isinstance(answer, int)]
        assert all(answer.current_revision == revision for answer in answers if isinstance(answer, CompareFailed))
        assert await store.get("/a") == KeyValue("/a", b"%d" % winner, revision)

    async def test_who_is_refused_has_been_delivered_the_other_write(self, store: Store) -> None:
        seen = WatchRecorder()
        store.watch(store.revision, seen)

        async def write(value: bytes) -> None:
            try:
                await store.put("/a", value, 0)
            except CompareFailed as failed:
                await store.flush()
                known.append((failed.current_revision, [event.revision for event in seen.events]))

        known: list[tuple[int, list[int]]] = []
        await asyncio.gather(write(b"one"), write(b"two"))
        revision = seen.events[0].revision
        assert known == [(revision, [revision])]

    async def test_reads_see_only_what_is_durable(self, store: Store) -> None:
        old = await store.put("/a", b"one", 0)
        write = store.put("/a", b"two", old)
        assert store.revision == old
        found, at = await store.range("")
        new = await write
        assert new > old
        assert found == ([KeyValue("/a", b"two", new)] if at >= new else [KeyValue("/a", b"one", old)])

    async def test_deleted_keys_are_gone_and_can_come_back(self, store: Store) -> None:
        first = await store.put("/a", b"one", 0)
        deleted = await store.delete("/a", first)
        assert deleted > first
        assert await store.get("/a") is None
        assert await read_state(store) == {}
        assert (await compare_failure_of(lambda: store.delete("/a", first))).current_revision == 0
        again = await store.put("/a", b"two", 0)
        assert again > deleted
        assert await store.get("/a") == KeyValue("/a", b"two", again)

    async def test_a_cancelled_caller_does_not_undo_the_write(self, store: Store) -> None:
        write = store.put("/a", b"one", 0)
        write.cancel()
        await store.flush()
        assert await read_state(store) == {"/a": b"one"}

    async def test_settled_waits_for_what_was_queued(self, store: Store) -> None:
        await store.flush()
        writes = [store.put(f"/{n}", b"v", 0) for n in range(10)]
        await store.flush()
        assert all(write.done() for write in writes)
        assert store.revision == max(write.result() for write in writes)

    # --- reading ---

    async def test_range_is_in_byte_order(self, store: Store) -> None:
        keys = ["/p/a", "/p/a-b", "/p/a/b", "/p/b", "/p/Z", "/p/ä", "/p/\uffff", "/p/\U00010000"]
        await asyncio.gather(*(store.put(key, b"v", 0) for key in reversed(keys)))
        found, _ = await store.range("/p/")
        assert [item.key for item in found] == sorted(keys, key=str.encode)

    async def test_range_by_prefix_start_and_limit(self, store: Store) -> None:
        for key in ("/o/z", "/p/a", "/p/b", "/p/c", "/p/d", "/p0", "/q/a"):
            revision = await store.put(key, key.encode(), 0)

        async def keys(prefix: str, start: str = "", limit: int = 0, at: int = 0) -> list[str]:
            found, read = await store.range(prefix, start=start, limit=limit, revision=at)
            assert read == (at or revision)
            assert all(item.value == item.key.encode() for item in found)
            return [item.key for item in found]

        assert await keys("/p/") == ["/p/a", "/p/b", "/p/c", "/p/d"]
        assert await keys("/p/", limit=2) == ["/p/a", "/p/b"]
        assert await keys("/p/", start="/p/b", limit=2) == ["/p/b", "/p/c"]
        assert await keys("/p/", start="/p/bb") == ["/p/c", "/p/d"]
        assert await keys("/p/", start="/p/e") == []
        assert await keys("", start="/p0") == ["/p0", "/q/a"]
        assert await keys("/x") == []
        assert await keys("/p/", start="/p/b", at=revision - 2) == ["/p/b", "/p/c", "/p/d"]
        assert await keys("/p/", start="/p/b", limit=1, at=revision - 2) == ["/p/b"]

    async def test_range_reads_the_past(self, store: Store) -> None:
        empty = store.revision
        first = await store.put("/a", b"one", 0)
        second = await store.put("/a", b"two", first)
        other = await store.put("/b", b"b", 0)
        gone = await store.delete("/a", second)
        assert await read_state(store, empty) == {}
        assert await store.range("", revision=first) == ([KeyValue("/a", b"one", first)], first)
        assert await read_state(store, second) == {"/a": b"two"}
        assert await read_state(store, other) == {"/a": b"two", "/b": b"b"}
        assert await read_state(store, gone) == {"/b": b"b"}

    async def test_the_future_cannot_be_read(self, store: Store) -> None:
        future = await store.put("/a", b"one", 0) + 1
        with pytest.raises(FutureRevision) as failed:
            await store.range("", revision=future)
        assert (failed.value.requested, failed.value.current) == (future, store.revision)
        with pytest.raises(FutureRevision):
            store.watch(future, WatchRecorder())
        with pytest.raises(FutureRevision):
            await store.compact(future)

    # --- watching ---

    async def test_a_live_watch_sees_what_comes(self, store: Store) -> None:
        await store.put("/old", b"old", 0)
        seen = WatchRecorder()
        store.watch(store.revision, seen)
        first = await store.put("/a", b"one", 0)
        second = await store.delete("/a", first)
        assert await seen.wait_for_revision(second) == [StoreEvent(first, "/a", b"one"), StoreEvent(second, "/a", None)]

    async def test_delivery_comes_before_the_answer(self, store: Store) -> None:
        seen: list[tuple[int, int]] = []
        store.watch(store.revision, lambda events: seen.extend((e.revision, store.revision) for e in events))
        first = await store.put("/a", b"one", 0)
        assert seen == [(first, first)]

    async def test_a_watch_from_the_past_has_history_then_live(self, store: Store) -> None:
        start = store.revision
        revisions = await asyncio.gather(*(store.put(f"/{n}", b"old", 0) for n in range(700)))
        seen = WatchRecorder()
        store.watch(start, seen)
        assert seen.events == []
        late = [store.put(f"/late/{n}", b"new", 0) for n in range(50)]
        revisions += await asyncio.gather(*late)
        await seen.wait_for_revision(max(revisions))
        live = await store.put("/live", b"live", 0)
        await seen.wait_for_revision(live)
        assert [event.revision for event in seen.events] == [*sorted(revisions), live]

    async def test_a_watch_begins_after_its_revision(self, store: Store) -> None:
        first = await store.put("/a", b"one", 0)
        second = await store.put("/b", b"one", 0)
        seen = WatchRecorder()
        store.watch(first, seen)
        assert await seen.wait_for_revision(second) == [StoreEvent(second, "/b", b"one")]

    async def test_a_cancelled_watch_is_silent(self, store: Store) -> None:
        start = store.revision
        await store.put("/a", b"one", 0)
        history, live = WatchRecorder(), WatchRecorder()
        for subscription in (store.watch(start, history), store.watch(store.revision, live)):
            subscription.cancel()
            subscription.cancel()
        other = WatchRecorder()
        store.watch(start, other)
        await other.wait_for_revision(await store.put("/b", b"one", 0))
        assert history.events == live.events == []

    async def test_watches_change_while_events_are_delivered(self, store: Store) -> None:
        seen, late = WatchRecorder(), WatchRecorder()

        def deliver(events: Sequence[StoreEvent]) -> None:
            first.cancel()
            second.cancel()
            store.watch(store.revision, late)

        first = store.watch(store.revision, deliver)
        second = store.watch(store.revision, seen)
        await store.put("/a", b"one", 0)
        revision = await store.put("/b", b"one", 0)
        assert seen.events == []
        assert await late.wait_for_revision(revision) == [StoreEvent(revision, "/b", b"one")]

    # --- history ---

    async def test_compaction_drops_the_past_only(self, store: Store) -> None:
        first = await store.put("/a", b"one", 0)
        second = await store.put("/a", b"two", first)
        gone = await store.delete("/b", await store.put("/b", b"b", 0))
        third = await store.put("/a", b"three", second)
        await store.compact(gone)
        assert store.compacted_revision == gone
        assert store.revision >= third
        for asked in (first, gone - 1):
            with pytest.raises(Compacted) as failed:
                await store.range("", revision=asked)
            assert (failed.value.requested, failed.value.oldest) == (asked, gone)
            with pytest.raises(Compacted):
                store.watch(asked, WatchRecorder())
        assert await store.range("", revision=gone) == ([KeyValue("/a", b"two", second)], gone)
        assert await store.get("/a") == KeyValue("/a", b"three", third)
        seen = WatchRecorder()
        store.watch(gone, seen)
        assert await seen.wait_for_revision(third) == [StoreEvent(third, "/a", b"three")]

    async def test_compacting_less_than_before_changes_nothing(self, store: Store) -> None:
        first = await store.put("/a", b"one", 0)
        second = await store.put("/a", b"two", first)
        await store.compact(second)
        await store.compact(first)
        assert store.compacted_revision == second

    async def test_compaction_does_not_cut_a_watch_in_its_history(self, store: Store) -> None:
        start, revision = store.revision, 0
        for n in range(400):
            revision = await store.put("/a", b"%d" % n, revision)
        seen = WatchRecorder()
        store.watch(start, seen)
        await store.compact(revision)
        await seen.wait_for_revision(revision)
        assert [event.value for event in seen.events] == [b"%d" % n for n in range(400)]

    async def test_writes_go_on_during_compaction(self, store: Store) -> None:
        revision = 0
        for n in range(600):
            revision = await store.put("/a", b"%d" % n, revision)
        compaction = asyncio.ensure_future(store.compact(revision))
        for n in range(600, 700):
            revision = await store.put("/a", b"%d" % n, revision)
        await compaction
        assert await read_state(store) == {"/a": b"699"}

    # --- life ---

    async def test_everything_is_there_after_reopening(self, store_factory: OpenStore) -> None:
        store = await store_factory()
        start, name = store.revision, store.id
        first = await store.put("/a", b"one", 0)
        second = await store.put("/a", b"two", first)
        gone = await store.delete("/b", await store.put("/b", b"b", 0))
        await store.close()

        store = await store_factory()
        assert (store.id, store.revision, store.compacted_revision) == (name, gone, start)
        assert await read_state(store, first) == {"/a": b"one"}
        assert await read_state(store) == {"/a": b"two"}
        seen = WatchRecorder()
        store.watch(start, seen)
        assert [event.value for event in await seen.wait_for_revision(gone)] == [b"one", b"two", b"b", None]
        await compare_failure_of(lambda: store.put("/a", b"three", first))
        assert await store.put("/a", b"three", second) > gone
        await store.close()

    async def test_the_revision_never_goes_back(self, store_factory: OpenStore) -> None:
        store = await store_factory()
        gone = await store.delete("/a", await store.put("/a", b"one", 0))
        await store.compact(gone)
        await store.close()
        store = await store_factory()
        assert store.revision >= store.compacted_revision == gone
        assert await store.put("/a", b"one", 0) > gone
        await store.close()

    async def test_closing_drains_and_then_refuses(self, store_factory: OpenStore) -> None:
        store = await store_factory()
        writes = [store.put(f"/{n}", b"v", 0) for n in range(20)]
        await store.close()
        assert all(write.done() for write in writes)
        await store.close()
        for call in (
            lambda: store.put("/x", b"v", 0),
            lambda: store.delete("/0", writes[0].result()),
            lambda: store.watch(store.revision, WatchRecorder()),
        ):
            with pytest.raises(StoreUnavailable, match=r"^the store is closed$"):
                call()
        for wait in (store.get("/0"), store.range(""), store.compact(1), store.flush()):
            with pytest.raises(StoreUnavailable, match=r"^the store is closed$"):
                await wait
        store = await store_factory()
        assert len(await read_state(store)) == 20
        await store.close()
