"""Stores to be backed up and restored: their options and their contents."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from pathlib import Path
from typing import Any

import orjson

from shoal.apiserver.cache.objects import TOMBSTONE
from shoal.assemble.commands.backup import BackupOptions, BackupResult, backup
from shoal.assemble.commands.restore import RestoreOptions, RestoreResult, restore
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.snapshot import open_snapshot
from shoal.store.encrypted import EncryptedStore, KeyRing
from shoal.store.interface import Store
from shoal.store.sqlite import SqliteStore
from tests.etcd import Etcd

_numbers = itertools.count(1)
CLUSTERS = "core.shoal.dev/logicalclusters/root/"


class StoreLocation:
    """The location of a store: a data directory, or a prefix of an etcd."""

    def __init__(self, directory: Path, etcd: Etcd | None = None) -> None:
        self.directory = directory / f"data{next(_numbers)}"
        self.settings = StoreSettings()
        if etcd is not None:
            self.settings = StoreSettings("etcd", (etcd.endpoint,), f"/backup{next(_numbers)}")

    @property
    def is_etcd(self) -> bool:
        return self.settings.kind == "etcd"

    @property
    def data_dir(self) -> Path | None:
        return None if self.is_etcd else self.directory

    async def open(self) -> Store:
        if not self.is_etcd:
            return await SqliteStore.open(self.directory)
        from shoal.assemble.storage.etcd import remote_etcd_settings  # noqa: PLC0415
        from shoal.store.etcd import EtcdStore  # noqa: PLC0415

        return await EtcdStore.open(remote_etcd_settings(self.settings))

    def fill(self, values: dict[str, bytes], ring: KeyRing | None = None) -> int:
        """Writes all values and returns the revision of the store."""

        async def fill() -> int:
            store = await self.open()
            target = EncryptedStore(store, ring, ("core/secrets",))
            try:
                items = iter(values.items())
                while some := list(itertools.islice(items, 500)):
                    await asyncio.gather(*(target.put(key, value, 0) for key, value in some))
                return store.revision
            finally:
                await store.close()

        return asyncio.run(fill())

    def read_stored(self) -> dict[str, bytes]:
        """Returns the values as they are stored."""

        async def read() -> dict[str, bytes]:
            async with open_snapshot(self.directory, self.settings) as snapshot:
                return {key: value async for page in snapshot.pages() for key, value, _ in page}

        return asyncio.run(read())

    def backup(self, file: Path, revision: int = 0) -> BackupResult:
        return backup(BackupOptions(file, self.directory, self.settings, revision=revision))

    def restore(self, file: Path, *, replace: bool = False) -> RestoreResult:
        return restore(RestoreOptions(file, self.data_dir, self.settings, replace))


def encode_object(obj: dict[str, Any]) -> bytes:
    return orjson.dumps(obj)


def some_object(kind: str, group: str, namespace: str, name: str, **more: Any) -> bytes:
    metadata = {"name": name, "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}/{namespace}/{name}"))}
    if namespace:
        metadata["namespace"] = namespace
    version = f"{group}/v1" if group else "v1"
    return encode_object({"apiVersion": version, "kind": kind, "metadata": metadata, **more})


def contents(count: int) -> dict[str, bytes]:
    """Two logical clusters with that many objects, one of their bootstrap objects removed."""
    values = {}
    for name in ("root", "team"):
        values[f"{CLUSTERS}/{name}"] = some_object("LogicalCluster", "core.shoal.dev", "", name)
    for n in range(count):
        cluster = ("root", "team")[n % 2]
        plural, kind = (("configmaps", "ConfigMap"), ("secrets", "Secret"))[n % 3 == 0]
        key = f"core/{plural}/{cluster}/default/o{n}"
        values[key] = some_object(kind, "", "default", f"o{n}", data={"n": "x" * (n % 700), "ä": str(n)})
    values["rbac.authorization.k8s.io/clusterroles/team//edit"] = TOMBSTONE
    return values
