"""The store contract, on every store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from shoal.store.encrypted import EncryptedStore, KeyRing
from shoal.store.etcd import EtcdStore
from shoal.store.etcd.snapshot import EtcdRestoreSpec, restore_store
from shoal.store.interface import Store
from shoal.store.sqlite import SqliteStore
from tests.etcd import Etcd
from tests.store.contract import OpenStore, StoreContract


class TestSqliteStore(StoreContract):
    pass


class TestEncryptedStore(StoreContract):
    """Every value is encrypted, on the embedded store."""

    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> OpenStore:
        async def open_store() -> Store:
            return EncryptedStore(await SqliteStore.open(tmp_path / "data"), KeyRing((b"k" * 32,), "keys"), ("",))

        return open_store


@pytest.mark.soak
class TestRestoredEtcdStore(StoreContract):
    """Revisions are ahead of etcd's own, and objects are in a separate folder."""

    @pytest.fixture
    def store_factory(self, etcd: Etcd) -> OpenStore:
        settings, made = etcd.settings(), False

        async def open_store() -> Store:
            nonlocal made
            if not made:
                made = True
                await restore_store(settings, EtcdRestoreSpec(str(uuid.uuid4()), "before", 1_000_000), [])
            return await EtcdStore.open(settings)

        return open_store


class TestEtcdStore(StoreContract):
    @pytest.fixture
    def store_factory(self, etcd: Etcd) -> OpenStore:
        settings = etcd.settings()

        async def open_store() -> Store:
            return await EtcdStore.open(settings)

        return open_store
