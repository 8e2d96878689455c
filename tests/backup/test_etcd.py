"""Backups in etcd only: unfinished restores, servers that come back, servers that still run."""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.assemble.commands.backup import BackupOptions, backup
from shoal.assemble.commands.encrypt import encrypt
from shoal.assemble.commands.fsck import fsck
from shoal.assemble.commands.restore import RestoreOptions, restore
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import DataDirError
from shoal.assemble.storage.etcd import remote_etcd_settings
from shoal.store.encrypted import KeyRing
from shoal.store.etcd import EtcdStore
from shoal.store.etcd.snapshot import EtcdRestoreSpec, EtcdSnapshot, restore_store
from shoal.store.interface import Compacted, CompareFailed, KeyValue, StoreEvent, StoreFormatError, StoreLost
from tests.backup.stores import StoreLocation, contents
from tests.etcd import Etcd, etcd_program
from tests.serving import Cluster, Server, config_map
from tests.store.contract import WatchRecorder

MAPS = "/api/v1/namespaces/default/configmaps"


class RestoreInterrupted(Exception):
    pass


def interrupt_after(values: dict[str, bytes], count: int) -> Iterator[KeyValue]:
    for index, (key, value) in enumerate(sorted(values.items())):
        if index == count:
            raise RestoreInterrupted
        yield KeyValue(key, value, 1)


def test_a_restore_that_did_not_end_is_no_store_and_begins_anew(tmp_path: Path, etcd: Etcd) -> None:
    here, there, file = StoreLocation(tmp_path), StoreLocation(tmp_path, etcd), tmp_path / "b"
    values = contents(500)
    here.fill(values)
    here.backup(file)
    with pytest.raises(RestoreInterrupted):
        asyncio.run(
            restore_store(
                remote_etcd_settings(there.settings),
                EtcdRestoreSpec("0" * 36, "before", 1),
                interrupt_after(values, 250),
            )
        )
    with pytest.raises(StoreFormatError, match=r"an unfinished restore was found below .*; run shoal restore again"):
        asyncio.run(EtcdStore.open(remote_etcd_settings(there.settings)))
    there.restore(file)
    assert there.read_stored() == values

    async def strays() -> dict[str, int]:
        snapshot = await EtcdSnapshot.open(remote_etcd_settings(there.settings))
        try:
            return await snapshot.orphaned_prefixes()
        finally:
            await snapshot.close()

    assert asyncio.run(strays()) == {}


def test_a_store_that_was_there_stays_when_a_restore_does_not_end(tmp_path: Path, etcd: Etcd) -> None:
    there, old = StoreLocation(tmp_path, etcd), contents(20)
    there.fill(old)
    making = EtcdRestoreSpec("0" * 36, "before", 1, replace=True)
    with pytest.raises(RestoreInterrupted):
        asyncio.run(restore_store(remote_etcd_settings(there.settings), making, interrupt_after(contents(500), 250)))
    assert there.read_stored() == old
    (note,) = fsck(there.directory, there.settings).findings
    folder = f"{there.settings.prefix}/objects-00000000/"
    assert (note.is_problem, note.remedy) == (False, f"if they are not needed: etcdctl del --prefix {folder}")


def test_keys_of_another_program_are_left_alone(tmp_path: Path, etcd: Etcd) -> None:
    inner, file = StoreLocation(tmp_path, etcd), tmp_path / "b"
    inner.settings = replace(inner.settings, prefix="/other/program")
    inner.fill(contents(3))
    inner.backup(file)
    outer = replace(inner.settings, prefix="/other")
    with pytest.raises(StoreFormatError, match=r"holds keys of another program below /.*/ \(/other/program/objects/"):
        restore(RestoreOptions(file, None, outer, replace=True))
    assert inner.read_stored() == contents(3)


def test_a_local_etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{etcd_program().parent}{os.pathsep}{os.environ['PATH']}")
    here, file, values = StoreLocation(tmp_path), tmp_path / "b", contents(50)
    ring = KeyRing((b"k" * 32,), "keys")
    here.fill(values, ring)
    here.backup(file)
    with tempfile.TemporaryDirectory(prefix="shoal-") as short:
        keys = Path(short) / "keys"
        keys.write_text(base64.b64encode(b"k" * 32).decode())
        directory, local = Path(short) / "data", StoreSettings("etcd", encryption_key_file=str(keys))
        restore(RestoreOptions(file, directory, local))
        with pytest.raises(DataDirError, match="contains a store already"):
            restore(RestoreOptions(file, directory, local))
        assert fsck(directory, local).is_sound
        assert encrypt(directory, local, decrypt=True).rewritten > 0
        server = Server(directory, store=StoreSettings("etcd"))
        try:
            # While it runs, and found by what is in the directory.
            taken = backup(BackupOptions(tmp_path / "live", directory, StoreSettings()))
        finally:
            server.stop()
    assert taken.header.kind == "etcd"
    back = StoreLocation(tmp_path)
    back.restore(tmp_path / "live")
    assert back.read_stored().items() >= values.items()


