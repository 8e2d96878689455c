"""Fixtures: a sync environment for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import Server
from tests.sync.sync_environment import World


@pytest.fixture
def world(server: Server) -> Iterator[World]:
    world = World(server)
    yield world
    world.close()
