"""The bus contract over the watch of the hub's API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.clock import SystemClock
from shoal.fleet.bus.watch_bus import WatchBus
from tests.fleet.bus.contract import WORKER, BusContract, CuttableTransport, Line, followed
from tests.fleet.fleets import as_worker, join_worker, server


class TestWatch(BusContract):
    @pytest.fixture
    async def line(self, tmp_path: Path) -> AsyncIterator[Line]:
        async with server(tmp_path / "hub") as hub:
            await join_worker(hub, WORKER)
            link = CuttableTransport(hub._transport)
            bus = WatchBus(as_worker(hub, WORKER).with_transport(lambda _: link), WORKER, SystemClock())
            async with followed(Line(hub, bus, link.cut, link.restore)) as line:
                yield line
