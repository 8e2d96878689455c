"""Transactions, and the store decorator that guards writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.objects.errors import Unavailable
from shoal.store.etcd import EtcdStore
from shoal.store.fencing import GuardedStore
from shoal.store.interface import CompareFailed, Store, StoreUnavailable, TransactionUnsupported, WriteOp
from shoal.store.sqlite import SqliteStore, log
from tests.etcd import Etcd
from tests.store.contract import WatchRecorder, read_state

pytestmark = pytest.mark.anyio


async def test_all_of_it_in_one_delivery_above_a_revision(sqlite: SqliteStore, tmp_path: Path) -> None:
    old = await sqlite.put("/old", b"1", 0)
    kept = await sqlite.put("/kept", b"1", 0)
    batches: list[int] = []
    seen = WatchRecorder()
    sqlite.watch(sqlite.revision, lambda events: batches.append(len(events)))
    sqlite.watch(sqlite.revision, seen)
    other = sqlite.put("/other", b"1", 0)
    last = await sqlite.transaction(
        [WriteOp("/old", None, old), WriteOp("/new", b"2", 0), WriteOp("/kept", b"2", kept)], above_revision=5000
    )
    assert (last, sqlite.revision) == (5003, 5003)
    assert await other == kept + 1
    assert batches == [4], "with what was queued before it"
    assert [event[:2] for event in seen.events[1:]] == [(5001, "/old"), (5002, "/new"), (5003, "/kept")]
    assert await sqlite.put("/late", b"1", 0) == 5004
    assert await sqlite.transaction([WriteOp("/last", b"1", 0)], above_revision=10) == 5005, "it never goes back"
    expected = {"/kept": b"2", "/late": b"1", "/last": b"1", "/new": b"2", "/other": b"1"}
    assert await read_state(sqlite) == expected
    later = WatchRecorder()
    sqlite.watch(kept, later)
    assert [event.revision for event in await later.wait_for_revision(5005)][:2] == [kept + 1, 5001]
    await sqlite.close()
    again = await SqliteStore.open(tmp_path / "data")
    assert (again.revision, await read_state(again)) == (5005, expected)
    assert await again.put("/more", b"1", 0) == 5006
    await again.close()


async def test_nothing_of_it_when_one_compare_fails(sqlite: SqliteStore) -> None:
    revision = await sqlite.put("/a", b"1", 0)
    with pytest.raises(CompareFailed):
        await sqlite.transaction([WriteOp("/b", b"1", 0), WriteOp("/a", b"2", revision + 7)], above_revision=5000)
    ahead = sqlite.put("/a", b"2", revision)
    with pytest.raises(CompareFailed):
        await sqlite.transaction([WriteOp("/b", b"1", 0), WriteOp("/a", b"3", revision)])
    assert await ahead == revision + 1, "and revisions are not raised"
    assert await read_state(sqlite) == {"/a": b"2"}
    with pytest.raises(ValueError, match="each key only once"):
        await sqlite.transaction([WriteOp("/c", b"1", 0), WriteOp("/c", b"2", 0)])


async def test_nothing_of_it_when_the_disk_fails(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(connection: object, events: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(log, "append", full)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await sqlite.transaction([WriteOp("/a", b"1", 0), WriteOp("/b", b"1", 0)], above_revision=5000)
    monkeypatch.undo()
    assert await read_state(sqlite) == {}
    assert await sqlite.put("/a", b"1", 0) < 5000


async def test_etcd_says_that_it_cannot(etcd: Etcd) -> None:
    store = await EtcdStore.open(etcd.settings())
    try:
        with pytest.raises(TransactionUnsupported, match="the etcd store has no transactions"):
            await store.transaction([WriteOp("/a", b"1", 0)])
        assert await store.get("/a") is None
    finally:
        await store.close()


async def test_a_gate_judges_writes_and_nothing_else(sqlite: SqliteStore) -> None:
    judged: list[tuple[str, bytes | None]] = []

    def judge(key: str, value: bytes | None) -> str:
        judged.append((key, value))
        return "not now" if key == "/closed" else ""

    gated: Store = GuardedStore(sqlite, judge)
    revision = await gated.put("/open", b"1", 0)
    with pytest.raises(Unavailable, match="not now") as refused:
        gated.put("/closed", b"1", 0)
    assert refused.value.retry_after == 5
    with pytest.raises(Unavailable):
        gated.delete("/closed", 3)
    await gated.delete("/open", revision)
    assert judged == [("/open", b"1"), ("/closed", b"1"), ("/closed", None), ("/open", None)]
    await gated.transaction([WriteOp("/closed", b"1", 0)])
    assert len(judged) == 4
    assert await read_state(gated) == {"/closed": b"1"}
    assert (gated.id, gated.revision, gated.compacted_revision) == (
        sqlite.id,
        sqlite.revision,
        sqlite.compacted_revision,
    )
    assert gated.health_error() == ""
