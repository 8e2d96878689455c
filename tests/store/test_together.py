"""Transactions, and the store decorator that guards writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.objects.errors import Unavailable
from shoal.store.etcd import EtcdStore
from shoal.store.gated import GatedStore
from shoal.store.interface import CompareFailed, NotTogether, Store, StoreUnavailable, Write
from shoal.store.sqlite import SqliteStore, log
from tests.etcd import Etcd
from tests.store.contract import Seen, state

pytestmark = pytest.mark.anyio


async def test_all_of_it_in_one_delivery_above_a_revision(sqlite: SqliteStore, tmp_path: Path) -> None:
    old = await sqlite.put("/old", b"1", 0)
    kept = await sqlite.put("/kept", b"1", 0)
    batches: list[int] = []
    seen = Seen()
    sqlite.watch(sqlite.revision, lambda events: batches.append(len(events)))
    sqlite.watch(sqlite.revision, seen)
    other = sqlite.put("/other", b"1", 0)
    last = await sqlite.together(
        [Write("/old", None, old), Write("/new", b"2", 0), Write("/kept", b"2", kept)], above=5000
    )
    assert (last, sqlite.revision) == (5003, 5003)
    assert await other == kept + 1
    assert batches == [4], "with what was queued before it"
    assert [event[:2] for event in seen.events[1:]] == [(5001, "/old"), (5002, "/new"), (5003, "/kept")]
    assert await sqlite.put("/late", b"1", 0) == 5004
    assert await sqlite.together([Write("/last", b"1", 0)], above=10) == 5005, "it never goes back"
    expected = {"/kept": b"2", "/late": b"1", "/last": b"1", "/new": b"2", "/other": b"1"}
    assert await state(sqlite) == expected
    later = Seen()
    sqlite.watch(kept, later)
    assert [event.revision for event in await later.until(5005)][:2] == [kept + 1, 5001]
    await sqlite.close()
    again = await SqliteStore.open(tmp_path / "data")
    assert (again.revision, await state(again)) == (5005, expected)
    assert await again.put("/more", b"1", 0) == 5006
    await again.close()


async def test_nothing_of_it_when_one_compare_fails(sqlite: SqliteStore) -> None:
    revision = await sqlite.put("/a", b"1", 0)
    with pytest.raises(CompareFailed):
        await sqlite.together([Write("/b", b"1", 0), Write("/a", b"2", revision + 7)], above=5000)
    ahead = sqlite.put("/a", b"2", revision)
    with pytest.raises(CompareFailed):
        await sqlite.together([Write("/b", b"1", 0), Write("/a", b"3", revision)])
    assert await ahead == revision + 1, "and revisions are not raised"
    assert await state(sqlite) == {"/a": b"2"}
    with pytest.raises(ValueError, match="different keys"):
        await sqlite.together([Write("/c", b"1", 0), Write("/c", b"2", 0)])


async def test_nothing_of_it_when_the_disk_fails(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(connection: object, events: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(log, "append", full)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await sqlite.together([Write("/a", b"1", 0), Write("/b", b"1", 0)], above=5000)
    monkeypatch.undo()
    assert await state(sqlite) == {}
    assert await sqlite.put("/a", b"1", 0) < 5000


async def test_etcd_says_that_it_cannot(etcd: Etcd) -> None:
    store = await EtcdStore.open(etcd.settings())
    try:
        with pytest.raises(NotTogether, match="the etcd store has limits"):
            await store.together([Write("/a", b"1", 0)])
        assert await store.get("/a") is None
    finally:
        await store.close()


async def test_a_gate_judges_writes_and_nothing_else(sqlite: SqliteStore) -> None:
    judged: list[tuple[str, bytes | None]] = []

    def judge(key: str, value: bytes | None) -> str:
        judged.append((key, value))
        return "not now" if key == "/closed" else ""

    gated: Store = GatedStore(sqlite, judge)
    revision = await gated.put("/open", b"1", 0)
    with pytest.raises(Unavailable, match="not now") as refused:
        gated.put("/closed", b"1", 0)
    assert refused.value.retry_after == 5
    with pytest.raises(Unavailable):
        gated.delete("/closed", 3)
    await gated.delete("/open", revision)
    assert judged == [("/open", b"1"), ("/closed", b"1"), ("/closed", None), ("/open", None)]
    await gated.together([Write("/closed", b"1", 0)])
    assert len(judged) == 4
    assert await state(gated) == {"/closed": b"1"}
    assert (gated.id, gated.revision, gated.compacted) == (sqlite.id, sqlite.revision, sqlite.compacted)
    assert gated.problem() == ""
