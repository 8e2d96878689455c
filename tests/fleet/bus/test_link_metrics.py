"""Metrics of a worker's link to its hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from shoal.apiserver.metrics.requests import APIServerMetrics
from shoal.clock import FakeClock
from shoal.fleet.bus.link_metrics import DIGEST, RESUME, LinkMetrics
from shoal.fleet.bus.watch_bus import MeteredTransport


def test_it_is_shown_as_metrics() -> None:
    clock = FakeClock()
    traffic, metrics = LinkMetrics(clock), APIServerMetrics()
    for series in traffic.counters():
        metrics.counter(*series)
    for series in traffic.gauges():
        metrics.gauge(*series)
    assert not traffic.is_live
    clock.step(3.0)
    assert "shoal_fleet_bus_lag_seconds 3\n" in metrics.render().decode()
    traffic.mark_up(DIGEST)
    traffic.bytes_in, traffic.messages_out = 120, 4
    text = metrics.render().decode()
    for line in (
        "# TYPE shoal_fleet_bus_bytes_total counter",
        'shoal_fleet_bus_bytes_total{direction="in"} 120',
        'shoal_fleet_bus_messages_total{direction="out"} 4',
        'shoal_fleet_bus_resyncs_total{kind="digest"} 1',
        'shoal_fleet_bus_resyncs_total{kind="resume"} 0',
        "# TYPE shoal_fleet_bus_lag_seconds gauge",
        "shoal_fleet_bus_lag_seconds 0",
    ):
        assert f"{line}\n" in text
    traffic.mark_down()
    clock.step(1.5)
    assert traffic.error() == "", "a bus that restarts is no failure"
    traffic.mark_down()
    assert traffic.lag_seconds() == 1.5
    traffic.mark_up(RESUME)
    assert traffic.is_live


class Echo:
    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return 200, {"a": "bc"}, body * 2

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"123"
            yield b"45"

        return 200, pieces()

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.anyio
async def test_bytes_are_counted_both_ways() -> None:
    traffic = LinkMetrics(FakeClock())
    transport = MeteredTransport(Echo(), traffic)
    await transport.request("PUT", "/a", "b=c", {"h": "v"}, b"12345")
    assert (traffic.bytes_out, traffic.bytes_in) == (3 + 2 + 3 + 13 + 6 + 5, 13 + 7 + 10)
    before = traffic.bytes_in
    _, pieces = await transport.stream("GET", "/a", "", {})
    assert [piece async for piece in pieces] == [b"123", b"45"]
    assert traffic.bytes_in - before == 5


def test_a_link_that_is_down_for_long_is_a_failure() -> None:
    clock = FakeClock()
    traffic = LinkMetrics(clock)
    traffic.mark_up(RESUME)
    clock.step(100.0)
    assert traffic.error() == ""
    traffic.mark_down()
    clock.step(20.0)
    assert traffic.error() == "no connection to the bus for 20 s"
