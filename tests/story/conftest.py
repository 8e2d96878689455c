"""One etcd for all stories that want it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.etcd import Etcd, etcd_program, running_etcd


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    etcd_program()
    with running_etcd() as etcd:
        yield etcd


@pytest.fixture(params=["sqlite", "etcd"])
def store(request: pytest.FixtureRequest) -> Etcd | None:
    """None: in files."""
    return request.getfixturevalue("etcd") if request.param == "etcd" else None
