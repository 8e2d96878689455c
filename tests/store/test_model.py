"""The embedded store against a model, a list of events: any order of calls, reopened and compacted in between."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shoal.store.interface import Compacted, CompareFailed, KeyValue, StoreEvent, Subscription
from shoal.store.sqlite import SqliteStore
from tests.store.contract import WatchRecorder

KEYS = st.sampled_from(["/p/a", "/p/b", "/p/ä", "/p0", "/q/a"])
SHARE = st.floats(0, 1)


class StoreModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.store = self.open()
        self.events: list[StoreEvent] = []
        self.compacted = self.store.revision
        self.watches: list[tuple[int, WatchRecorder, Subscription]] = []

    def open(self) -> SqliteStore:
        return self.runner.run(SqliteStore.open(Path(self.directory.name)))

    def teardown(self) -> None:
        self.settle()
        self.runner.run(self.store.close())
        self.runner.close()
        self.directory.cleanup()

    @property
    def newest(self) -> int:
        return self.events[-1].revision if self.events else 1

    def state(self, revision: int) -> dict[str, StoreEvent]:
        found: dict[str, StoreEvent] = {}
        for event in self.events:
            if event.revision <= revision:
                found[event.key] = event
        return {key: event for key, event in found.items() if event.value is not None}

    def pick(self, share: float) -> int:
        return self.compacted + round(share * (self.store.revision - self.compacted))

    async def write(self, key: str, value: bytes | None, expected: int) -> None:
        if value is None:
            self.store.delete(key, expected)
        else:
            self.store.put(key, value, expected)
        self.events.append(StoreEvent(self.newest + 1, key, value))

    @rule(key=KEYS, value=st.binary(max_size=8))
    def put(self, key: str, value: bytes) -> None:
        current = self.state(self.newest).get(key)
        self.runner.run(self.write(key, value, current.revision if current else 0))

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        current = self.state(self.newest).get(key)
        if current is not None:
            self.runner.run(self.write(key, None, current.revision))

    @rule(key=KEYS, off=st.integers(1, 3))
    def put_on_a_wrong_revision(self, key: str, off: int) -> None:
        current = self.state(self.newest).get(key)
        actual = current.revision if current else 0
        with pytest.raises(CompareFailed) as failed:
            self.runner.run(self.write(key, b"", actual + off))
        assert failed.value.current_revision == actual

    @rule()
    def settle(self) -> None:
        self.runner.run(self.store.flush())
        assert self.store.revision == self.newest
        for after, seen, _ in self.watches:
            expected = [event for event in self.events if event.revision > after]
            if expected:
                self.runner.run(seen.wait_for_revision(self.newest))
            assert seen.events == expected

    @rule(share=SHARE)
    def watch(self, share: float) -> None:
        after, seen = self.pick(share), WatchRecorder()

        async def watch() -> Subscription:
            return self.store.watch(after, seen)

        self.watches.append((after, seen, self.runner.run(watch())))

    @precondition(lambda self: self.watches)
    @rule(which=SHARE)
    def cancel(self, which: float) -> None:
        _, seen, subscription = self.watches.pop(round(which * (len(self.watches) - 1)))
        subscription.cancel()
        count = len(seen.events)
        self.settle()
        assert len(seen.events) == count

    @rule(share=SHARE)
    def compact(self, share: float) -> None:
        self.compacted = self.pick(share)
        self.runner.run(self.store.compact(self.compacted))

    @rule(
        share=SHARE,
        prefix=st.sampled_from(["", "/p", "/p/"]),
        start=st.sampled_from(["", "/p/b"]),
        limit=st.integers(0, 3),
    )
    def range(self, share: float, prefix: str, start: str, limit: int) -> None:
        at = self.pick(share)
        expected = [
            KeyValue(key, event.value or b"", event.revision)
            for key, event in sorted(self.state(at).items(), key=lambda item: item[0].encode())
            if key.startswith(prefix) and key >= start
        ]
        found = self.runner.run(self.store.range(prefix, start=start, limit=limit, revision=at))
        assert found == (expected[: limit or None], at)

    @rule()
    def range_before_history(self) -> None:
        with pytest.raises(Compacted):
            self.runner.run(self.store.range("", revision=self.compacted - 1 or -1))

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        event = self.state(self.store.revision).get(key)
        found = self.runner.run(self.store.get(key))
        assert found == (KeyValue(key, event.value or b"", event.revision) if event else None)

    @rule()
    def reopen(self) -> None:
        self.settle()
        self.watches.clear()
        before = self.store.id
        self.runner.run(self.store.close())
        self.store = self.open()
        assert (self.store.id, self.store.revision) == (before, self.newest)

    @invariant()
    def revisions_are_in_order(self) -> None:
        assert self.store.compacted_revision == self.compacted <= self.store.revision <= self.newest


TestModel = StoreModel.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40)
