"""One server per test module; each test has its own namespace and hosted cluster."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.world import World, world

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Nothing here is about disks: where the machine has it, none is waited for."""


@pytest.fixture(scope="module")
async def given() -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        async with world(Path(directory), loops=False) as found:
            yield found
