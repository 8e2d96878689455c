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

from shoal.apiserver.cache import store_key
from shoal.apiserver.paths import ROOT
from shoal.assemble.datadir import DataDir, DataDirError, write_private
from shoal.assemble.identity import NOTE, read_identity, write_identity
from shoal.assemble.snapshots import ETCD, etcd_of
from shoal.assemble.store_settings import StoreSettings
from shoal.assemble.stores import ID_FILE
from shoal.clock import SystemClock
from shoal.objects.duration import parse_time
from shoal.objects.errors import StoreError
from shoal.store.backup.format import Header, Reader
from shoal.store.encrypted.keys import KeyRing
from shoal.store.interface import KeyValue
from shoal.store.sqlite.copying import make_file
from shoal.store.sqlite.file import FILE_NAME

if TYPE_CHECKING:
    from shoal.store.etcd import EtcdSettings
    from shoal.store.etcd.copying import Made

AHEAD = 1_000_000_000
"""How far the new store begins above the old one, which may have been written after the backup was made."""
MAKING = ".restoring"
STORE_FILES = (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", ETCD)
LEASE = store_key("coordination.k8s.io/leases", ROOT, "kube-system", "shoal-loops")
LEASE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class RestoreAsked:
    file: Path
    data_dir: Path | None
    """None: etcd servers are given, and no data directory is touched."""
    store: StoreSettings
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    header: Header
    records: int
    store: str
    """The ID of the new store."""
    revision: int
    aside: str
    """Where the replaced data is now."""
    keys: bool
    """True if the keys were restored as well."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A backup that was read completely and is valid."""

    file: Path
    header: Header
    records: int
    keys: dict[str, str]

    def each(self) -> Iterator[KeyValue]:
        with self.file.open("rb") as file:
            yield from Reader(file, str(self.file)).records()


def restore(asked: RestoreAsked) -> Restored:
    """Raises InvalidBackup, StoreError or DataDirError; then the previous data is unchanged, or moved aside."""
    settings = asked.store
    ring = KeyRing.load(Path(settings.encryption_key_file)) if settings.encryption_key_file else None
    contents = read_through(asked.file, ring)
    store = str(uuid.uuid4())
    if asked.data_dir is None:
        return _into_cluster(asked, contents, store, None)
    directory = DataDir(asked.data_dir)
    try:
        there = [name for name in (*STORE_FILES, ID_FILE) if (directory.path / name).exists()]
        if there and not asked.replace:
            raise DataDirError(
                f"{directory.path} holds a store already ({', '.join(there)}); nothing was written",
                "give an empty --data-dir, or --force-replace to move it aside first",
            )
        if settings.servers:
            return _into_cluster(asked, contents, store, directory.path)
        return _into_directory(asked, contents, store, directory.path)
    finally:
        directory.close()


def read_through(file: Path, ring: KeyRing | None) -> Contents:
    """Verifies every checksum, and with a key ring every encrypted value."""
    with file.open("rb") as opened:
        reader = Reader(opened, str(file))
        count = 0
        for record in reader.records():
            count += 1
            if ring is not None:
                ring.open(record.key, record.value)
    return Contents(file, reader.header, count, reader.keys)


def _into_directory(asked: RestoreAsked, contents: Contents, store: str, path: Path) -> Restored:
    """Writes into a staging directory first, and moves it into place when it is complete."""
    making = path / MAKING
    shutil.rmtree(making, ignore_errors=True)  # left by a restore that was killed
    making.mkdir(mode=0o700)
    header = contents.header
    try:
        if asked.store.kind == "etcd":
            name, keys = ETCD, _missing_keys(path, contents)
            revision = asyncio.run(_into_etcd(asked, contents, store, keys, making)).revision
        else:
            name = FILE_NAME
            revision = make_file(making / name, store, header.store, header.newest + AHEAD, contents.each())
        aside = _move_aside(path, store)
        (making / name).rename(path / name)
        _sync(path)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    keys = _missing_keys(path, contents)
    if keys:
        write_identity(path, keys)
    return Restored(header, contents.records, store, revision, aside, bool(keys))


def _into_cluster(asked: RestoreAsked, contents: Contents, store: str, path: Path | None) -> Restored:
    """`path` is a data directory that shall belong to the store."""
    keys = contents.keys if path is None else _missing_keys(path, contents)
    made = asyncio.run(_into_etcd(asked, contents, store, keys, Path()))
    aside = [made.aside, _move_aside(path, store) if path is not None else ""]
    where = " and ".join(filter(None, aside))
    return Restored(contents.header, contents.records, store, made.revision, where, bool(keys))


async def _into_etcd(
    asked: RestoreAsked, contents: Contents, store: str, keys: dict[str, str], directory: Path
) -> Made:
    """Restores into the cluster given by flags, or into a local etcd in that directory, which nobody else uses."""
    from shoal.store.etcd.copying import Making, make_store  # noqa: PLC0415 - gRPC loads slowly

    header = contents.header
    note = (NOTE, json.dumps(keys).encode()) if keys else None
    making = Making(store, header.store, header.newest + AHEAD, asked.replace, note)
    async with etcd_of(directory, asked.store, locked=True) as there:
        if asked.store.servers and asked.replace:
            await _check_nobody_serves(there)
        return await make_store(there, making, contents.each())


async def _check_nobody_serves(there: EtcdSettings) -> None:
    """A hub that serves the old store would continue with it, and its acknowledged writes would be lost."""
    from shoal.store.etcd.copying import EtcdSnapshot  # noqa: PLC0415

    try:
        snapshot = await EtcdSnapshot.open(there)
    except StoreError:
        return  # there is no store that could be served
    try:
        value = await snapshot.get(LEASE)
    finally:
        await snapshot.close()
    spec = json.loads(value).get("spec") or {} if value else {}
    renewed = parse_time(spec.get("renewTime"))
    if spec.get("holderIdentity") and renewed is not None and SystemClock().now() - renewed < LEASE_SECONDS:
        raise DataDirError(
            f"the hub {spec['holderIdentity']} serves the store that is to be replaced; nothing was written",
            "stop every hub of this etcd, wait 15 seconds, then restore",
        )


def _move_aside(path: Path, store: str) -> str:
    """From here on the directory belongs to the new store: whenever this is interrupted, a server that finds another
    store in it, or none, refuses to start.
    """
    there = [name for name in STORE_FILES if (path / name).exists()]
    known = (path / ID_FILE).read_text() if (path / ID_FILE).exists() else ""
    write_private(path / ID_FILE, f"{store}\n")
    _sync(path)
    if not there and not known:
        return ""
    number = 1
    while (path / f"replaced-{number}").exists():
        number += 1
    aside = path / f"replaced-{number}"
    aside.mkdir(mode=0o700)
    if known:
        write_private(aside / ID_FILE, known)
    for name in there:
        (path / name).rename(aside / name)
    _sync(path)
    return str(aside)


def _missing_keys(path: Path, contents: Contents) -> dict[str, str]:
    """Returns keys only if the directory has none: a directory with keys has served, and its clients know them."""
    return contents.keys if read_identity(path) is None else {}


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
