"""Backup and restore, the same on every store and between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.apiserver.cache.objects import TOMBSTONE
from shoal.assemble.commands.fsck import fsck, fsck_backup
from shoal.assemble.commands.restore import REVISION_GAP
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.snapshot import open_snapshot
from shoal.objects.errors import ShoalError
from shoal.store.backup.format import InvalidBackup
from shoal.store.interface import Compacted, CompareFailed, FutureRevision
from tests.backup.stores import StoreLocation, contents
from tests.etcd import Etcd

MakePlace = Callable[[], StoreLocation]


class BackupContract:
    def test_everything_comes_back_and_nothing_else(self, place: MakePlace, tmp_path: Path) -> None:
        here, there, file = place(), place(), tmp_path / "b"
        values = contents(1000)
        revision = here.fill(values)
        taken = here.backup(file)
        assert (taken.records, taken.header.revision, taken.header.newest) == (len(values), revision, revision)
        assert file.stat().st_mode & 0o777 == 0o600
        of_the_file = fsck_backup(file, StoreSettings())
        assert (of_the_file.is_sound, of_the_file.findings, of_the_file.records) == (True, [], len(values))
        done = there.restore(file)
        assert there.read_stored() == values
        assert values["rbac.authorization.k8s.io/clusterroles/team//edit"] == TOMBSTONE
        assert done.records == len(values)
        checked = fsck(there.directory, there.settings)
        assert (checked.is_sound, checked.findings, checked.records) == (True, [], len(values))

    def test_the_restored_store_is_another_one_and_far_ahead(self, place: MakePlace, tmp_path: Path) -> None:
        here, there, file = place(), place(), tmp_path / "b"
        before = here.fill(contents(10))
        taken = here.backup(file)
        done = there.restore(file)
        assert done.store_id != taken.header.store
        assert done.revision > before + REVISION_GAP

        async def look() -> None:
            store = await there.open()
            try:
                assert (store.id, store.compacted_revision) == (done.store_id, done.revision)
                with pytest.raises(Compacted):
                    store.watch(before, lambda _: None)
                found, at = await store.range("")
                assert len(found) == done.records
                assert all(before < item.revision <= at for item in found)
                first = found[0]
                with pytest.raises(CompareFailed):
                    await store.put(first.key, b"{}", before)
                assert await store.put(first.key, b"{}", first.revision) > at
            finally:
                await store.close()

        asyncio.run(look())

    def test_a_snapshot_is_one_state_while_others_write(self, place: MakePlace) -> None:
        here = place()
        here.fill({"/a": b"0", "/b": b"0", **contents(300)})

        async def run() -> None:
            store = await here.open()

            async def write() -> None:
                for n in range(1, 40):
                    for key in ("/a", "/b"):
                        found = await store.get(key)
                        assert found is not None
                        await store.put(key, b"%d" % n, found.revision)

            writing = asyncio.ensure_future(write())
            try:
                for _ in range(5):
                    async with open_snapshot(here.directory, here.settings) as snapshot:
                        seen = {key: value async for page in snapshot.pages() for key, value, _ in page}
                    then, _ = await store.range("", revision=snapshot.revision)
                    assert seen == {key: value for key, value, _ in then}
                    assert int(seen["/b"]) <= int(seen["/a"]) <= int(seen["/b"]) + 1
                await writing
            finally:
                await store.close()

        asyncio.run(run())

    def test_a_point_in_the_past(self, place: MakePlace, tmp_path: Path) -> None:
        here, there = place(), place()
        values = contents(5)
        then = here.fill(values)

        async def destroy() -> tuple[int, int]:
            store = await here.open()
            try:
                found, _ = await store.range("")
                for item in found:
                    await store.delete(item.key, item.revision)
                await store.compact(then)
                return store.revision, store.compacted_revision
            finally:
                await store.close()

        newest, oldest = asyncio.run(destroy())
        taken = here.backup(tmp_path / "then", then)
        assert taken.header.revision == then
        assert taken.header.newest >= newest
        assert there.restore(tmp_path / "then").revision > newest + REVISION_GAP
        assert there.read_stored() == values
        assert here.backup(tmp_path / "now").records == 0
        with pytest.raises(FutureRevision):
            here.backup(tmp_path / "future", newest + 1000)
        with pytest.raises(Compacted):
            here.backup(tmp_path / "past", oldest - 1)
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["now", "then"]

    def test_a_store_is_never_written_over_unasked(self, place: MakePlace, tmp_path: Path) -> None:
        here, there, file = place(), place(), tmp_path / "b"
        here.fill(contents(10))
        here.backup(file)
        old = contents(3)
        there.fill(old)
        with pytest.raises(ShoalError, match="nothing was written"):
            there.restore(file)
        assert there.read_stored() == old
        done = there.restore(file, replace=True)
        assert there.read_stored() == here.read_stored()
        assert done.replaced_location

    def test_a_damaged_file_changes_nothing(self, place: MakePlace, tmp_path: Path) -> None:
        here, there, file = place(), place(), tmp_path / "b"
        here.fill(contents(200))
        here.backup(file)
        old = contents(3)
        there.fill(old)
        data = file.read_bytes()
        for wrong in (data[:-1], data[: len(data) // 2], data[:200] + b"\0" + data[201:], b""):
            file.write_bytes(wrong)
            with pytest.raises(InvalidBackup):
                there.restore(file, replace=True)
        assert there.read_stored() == old

    def test_an_older_backup_is_not_written_over(self, place: MakePlace, tmp_path: Path) -> None:
        here, file = place(), tmp_path / "b"
        here.fill(contents(2))
        file.write_text("precious")
        with pytest.raises(ShoalError, match="exists already"):
            here.backup(file)
        assert file.read_text() == "precious"


class TestSqlite(BackupContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> MakePlace:
        return lambda: StoreLocation(tmp_path)

    def test_what_was_replaced_is_whole(self, place: MakePlace, tmp_path: Path) -> None:
        here, file, old = place(), tmp_path / "b", contents(3)
        here.fill(contents(10))
        here.backup(file)
        there = place()
        there.fill(old)
        done = there.restore(file, replace=True)
        assert done.replaced_location == str(there.directory / "replaced-1")
        there.directory = there.directory / "replaced-1"
        assert there.read_stored() == old


class TestEtcd(BackupContract):
    @pytest.fixture
    def place(self, tmp_path: Path, etcd: Etcd) -> MakePlace:
        return lambda: StoreLocation(tmp_path, etcd)


def round_trip(tmp_path: Path, etcd: Etcd, count: int) -> None:
    values = contents(count)
    sqlite, between, back = StoreLocation(tmp_path), StoreLocation(tmp_path, etcd), StoreLocation(tmp_path)
    first = sqlite.fill(values)
    sqlite.backup(tmp_path / "one")
    second = between.restore(tmp_path / "one").revision
    assert between.read_stored() == values
    between.backup(tmp_path / "two")
    third = back.restore(tmp_path / "two").revision
    assert back.read_stored() == values
    assert first < second < third


def test_from_sqlite_to_etcd_and_back(tmp_path: Path, etcd: Etcd) -> None:
    round_trip(tmp_path, etcd, 1000)


@pytest.mark.soak
def test_ten_thousand_objects_from_sqlite_to_etcd_and_back(tmp_path: Path, etcd: Etcd) -> None:
    round_trip(tmp_path, etcd, 10_000)
