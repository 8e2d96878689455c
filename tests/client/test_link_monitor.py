"""A link that is lost is reported once, and once when it is back; /readyz follows it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping

import pytest

from shoal.assemble.server.health import HealthServer
from shoal.client.link_monitor import LinkMonitor
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.objects.wire import Request

pytestmark = pytest.mark.anyio


class Server:
    is_there = True
    status = 503
    silence: asyncio.Event | None = None

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.silence is not None:
            await self.silence.wait()
        if not self.is_there:
            raise Unreachable("https://hub:6443 cannot be reached: connection refused")
        return self.status, {}, b""

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        status, _, _ = await self.request(method, path, query, headers, b"")

        async def nothing() -> AsyncIterator[bytes]:
            yield b""

        return status, nothing()

    async def close(self) -> None:
        pass


async def test_a_lost_link_is_reported_once_and_its_return_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shoal.client")
    clock, server = FakeClock(), Server()
    monitor = LinkMonitor("the hub", clock)
    link = monitor.transport(server)
    health = HealthServer(monitor.problem)

    def ready() -> tuple[int, object]:
        answer = health._handle(Request("GET", "/readyz"))
        assert health._handle(Request("GET", "/healthz")).status == 200, "a restart would not help"
        return answer.status, answer.body

    assert ready() == (503, b"the hub does not answer\n")
    await link.request("GET", "/", "", {}, b"")
    assert ready() == (200, b"ok")
    server.is_there = False
    for _ in range(3):
        with pytest.raises(Unreachable):
            await link.request("GET", "/", "", {}, b"")
        with pytest.raises(Unreachable):
            await link.stream("GET", "/", "", {})
        clock.step(20)
    assert ready() == (503, b"the hub does not answer\n")
    server.is_there = True
    await link.stream("GET", "/", "", {})
    await link.request("GET", "/", "", {}, b"")
    assert ready() == (200, b"ok")
    assert [record.getMessage() for record in caplog.records] == [
        "the hub does not answer, retrying: https://hub:6443 cannot be reached: connection refused",
        "the hub answers again after 60 seconds",
    ]


async def test_a_server_that_keeps_silent_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Packets are dropped, or the process of the server is stopped: no request fails."""
    clock, server = FakeClock(), Server()
    monitor = LinkMonitor("the hub", clock)
    link = monitor.transport(server)
    await link.request("GET", "/", "", {}, b"")
    server.silence = asyncio.Event()
    clock.step(100)
    assert monitor.problem() == "", "nothing was asked"
    waiting = asyncio.ensure_future(link.request("GET", "/", "", {}, b""))
    await asyncio.sleep(0)
    clock.step(29)
    assert monitor.problem() == ""
    clock.step(1)
    assert [monitor.problem(), monitor.problem()] == ["the hub does not answer"] * 2
    server.silence.set()
    await waiting
    clock.step(100)
    assert monitor.problem() == ""
    assert caplog.messages == [
        "the hub does not answer, retrying: no answer for 30 seconds",
        "the hub answers again after 30 seconds",
    ]


async def test_rejected_credentials_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    monitor = LinkMonitor("the hub", FakeClock())
    link = monitor.transport(server)
    for server.status in (200, 401, 401):
        await link.request("GET", "/", "", {}, b"")
        await link.stream("GET", "/", "", {})
    assert monitor.problem() == "the hub rejects the credentials"
    for server.status in (403, 200):
        await link.request("GET", "/", "", {}, b"")
    assert monitor.problem() == ""
    assert caplog.messages == [
        "the hub rejects the credentials of this process",
        "the hub accepts the credentials of this process",
    ]
