"""`shoal encrypt`: rewrites values that are not encrypted as configured, then compacts their history.

It is used the first time, after a key rotation, after the list of kinds has changed, or to end encryption. A SQLite
store must not be in use. Hubs on etcd may run meanwhile: every write is compared, and a changed value is checked again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from shoal.apiserver.entries import REMOVED
from shoal.assemble.datadir import DataDir, DataDirError
from shoal.assemble.snapshots import etcd_of, is_etcd, open_snapshot
from shoal.assemble.store_settings import StoreSettings
from shoal.store.encrypted.keys import SEALED, KeyRing
from shoal.store.interface import CompareFailed, Store
from shoal.store.sqlite import SqliteStore
from shoal.store.sqlite.copying import scrub
from shoal.store.sqlite.file import FILE_NAME


@dataclass(frozen=True, slots=True)
class Rewritten:
    looked_at: int
    written: int


def encrypt(data_dir: Path, settings: StoreSettings, *, decrypt: bool = False) -> Rewritten:
    """Raises EncryptionError, and changes nothing more, if a value cannot be decrypted."""
    ring = KeyRing.load(Path(settings.encryption_key_file))
    kinds = () if decrypt else settings.encrypted_kinds
    if is_etcd(data_dir, settings):
        return asyncio.run(_in_etcd(data_dir, settings, ring, kinds))
    if not (data_dir / FILE_NAME).exists():
        raise DataDirError(f"{data_dir} holds no store", "give its --data-dir, or --etcd-servers")
    lock = DataDir(data_dir)
    try:
        done = asyncio.run(_in_file(data_dir, settings, ring, kinds))
        scrub(data_dir)
        return done
    finally:
        lock.close()


async def _in_file(data_dir: Path, settings: StoreSettings, ring: KeyRing, kinds: tuple[str, ...]) -> Rewritten:
    store = await SqliteStore.open(data_dir)
    try:
        return await _rewrite(store, data_dir, settings, ring, kinds)
    finally:
        await store.close()


async def _in_etcd(data_dir: Path, settings: StoreSettings, ring: KeyRing, kinds: tuple[str, ...]) -> Rewritten:
    from shoal.store.etcd import EtcdStore  # noqa: PLC0415 - gRPC loads slowly

    async with etcd_of(data_dir, settings) as there:
        store = await EtcdStore.open(there)
        try:
            return await _rewrite(store, data_dir, settings, ring, kinds)
        finally:
            await store.close()


async def _rewrite(
    store: Store, data_dir: Path, settings: StoreSettings, ring: KeyRing, kinds: tuple[str, ...]
) -> Rewritten:
    prefixes = tuple(f"{kind}/" for kind in kinds)
    looked_at = written = 0
    async with open_snapshot(data_dir, settings) as snapshot:
        async for page in snapshot.pages():
            looked_at += len(page)
            for record in page:
                if _is_due(record.key, record.value, ring, prefixes):
                    written += await _write_anew(store, record.key, ring, prefixes)
    if not settings.servers:
        # Old keys are needed as long as the history. A shared store is compacted by the hubs: a hub that has not read
        # all of it yet would have to end.
        await store.compact(store.revision)
    return Rewritten(looked_at, written)


def _is_due(key: str, value: bytes, ring: KeyRing, prefixes: tuple[str, ...]) -> bool:
    if prefixes and key.startswith(prefixes) and value != REMOVED:
        return not ring.is_newest(value)
    return value.startswith(SEALED) and not key.startswith(prefixes)


async def _write_anew(store: Store, key: str, ring: KeyRing, prefixes: tuple[str, ...]) -> bool:
    while (found := await store.get(key)) is not None and _is_due(key, found.value, ring, prefixes):
        plain = ring.open(key, found.value)
        try:
            sealed = ring.seal(key, plain) if key.startswith(prefixes) else plain
            await store.put(key, sealed, found.revision)
        except CompareFailed:
            continue
        return True
    return False
