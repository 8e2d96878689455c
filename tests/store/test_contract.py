"""The contract, on every store there is."""

from __future__ import annotations

import pytest

from shoal.store.etcd import EtcdStore
from shoal.store.interface import Store
from tests.etcd import Etcd
from tests.store.contract import OpenStore, StoreContract


class TestSqliteStore(StoreContract):
    pass


class TestEtcdStore(StoreContract):
    @pytest.fixture
    def store_factory(self, etcd: Etcd) -> OpenStore:
        settings = etcd.settings()

        async def open_store() -> Store:
            return await EtcdStore.open(settings)

        return open_store
