"""`shoal restore`: creates a store from a backup, in a data directory or in etcd.

The whole file is read before anything is written. An existing store is refused, or moved aside first if requested; an
unfinished restore is never taken for a store. The new store has its own ID, records the store it came from, and begins
far above every revision the old one can have used.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.apiserver.cache.cacher import store_key
from shoal.apiserver.request.info import ROOT
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import DataDir, DataDirError, write_private_file
from shoal.assemble.storage.factory import STORE_ID_FILE
from shoal.assemble.storage.identity import IDENTITY_METADATA, read_identity, write_identity
from shoal.assemble.storage.snapshot import LOCAL_ETCD_DIR, etcd_settings_for
from shoal.clock import SystemClock
from shoal.objects.duration import parse_time
from shoal.objects.errors import StoreError
from shoal.store.backup.format import BackupHeader, BackupReader
from shoal.store.encrypted.keys import KeyRing
from shoal.store.interface import KeyValue
from shoal.store.sqlite.file import FILE_NAME
from shoal.store.sqlite.snapshot import create_restored_file

if TYPE_CHECKING:
    from shoal.store.etcd import EtcdSettings
    from shoal.store.etcd.snapshot import EtcdRestoreResult

REVISION_GAP = 1_000_000_000
"""How far the new store begins above the old one, which may have been written after the backup was made."""
STAGING_DIR = ".restoring"
STORE_FILES = (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", LOCAL_ETCD_DIR)
LEASE_KEY = store_key("coordination.k8s.io/leases", ROOT, "kube-system", "shoal-loops")
LEASE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    file: Path
    data_dir: Path | None
    """None: etcd servers are given, and no data directory is touched."""
    store: StoreSettings
    replace: bool = False


@dataclass(frozen=True, slots=True)
class RestoreResult:
    header: BackupHeader
    records: int
    store_id: str
    """The ID of the new store."""
    revision: int
    replaced_location: str
    """Where the replaced data is now."""
    restored_keys: bool
    """True if the keys were restored as well."""


@dataclass(frozen=True, slots=True)
class VerifiedBackup:
    """A backup that was read completely and is valid."""

    file: Path
    header: BackupHeader
    records: int
    keys: dict[str, str]

    def iter_records(self) -> Iterator[KeyValue]:
        with self.file.open("rb") as file:
            yield from BackupReader(file, str(self.file)).records()


def restore(options: RestoreOptions) -> RestoreResult:
    """Raises InvalidBackup, StoreError or DataDirError; then the previous data is unchanged, or moved aside."""
    settings = options.store
    key_ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    verified = verify_backup(options.file, key_ring)
    store_id = str(uuid.uuid4())
    if options.data_dir is None:
        return _restore_to_etcd_cluster(options, verified, store_id, None)
    directory = DataDir(options.data_dir)
    try:
        existing = [name for name in (*STORE_FILES, STORE_ID_FILE) if (directory.path / name).exists()]
        if existing and not options.replace:
            raise DataDirError(
                f"{directory.path} contains a store already ({', '.join(existing)}); nothing was written",
                "give an empty --data-dir, or --force-replace to move it aside first",
            )
        if settings.servers:
            return _restore_to_etcd_cluster(options, verified, store_id, directory.path)
        return _restore_to_directory(options, verified, store_id, directory.path)
    finally:
        directory.close()


def verify_backup(file: Path, key_ring: KeyRing | None) -> VerifiedBackup:
    """Verifies every checksum, and with a key ring every encrypted value."""
    with file.open("rb") as opened:
        reader = BackupReader(opened, str(file))
        count = 0
        for record in reader.records():
            count += 1
            if key_ring is not None:
                key_ring.decrypt(record.key, record.value)
    return VerifiedBackup(file, reader.header, count, reader.keys)


def _restore_to_directory(
    options: RestoreOptions, verified: VerifiedBackup, store_id: str, path: Path
) -> RestoreResult:
    """Writes into a staging directory first, and moves it into place when it is complete."""
    staging = path / STAGING_DIR
    shutil.rmtree(staging, ignore_errors=True)  # left by a restore that was killed
    staging.mkdir(mode=0o700)
    header = verified.header
    try:
        if options.store.kind == "etcd":
            name, keys = LOCAL_ETCD_DIR, _missing_keys(path, verified)
            revision = asyncio.run(_write_etcd_store(options, verified, store_id, keys, staging)).revision
        else:
            name = FILE_NAME
            revision = create_restored_file(
                staging / name, store_id, header.store, header.newest + REVISION_GAP, verified.iter_records()
            )
        replaced_location = _move_aside(path, store_id)
        (staging / name).rename(path / name)
        _fsync_dir(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    keys = _missing_keys(path, verified)
    if keys:
        write_identity(path, keys)
    return RestoreResult(header, verified.records, store_id, revision, replaced_location, bool(keys))


def _restore_to_etcd_cluster(
    options: RestoreOptions, verified: VerifiedBackup, store_id: str, path: Path | None
) -> RestoreResult:
    """`path` is a data directory that shall belong to the store."""
    keys = verified.keys if path is None else _missing_keys(path, verified)
    restored = asyncio.run(_write_etcd_store(options, verified, store_id, keys, Path()))
    replaced_locations = [restored.replaced_prefix, _move_aside(path, store_id) if path is not None else ""]
    where = " and ".join(filter(None, replaced_locations))
    return RestoreResult(verified.header, verified.records, store_id, restored.revision, where, bool(keys))


async def _write_etcd_store(
    options: RestoreOptions, verified: VerifiedBackup, store_id: str, keys: dict[str, str], directory: Path
) -> EtcdRestoreResult:
    """Restores into the cluster given by flags, or into a local etcd in that directory, which nobody else uses."""
    from shoal.store.etcd.snapshot import EtcdRestoreSpec, restore_store  # noqa: PLC0415 - gRPC loads slowly

    header = verified.header
    metadata = (IDENTITY_METADATA, json.dumps(keys).encode()) if keys else None
    spec = EtcdRestoreSpec(store_id, header.store, header.newest + REVISION_GAP, options.replace, metadata)
    async with etcd_settings_for(directory, options.store, is_locked=True) as etcd_settings:
        if options.store.servers and options.replace:
            await _check_not_served(etcd_settings)
        return await restore_store(etcd_settings, spec, verified.iter_records())


async def _check_not_served(etcd_settings: EtcdSettings) -> None:
    """A hub that serves the old store would continue with it, and its acknowledged writes would be lost."""
    from shoal.store.etcd.snapshot import EtcdSnapshot  # noqa: PLC0415

    try:
        snapshot = await EtcdSnapshot.open(etcd_settings)
    except StoreError:
        return  # there is no store that could be served
    try:
        value = await snapshot.get(LEASE_KEY)
    finally:
        await snapshot.close()
    spec = json.loads(value).get("spec") or {} if value else {}
    renewed = parse_time(spec.get("renewTime"))
    if spec.get("holderIdentity") and renewed is not None and SystemClock().now() - renewed < LEASE_SECONDS:
        raise DataDirError(
            f"hub {spec['holderIdentity']} is serving the store to be replaced; nothing was written",
            "stop every hub of this etcd, wait 15 seconds, then restore",
        )


def _move_aside(path: Path, store_id: str) -> str:
    """From here on the directory belongs to the new store: whenever this is interrupted, a server that finds another
    store in it, or none, refuses to start.
    """
    existing = [name for name in STORE_FILES if (path / name).exists()]
    previous_id = (path / STORE_ID_FILE).read_text() if (path / STORE_ID_FILE).exists() else ""
    write_private_file(path / STORE_ID_FILE, f"{store_id}\n")
    _fsync_dir(path)
    if not existing and not previous_id:
        return ""
    number = 1
    while (path / f"replaced-{number}").exists():
        number += 1
    target = path / f"replaced-{number}"
    target.mkdir(mode=0o700)
    if previous_id:
        write_private_file(target / STORE_ID_FILE, previous_id)
    for name in existing:
        (path / name).rename(target / name)
    _fsync_dir(path)
    return str(target)


def _missing_keys(path: Path, verified: VerifiedBackup) -> dict[str, str]:
    """Returns keys only if the directory has none: a directory with keys has served, and its clients know them."""
    return verified.keys if read_identity(path) is None else {}


def _fsync_dir(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
