"""A hub with only the splitter and the garbage collector: tests play the clusters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.clock import SystemClock
from shoal.controlplane.garbagecollector.controller import new_garbage_collector
from shoal.placement.splitter.controller import new_splitter_controllers
from tests.controlplane.world import world
from tests.placement.hub import Hub


@pytest.fixture
async def hub(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Hub]:
    async with world(tmp_path, loops=False) as given:
        runs = [loop.run for loop in new_splitter_controllers(given.client, given.clock)]
        runs.append(new_garbage_collector(given.client, SystemClock()).run)
        tasks = [asyncio.create_task(run()) for run in runs]
        yield Hub(given)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
