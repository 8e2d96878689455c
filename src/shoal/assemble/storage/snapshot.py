"""Finds the store given by flags and opens a snapshot of it, whether a server runs on it or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import DataDir, DataDirError
from shoal.store.backup.snapshot import StoreSnapshot
from shoal.store.sqlite.file import FILE_NAME
from shoal.store.sqlite.snapshot import SqliteSnapshot

if TYPE_CHECKING:
    from shoal.store.etcd import EtcdSettings

LOCAL_ETCD_DIR = "etcd"
"""The directory of a local etcd."""


def is_etcd(directory: Path, settings: StoreSettings) -> bool:
    """If flags do not say which store it is, the content of the directory does."""
    if settings.kind == "etcd":
        return True
    return not (directory / FILE_NAME).exists() and (directory / LOCAL_ETCD_DIR / "data").exists()


@asynccontextmanager
async def open_snapshot(directory: Path, settings: StoreSettings, revision: int = 0) -> AsyncIterator[StoreSnapshot]:
    """Raises StoreError or DataDirError if there is no store, or its history does not reach back so far."""
    if not is_etcd(directory, settings):
        if not (directory / FILE_NAME).exists():
            raise DataDirError(f"{directory} contains no store", "give its --data-dir, or --etcd-servers")
        snapshot: StoreSnapshot = await SqliteSnapshot.open(directory, revision)
        try:
            yield snapshot
        finally:
            await snapshot.close()
        return
    # gRPC loads slowly, and only this store needs it.
    from shoal.store.etcd.snapshot import EtcdSnapshot  # noqa: PLC0415

    async with etcd_settings_for(directory, settings) as settings_of_etcd:
        snapshot = await EtcdSnapshot.open(settings_of_etcd, revision)
        try:
            yield snapshot
        finally:
            await snapshot.close()


@asynccontextmanager
async def etcd_settings_for(
    directory: Path, settings: StoreSettings, *, is_locked: bool = False
) -> AsyncIterator[EtcdSettings]:
    """The etcd cluster given by flags, or the local one: as it runs, or started for this. `is_locked`: the caller has
    locked the directory, which may have no etcd yet.
    """
    from shoal.assemble.storage.etcd import remote_etcd_settings  # noqa: PLC0415
    from shoal.assemble.storage.local_etcd import CLIENT_SOCKET, LocalEtcd  # noqa: PLC0415
    from shoal.store.etcd import EtcdSettings  # noqa: PLC0415

    if settings.servers:
        yield remote_etcd_settings(settings)
        return
    if not is_locked and not (directory / LOCAL_ETCD_DIR / "data").exists():
        raise DataDirError(f"{directory} contains no local etcd", "give its --data-dir, or --etcd-servers")
    endpoint = f"unix:{(directory / LOCAL_ETCD_DIR).absolute() / CLIENT_SOCKET}"
    try:
        lock = None if is_locked else DataDir(directory)
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
        if lock is not None:
            lock.close()
