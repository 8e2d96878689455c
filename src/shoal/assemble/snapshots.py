"""Finds the store given by flags and opens a snapshot of it, whether a server runs on it or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.assemble.datadir import DataDir, DataDirError
from shoal.assemble.store_settings import StoreSettings
from shoal.store.backup.snapshot import Snapshot
from shoal.store.sqlite.copying import SqliteSnapshot
from shoal.store.sqlite.file import FILE_NAME

if TYPE_CHECKING:
    from shoal.store.etcd import EtcdSettings

ETCD = "etcd"
"""The directory of a local etcd."""


def is_etcd(directory: Path, settings: StoreSettings) -> bool:
    """If flags do not say which store it is, the content of the directory does."""
    if settings.kind == "etcd":
        return True
    return not (directory / FILE_NAME).exists() and (directory / ETCD / "data").exists()


@asynccontextmanager
async def open_snapshot(directory: Path, settings: StoreSettings, revision: int = 0) -> AsyncIterator[Snapshot]:
    """Raises StoreError or DataDirError if there is no store, or its history does not reach back so far."""
    if not is_etcd(directory, settings):
        if not (directory / FILE_NAME).exists():
            raise DataDirError(f"{directory} holds no store", "give its --data-dir, or --etcd-servers")
        found: Snapshot = await SqliteSnapshot.open(directory, revision)
        try:
            yield found
        finally:
            await found.close()
        return
    # gRPC loads slowly, and only this store needs it.
    from shoal.store.etcd.copying import EtcdSnapshot  # noqa: PLC0415

    async with etcd_of(directory, settings) as there:
        found = await EtcdSnapshot.open(there, revision)
        try:
            yield found
        finally:
            await found.close()


@asynccontextmanager
async def etcd_of(directory: Path, settings: StoreSettings, *, locked: bool = False) -> AsyncIterator[EtcdSettings]:
    """The etcd cluster given by flags, or the local one: as it runs, or started for this. `is_locked`: the caller has
    locked the directory, which may have no etcd yet.
    """
    from shoal.assemble.etcd_stores import remote  # noqa: PLC0415
    from shoal.assemble.local_etcd import CLIENT, LocalEtcd  # noqa: PLC0415
    from shoal.store.etcd import EtcdSettings  # noqa: PLC0415

    if settings.servers:
        yield remote(settings)
        return
    if not locked and not (directory / ETCD / "data").exists():
        raise DataDirError(f"{directory} holds no local etcd", "give its --data-dir, or --etcd-servers")
    endpoint = f"unix:{(directory / ETCD).absolute() / CLIENT}"
    try:
        held = None if locked else DataDir(directory)
    except DataDirError:
        # The server that holds the directory runs the etcd too.
        yield EtcdSettings((endpoint,), settings.prefix)
        return
    try:
        local = await LocalEtcd.start(directory)
        try:
            yield EtcdSettings((local.endpoint,), settings.prefix)
        finally:
            await local.stop()
    finally:
        if held is not None:
            held.close()
