"""The contract of the bus, over a real nats-server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.clock import SystemClock
from shoal.fleet.bus.nats_bus import NatsBus
from shoal.fleet.controllers import FleetRunnable
from shoal.fleet.publisher.controller import Publisher
from shoal.fleet.receiver.controller import StatusReceiver
from tests.fleet.bus.contract import WORKER, BusContract, Line, followed
from tests.fleet.fleets import as_worker, join_worker, running, server
from tests.real.bus import NATS, nats_server, wire


@pytest.mark.skipif(NATS is None, reason="nats-server")
class TestNats(BusContract):
    @pytest.fixture
    async def line(self, tmp_path: Path) -> AsyncIterator[Line]:
        clock = SystemClock()
        with nats_server(tmp_path) as nats:
            async with server(tmp_path / "hub") as hub, wire(nats.port) as link:
                loops: list[FleetRunnable] = [
                    Publisher(hub, clock, nats.bus).controller,
                    StatusReceiver(hub, clock, nats.bus).controller,
                ]
                await join_worker(hub, WORKER)
                async with running(loops):
                    bus = NatsBus(as_worker(hub, WORKER), WORKER, clock, link.bus)
                    async with followed(Line(hub, bus, link.cut, link.restore)) as line:
                        yield line
