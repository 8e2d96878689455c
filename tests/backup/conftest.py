"""A real etcd for those tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.etcd import Etcd, running_etcd


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd
