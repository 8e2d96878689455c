"""Fixtures that open a store, and open it again on the same data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shoal.store.interface import Store
from shoal.store.sqlite import SqliteStore
from tests.etcd import Etcd, running_etcd

if TYPE_CHECKING:
    from tests.store.contract import OpenStore


@pytest.fixture
def store_factory(tmp_path: Path) -> OpenStore:
    """Each call opens the same data; the test closes one store before it opens the next."""

    async def open_store() -> Store:
        return await SqliteStore.open(tmp_path / "data")

    return open_store


@pytest.fixture
async def store(store_factory: OpenStore) -> AsyncIterator[Store]:
    opened = await store_factory()
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "data")
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd
