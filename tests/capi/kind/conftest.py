"""Fixtures: a kind provider environment for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.capi.kind.place import Place
from tests.capi.kind.standin import Standin
from tests.controlplane.world import world


@pytest.fixture
async def still(tmp_path: Path) -> AsyncIterator[Place]:
    """No loop runs yet."""
    async with world(tmp_path / "server", loops=False) as made:
        place = Place(made, Standin(tmp_path / "kind"))
        yield place
        await place.stop()


@pytest.fixture
async def place(still: Place) -> Place:
    still.start()
    return still
