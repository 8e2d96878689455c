"""Fixtures: a hub with a worker that provides kind clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fleet.kind.place import KindPlace, kind_place


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KindPlace]:
    async with kind_place(tmp_path, monkeypatch) as made:
        yield made
