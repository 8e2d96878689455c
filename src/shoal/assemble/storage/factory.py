"""Opens the store of a server, and checks that it is the one the server had before and that it may be used.

The ID of the store is kept in the data directory. An empty or different store in its place is refused, because every
client of this server would take missing objects for deleted.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shoal.apiserver.pki.former_ca import has_shared_ca, retire_shared_ca
from shoal.assemble.storage.config import OpenedStore, StoreSettings
from shoal.assemble.storage.datadir import DataDir, DataDirError, serving_certificate_names, write_private_file
from shoal.assemble.storage.identity import share_identity
from shoal.clock import SystemClock
from shoal.store.encrypted import EncryptedStore, KeyRing
from shoal.store.interface import StoreLost
from shoal.store.sqlite import SqliteStore
from shoal.store.sqlite.file import FILE_NAME
from shoal.store.sqlite.snapshot import SqliteSnapshot

STORE_ID_FILE = "store-id"


async def open_store(directory: DataDir, settings: StoreSettings) -> OpenedStore:
    file = directory.path / STORE_ID_FILE
    expected_id = file.read_text().strip() if file.exists() else ""
    key_ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    opened_store = await (
        _open_sqlite(directory, expected_id)
        if settings.kind == "sqlite"
        else _open_etcd(directory, settings, expected_id)
    )
    try:
        if opened_store.metadata is not None:
            await share_identity(directory, opened_store.metadata)
        elif has_shared_ca(directory.path / "pki"):
            retire_shared_ca(directory.path / "pki", serving_certificate_names(), SystemClock())
        directory.write_format()
        # Only now: a server that is refused by one store may start with another. A store restored from the expected one
        # has a new ID.
        if expected_id != opened_store.store.id:
            write_private_file(file, f"{opened_store.store.id}\n")
    except BaseException:
        await opened_store.close()
        raise
    opened_store.store = EncryptedStore(opened_store.store, key_ring, settings.encrypted_kinds)
    return opened_store


async def _open_sqlite(directory: DataDir, expected_id: str) -> OpenedStore:
    hint = (
        "restore a backup: shoal restore FILE --force-replace; if the data is in etcd, give --store etcd; "
        "to start with an empty store, give another --data-dir"
    )
    if expected_id and not (directory.path / FILE_NAME).exists():
        raise StoreLost(f"{directory.path} belongs to store {expected_id}, but {FILE_NAME} is missing", hint)
    store = await SqliteStore.open(directory.path)
    if expected_id and store.id != expected_id:
        await store.close()
        raise StoreLost(
            f"{directory.path} belongs to store {expected_id}, but {FILE_NAME} contains store {store.id}", hint
        )
    return OpenedStore(store, store.close, partial(SqliteSnapshot.open, directory.path))


async def _open_etcd(directory: DataDir, settings: StoreSettings, expected_id: str) -> OpenedStore:
    if (directory.path / FILE_NAME).exists():
        raise DataDirError(
            f"{directory.path} contains a sqlite store ({FILE_NAME}); --store etcd would not use it",
            "omit --store etcd, or give another --data-dir",
        )
    # gRPC loads slowly, and only this store needs it.
    from shoal.assemble.storage.etcd import open_etcd  # noqa: PLC0415

    return await open_etcd(directory.path, settings, expected_id)