def test_a_data_directory_moves_to_a_local_etcd_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = etcd_program()
    with tempfile.TemporaryDirectory(prefix="shoal-") as short:
        directory, tokens, revisions = Path(short), set(), []
        for step, store in enumerate((StoreSettings(), StoreSettings("etcd"), StoreSettings())):
            file = tmp_path / f"step{step}"
            if step:
                asked = RestoreOptions(tmp_path / f"step{step - 1}", directory, store, replace=True)
                if step == 1:
                    monkeypatch.setenv("PATH", "")
                    with pytest.raises(DataDirError, match="no etcd on PATH"):
                        restore(asked)
                    assert (directory / "shoal.db").exists(), "what cannot be restored takes no place"
                    monkeypatch.setenv("PATH", str(program.parent))
                restore(asked)
            server = Server(directory, store=store)
            try:
                root = Cluster(server, "root")
                tokens.add(server.token)
                root.post(MAPS, config_map(f"step{step}")).ok()
                found = root.get(MAPS).ok()
                revisions.append(int(found["metadata"]["resourceVersion"]))
                names = {item["metadata"]["name"] for item in found["items"]}
                assert names >= {f"step{n}" for n in range(step + 1)}
                root.close()
            finally:
                server.stop()
            backup(BackupOptions(file, directory, StoreSettings()))
    assert len(tokens) == 1
    assert revisions == sorted(revisions)


def test_revisions_ahead_of_etcds(etcd: Etcd) -> None:
    """The whole contract on such a store is in `make soak`."""

    async def run() -> None:
        settings = etcd.settings()
        made = await restore_store(settings, EtcdRestoreSpec("2" * 36, "before", 10**6), [KeyValue("/a", b"old", 1)])
        store, seen, history = await EtcdStore.open(settings), WatchRecorder(), WatchRecorder()
        try:
            assert store.revision >= store.compacted_revision == made.revision > 10**6
            old = await store.get("/a")
            assert old is not None
            assert 10**6 - 100 < old.revision <= made.revision
            store.watch(store.revision, seen)
            first = await store.put("/a", b"new", old.revision)
            with pytest.raises(CompareFailed) as refused:
                await store.put("/a", b"other", old.revision)
            assert refused.value.current_revision == first
            gone = await store.delete("/a", first)
            store.watch(made.revision, history)
            expected = [StoreEvent(first, "/a", b"new"), StoreEvent(gone, "/a", None)]
            assert await seen.wait_for_revision(gone) == expected == await history.wait_for_revision(gone)
            assert await store.range("", revision=first) == ([KeyValue("/a", b"new", first)], first)
            await store.compact(gone)
            with pytest.raises(Compacted) as compacted:
                await store.range("", revision=first)
            assert compacted.value.oldest == gone
        finally:
            await store.close()
        store = await EtcdStore.open(settings)
        try:
            assert (store.compacted_revision, store.revision >= gone) == (gone, True)
        finally:
            await store.close()

    asyncio.run(run())


def test_a_server_that_is_still_there_acknowledges_nothing_more(tmp_path: Path, etcd: Etcd) -> None:
    there = StoreLocation(tmp_path, etcd)
    there.fill(contents(3))

    async def run() -> None:
        settings = remote_etcd_settings(there.settings)
        reader, writer = await EtcdStore.open(settings), await EtcdStore.open(settings)
        try:
            await writer.put("/before", b"1", 0)
            await restore_store(settings, EtcdRestoreSpec("1" * 36, writer.id, 1, replace=True), [])
            with pytest.raises(StoreLost, match="holds another store"):
                await writer.put("/after", b"1", 0)
            lost = await asyncio.wait_for(asyncio.shield(reader.failure), 60)
            assert "this server served" in str(lost)
            assert "restart the server" in getattr(lost, "hint", "")
        finally:
            await reader.close()
            await writer.close()

    asyncio.run(run())
    assert there.read_stored() == {}


def test_hubs_of_the_old_store_go_on_with_the_restored_one(tmp_path: Path, etcd: Etcd) -> None:
    settings, file = StoreSettings("etcd", (etcd.endpoint,), "/goes-on"), tmp_path / "b"
    place = StoreLocation(tmp_path, etcd)
    place.directory, place.settings = tmp_path / "hub", settings
    server = Server(place.directory, store=settings)
    try:
        root = Cluster(server, "root")
        root.post(MAPS, config_map("kept")).ok()
        place.backup(file)
        root.post(MAPS, config_map("later")).ok()
        root.eventually(
            lambda: root.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/shoal-loops").status == 200
        )
        with pytest.raises(DataDirError, match="is serving the store to be replaced; nothing was written"):
            place.restore(file, replace=True)
        root.close()
        old = server.shoal.store.id
    finally:
        server.stop()
    done = place.restore(file, replace=True)
    assert (place.directory / "store-id").read_text().strip() == old
    server = Server(place.directory, store=settings)
    try:
        assert server.shoal.store.id == done.store_id
        root = Cluster(server, "root")
        names = [item["metadata"]["name"] for item in root.get(MAPS).ok()["items"]]
        root.close()
    finally:
        server.stop()
    assert ("kept" in names, "later" in names) == (True, False)
    assert (place.directory / "store-id").read_text().strip() == done.store_id
    with pytest.raises(StoreLost):
        asyncio.run(EtcdStore.open(remote_etcd_settings(settings), "another"))
