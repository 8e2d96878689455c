"""Opens the store of a server, and checks that it is the one the server had before and that it may be used.

The ID of the store is kept in the data directory. An empty or different store in its place is refused, because every
client of this server would take missing objects for deleted.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shoal.assemble.datadir import DataDir, DataDirError, write_private
from shoal.assemble.identity import share_identity
from shoal.assemble.store_settings import Opened, StoreSettings
from shoal.store.encrypted import EncryptedStore, KeyRing
from shoal.store.interface import StoreLost
from shoal.store.sqlite import SqliteStore
from shoal.store.sqlite.copying import SqliteSnapshot
from shoal.store.sqlite.file import FILE_NAME

ID_FILE = "store-id"


async def open_store(directory: DataDir, settings: StoreSettings) -> Opened:
    file = directory.path / ID_FILE
    known = file.read_text().strip() if file.exists() else ""
    ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    opened = await (_sqlite(directory, known) if settings.kind == "sqlite" else _etcd(directory, settings, known))
    try:
        if opened.notes is not None:
            await share_identity(directory, opened.notes)
        # Only now: a server that is refused by one store may start with another. A store restored from the expected one
        # has a new ID.
        if known != opened.store.id:
            write_private(file, f"{opened.store.id}\n")
    except BaseException:
        await opened.close()
        raise
    opened.store = EncryptedStore(opened.store, ring, settings.encrypted_kinds)
    return opened


async def _sqlite(directory: DataDir, known: str) -> Opened:
    hint = (
        "put a backup in its place: shoal restore FILE --force-replace; if the data is in etcd, give --store etcd; "
        "to begin with an empty store give another --data-dir"
    )
    if known and not (directory.path / FILE_NAME).exists():
        raise StoreLost(f"{directory.path} belongs to the store {known}, but {FILE_NAME} is not in it", hint)
    store = await SqliteStore.open(directory.path)
    if known and store.id != known:
        await store.close()
        raise StoreLost(f"{directory.path} belongs to the store {known}, but {FILE_NAME} is {store.id}", hint)
    return Opened(store, store.close, partial(SqliteSnapshot.open, directory.path))


async def _etcd(directory: DataDir, settings: StoreSettings, known: str) -> Opened:
    if (directory.path / FILE_NAME).exists():
        raise DataDirError(
            f"{directory.path} holds a sqlite store ({FILE_NAME}), and --store etcd would start beside it",
            "leave out --store etcd, or give another --data-dir",
        )
    # gRPC loads slowly, and only this store needs it.
    from shoal.assemble.etcd_stores import open_etcd  # noqa: PLC0415

    return await open_etcd(directory.path, settings, known)
