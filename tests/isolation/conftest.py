"""One hub with two logical clusters and two managed clusters, shared by all isolation tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.fleet.tunnel import disclosure
from tests.isolation.tenants import Hub, People


@pytest.fixture(scope="session")
def people() -> Iterator[People]:
    with tempfile.TemporaryDirectory(prefix="shoal-isolation-") as directory:
        hub = Hub(Path(directory))
        try:
            people = People(hub)
            yield people
            people.close()
        finally:
            hub.stop()


@pytest.fixture(autouse=True)
def hub_started_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses tokens that it does not know."""
    monkeypatch.setattr(disclosure, "STARTUP_SECONDS", 0.0)
