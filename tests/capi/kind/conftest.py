"""Fixtures: a kind provider environment for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.capi.kind.fake_kind import Standin
from tests.capi.kind.kind_environment import Place
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
