"""Encryption at rest: the stored bytes, who can decrypt them, and the errors if nobody can."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.store.encrypted import EncryptedStore, KeyRing
from shoal.store.encrypted.keys import ENCRYPTED_PREFIX, EncryptionError, key_name
from shoal.store.etcd import EtcdStore
from shoal.store.interface import KeyValue, Store, WriteOp
from shoal.store.sqlite import SqliteStore
from tests.etcd import Etcd
from tests.store.contract import WatchRecorder

OLD, NEW = b"o" * 32, b"n" * 32
SECRET, MAP = "core/secrets/root/default/s", "core/configmaps/root/default/s"
KINDS = ("core/secrets",)


def ring(*keys: bytes) -> KeyRing:
    return KeyRing(keys, "keys")


@pytest.fixture(params=["sqlite", "etcd"])
async def below(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store
    if request.param == "sqlite":
        store = await SqliteStore.open(tmp_path / "data")
    else:
        etcd: Etcd = request.getfixturevalue("etcd")
        store = await EtcdStore.open(etcd.settings())
    yield store
    await store.close()


async def stored_value(store: Store, key: str) -> bytes:
    found = await store.get(key)
    assert found is not None
    return found.value


async def test_only_the_listed_kinds_are_sealed_and_nobody_above_sees_it(below: Store) -> None:
    store, seen = EncryptedStore(below, ring(OLD), KINDS), WatchRecorder()
    start = store.revision
    store.watch(start, seen)
    first = await store.put(SECRET, b"password", 0)
    last = await store.put(MAP, b"plain", 0)
    assert b"password" not in await stored_value(below, SECRET)
    assert (await stored_value(below, SECRET)).startswith(ENCRYPTED_PREFIX + key_name(OLD).encode())
    assert await stored_value(below, MAP) == b"plain"
    assert await store.get(SECRET) == KeyValue(SECRET, b"password", first)
    assert [item.value for item in (await store.range(""))[0]] == [b"plain", b"password"]
    history = WatchRecorder()
    store.watch(start, history)
    for events in (await seen.wait_for_revision(last), await history.wait_for_revision(last)):
        assert [event.value for event in events] == [b"password", b"plain"]
    gone = await store.delete(SECRET, first)
    assert (await seen.wait_for_revision(gone))[-1].value is None


async def test_what_is_written_together_is_sealed(sqlite: SqliteStore) -> None:
    store = EncryptedStore(sqlite, ring(OLD), KINDS)
    await store.transaction([WriteOp(SECRET, b"password", 0), WriteOp(MAP, b"plain", 0)])
    assert (await stored_value(sqlite, SECRET)).startswith(ENCRYPTED_PREFIX)
    assert await stored_value(sqlite, MAP) == b"plain"
    assert await stored_value(store, SECRET) == b"password"


async def test_rotation_reads_with_all_keys_and_writes_with_the_first(sqlite: SqliteStore) -> None:
    await EncryptedStore(sqlite, None, KINDS).put("core/secrets/root/default/p", b"from before", 0)
    revision = await EncryptedStore(sqlite, ring(OLD), KINDS).put(SECRET, b"password", 0)
    store = EncryptedStore(sqlite, ring(NEW, OLD), KINDS)
    assert await stored_value(store, SECRET) == b"password"
    assert await stored_value(store, "core/secrets/root/default/p") == b"from before"
    await store.put(SECRET, b"changed", revision)
    assert await stored_value(EncryptedStore(sqlite, ring(NEW), KINDS), SECRET) == b"changed"
    with pytest.raises(EncryptionError):
        await EncryptedStore(sqlite, ring(OLD), KINDS).get(SECRET)


async def test_the_same_value_never_looks_the_same(sqlite: SqliteStore) -> None:
    store = EncryptedStore(sqlite, ring(OLD), KINDS)
    revision = await store.put(SECRET, b"password", 0)
    first = await stored_value(sqlite, SECRET)
    await store.put(SECRET, b"password", revision)
    assert await stored_value(sqlite, SECRET) != first


async def test_a_missing_key_is_named(sqlite: SqliteStore) -> None:
    await EncryptedStore(sqlite, ring(OLD), KINDS).put(SECRET, b"password", 0)
    with pytest.raises(EncryptionError) as nothing:
        await EncryptedStore(sqlite, None, KINDS).range("")
    needed = f"{SECRET} is encrypted with the key {key_name(OLD)}"
    assert str(nothing.value) == f"{needed}, but no --encryption-key-file was given"
    with pytest.raises(EncryptionError) as other:
        await EncryptedStore(sqlite, ring(NEW), KINDS).get(SECRET)
    assert str(other.value) == f"{needed}, but keys holds only {key_name(NEW)}"


async def test_a_value_in_the_place_of_another_does_not_open(sqlite: SqliteStore) -> None:
    store = EncryptedStore(sqlite, ring(OLD), KINDS)
    await store.put(SECRET, b"password", 0)
    elsewhere = "core/secrets/other/default/mine"
    await sqlite.put(elsewhere, await stored_value(sqlite, SECRET), 0)
    with pytest.raises(EncryptionError, match="was altered or copied from another key"):
        await store.get(elsewhere)


async def test_an_event_nobody_can_read_ends_the_server_and_is_not_left_out(sqlite: SqliteStore) -> None:
    store, seen = EncryptedStore(sqlite, ring(OLD), KINDS), WatchRecorder()
    store.watch(store.revision, seen)
    await store.put(MAP, b"plain", 0)
    await EncryptedStore(sqlite, ring(NEW), KINDS).put(SECRET, b"password", 0)
    error = await asyncio.wait_for(asyncio.shield(store.failure), 30)
    assert f"encrypted with the key {key_name(NEW)}" in str(error)
    await store.put(f"{MAP}2", b"plain", 0)
    assert [event.key for event in seen.events] == [MAP]
    assert store.health_error() == str(error)


async def test_what_ends_the_store_below_ends_it(sqlite: SqliteStore) -> None:
    store = EncryptedStore(sqlite, None, KINDS)
    assert store.health_error() == ""
    reason = EncryptionError("lost", "")
    sqlite.failure.set_result(reason)
    assert await store.failure is reason


@given(st.binary(max_size=80), st.data())
def test_any_change_is_found(value: bytes, data: st.DataObject) -> None:
    keys = ring(OLD)
    sealed = bytearray(keys.encrypt(SECRET, value))
    assert keys.decrypt(SECRET, bytes(sealed)) == value
    at = data.draw(st.integers(len(ENCRYPTED_PREFIX), len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    if at != len(ENCRYPTED_PREFIX) + 16:  # the colon behind the name says nothing
        with pytest.raises(EncryptionError):
            keys.decrypt(SECRET, bytes(sealed))
    with pytest.raises(EncryptionError):
        keys.decrypt(SECRET, bytes(sealed[: len(sealed) // 2]))


def test_key_files(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# newest first\n{base64.b64encode(NEW).decode()}\n\n{base64.b64encode(OLD).decode()} # old\n")
    assert KeyRing.load(file).key_names == (key_name(NEW), key_name(OLD))
    for text, said in {
        "": "holds no key",
        "# none\n": "holds no key",
        "c2hvcnQ=\n": "line 1: a key must be 32 bytes in base64",
        f"{base64.b64encode(OLD).decode()}\nnot base64!\n": "line 2: a key must be 32 bytes in base64",
    }.items():
        file.write_text(text)
        with pytest.raises(EncryptionError, match=said):
            KeyRing.load(file)
    with pytest.raises(EncryptionError, match="cannot be read"):
        KeyRing.load(tmp_path / "nowhere")
