"""The contract, on every store there is."""

from __future__ import annotations

from tests.store.contract import StoreContract


class TestSqliteStore(StoreContract):
    pass
