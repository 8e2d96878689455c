"""`shoal encrypt`: rewrites values that are not encrypted as configured, then compacts their history.

It is used the first time, after a key rotation, after the list of kinds has changed, or to end encryption. A SQLite
store must not be in use. Hubs on etcd may run meanwhile: every write is compared, and a changed value is checked again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from shoal.apiserver.cache.objects import TOMBSTONE
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import DataDir, DataDirError
from shoal.assemble.storage.snapshot import etcd_settings_for, is_etcd, open_snapshot
from shoal.store.encrypted.keys import ENCRYPTED_PREFIX, KeyRing
from shoal.store.interface import CompareFailed, Store
from shoal.store.sqlite import SqliteStore
from shoal.store.sqlite.file import FILE_NAME
from shoal.store.sqlite.snapshot import vacuum


@dataclass(frozen=True, slots=True)
class EncryptResult:
    checked: int
    rewritten: int


def encrypt(data_dir: Path, settings: StoreSettings, *, decrypt: bool = False) -> EncryptResult:
    """Raises EncryptionError, and changes nothing more, if a value cannot be decrypted."""
    key_ring = KeyRing.load(Path(settings.encryption_key_file))
    kinds = () if decrypt else settings.encrypted_kinds
    if is_etcd(data_dir, settings):
        return asyncio.run(_encrypt_etcd(data_dir, settings, key_ring, kinds))
    if not (data_dir / FILE_NAME).exists():
        raise DataDirError(f"{data_dir} contains no store", "give its --data-dir, or --etcd-servers")
    lock = DataDir(data_dir)
    try:
        encrypted = asyncio.run(_encrypt_sqlite(data_dir, settings, key_ring, kinds))
        vacuum(data_dir)
        return encrypted
    finally:
        lock.close()


async def _encrypt_sqlite(
    data_dir: Path, settings: StoreSettings, key_ring: KeyRing, kinds: tuple[str, ...]
) -> EncryptResult:
    store = await SqliteStore.open(data_dir)
    try:
        return await _rewrite(store, data_dir, settings, key_ring, kinds)
    finally:
        await store.close()


async def _encrypt_etcd(
    data_dir: Path, settings: StoreSettings, key_ring: KeyRing, kinds: tuple[str, ...]
) -> EncryptResult:
    from shoal.store.etcd import EtcdStore  # noqa: PLC0415 - gRPC loads slowly

    async with etcd_settings_for(data_dir, settings) as etcd_settings:
        store = await EtcdStore.open(etcd_settings)
        try:
            return await _rewrite(store, data_dir, settings, key_ring, kinds)
        finally:
            await store.close()


async def _rewrite(
    store: Store, data_dir: Path, settings: StoreSettings, key_ring: KeyRing, kinds: tuple[str, ...]
) -> EncryptResult:
    prefixes = tuple(f"{kind}/" for kind in kinds)
    checked = rewritten = 0
    async with open_snapshot(data_dir, settings) as snapshot:
        async for page in snapshot.pages():
            checked += len(page)
            for record in page:
                if _needs_rewrite(record.key, record.value, key_ring, prefixes):
                    rewritten += await _rewrite_value(store, record.key, key_ring, prefixes)
    if not settings.servers:
        # Old keys are needed as long as the history. A shared store is compacted by the hubs: a hub that has not read
        # all of it yet would have to end.
        await store.compact(store.revision)
    return EncryptResult(checked, rewritten)


def _needs_rewrite(key: str, value: bytes, key_ring: KeyRing, prefixes: tuple[str, ...]) -> bool:
    if prefixes and key.startswith(prefixes) and value != TOMBSTONE:
        return not key_ring.uses_write_key(value)
    return value.startswith(ENCRYPTED_PREFIX) and not key.startswith(prefixes)


async def _rewrite_value(store: Store, key: str, key_ring: KeyRing, prefixes: tuple[str, ...]) -> bool:
    while (item := await store.get(key)) is not None and _needs_rewrite(key, item.value, key_ring, prefixes):
        plain = key_ring.decrypt(key, item.value)
        try:
            new_value = key_ring.encrypt(key, plain) if key.startswith(prefixes) else plain
            await store.put(key, new_value, item.revision)
        except CompareFailed:
            continue
        return True
    return False
