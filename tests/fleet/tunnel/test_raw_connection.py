"""Raw connections through both ends of a tunnel: bytes both ways, half-close, slow sides, ends and refusals."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from shoal.clock import FakeClock
from shoal.fleet.tunnel import TunnelRegistry, raw_connection
from shoal.fleet.tunnel.frames import INITIAL_CREDIT, OpenFrame
from shoal.fleet.tunnel.paths import HostedPath
from shoal.fleet.tunnel.raw_connection import MAX_PENDING, SocketHandler
from shoal.fleet.tunnel.worker_end import WorkerTunnel, _WorkerStream
from shoal.objects.errors import NotFound, NotImplementedHere, StatusError, Unavailable
from shoal.objects.wire import Answer, Request, Response
from tests.fleet.tunnel.socket_pair import Tunnel, settled, tunnel, until

pytestmark = pytest.mark.anyio

EAST = HostedPath("default", "east", "")
REFUSED = 'worker "w1" refuses connections to a hosted cluster'
BOUND = 2 * (INITIAL_CREDIT + MAX_PENDING) + 4 * 1024 * 1024
"""What the buffers between two sides can hold: both ends of the tunnel and the sockets of this machine."""


CLIENTS: list[socket.socket] = []


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    yield
    for each in CLIENTS:
        each.close()
    CLIENTS.clear()


class Site:
    """Keeps the far ends of the connections to hosted clusters."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.clients: list[str] = []
        self.targets: list[HostedPath] = []
        self.refusal: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def connector(self, target: HostedPath) -> SocketHandler:
        self.targets.append(target)
        if self.gate is not None:
            await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        return self.serve

    def serve(self, sock: socket.socket, client: str, on_closed: Callable[[], None]) -> None:
        self.sockets.append(sock)
        self.clients.append(client)


@asynccontextmanager
async def raw_tunnel() -> AsyncIterator[tuple[Tunnel, Site]]:
    site = Site()
    async with tunnel(no_requests, connector=site.connector) as pair:
        try:
            yield pair, site
        finally:
            for each in site.sockets:
                each.close()


def no_requests(request: Request) -> Answer:
    raise AssertionError(request.path)


class Opened:
    """A connection of a client through the hub."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.closed = 0

    def on_closed(self) -> None:
        self.closed += 1


async def connect(pair: Tunnel, address: str = "192.0.2.7") -> Opened:
    connector = await pair.hub.connector(EAST)
    client, accepted = socket.socketpair()
    CLIENTS.append(client)
    client.setblocking(False)
    accepted.setblocking(False)
    opened = Opened(client)
    connector(accepted, address, opened.on_closed)
    return opened


async def receive(sock: socket.socket, size: int) -> bytes:
    loop, parts = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(20):
        while len(parts) < size and (data := await loop.sock_recv(sock, 65_536)):
            parts += data
    return bytes(parts)


async def send(sock: socket.socket, data: bytes) -> None:
    async with asyncio.timeout(20):
        await asyncio.get_running_loop().sock_sendall(sock, data)


async def send_until_broken(sock: socket.socket) -> None:
    while True:
        await send(sock, b"x" * 1000)
        await asyncio.sleep(0.001)


async def fill(sock: socket.socket) -> int:
    """Writes until nothing is taken any more."""
    sent, idle = 0, 0
    while idle < 50:
        try:
            sent += sock.send(b"x" * 65_536)
            idle = 0
        except BlockingIOError:
            idle += 1
            await asyncio.sleep(0.002)
        assert sent < 64 * 1024 * 1024, "nothing holds the sender back"
    return sent


async def test_bytes_go_both_ways() -> None:
    async with raw_tunnel() as (pair, site):
        opened = await connect(pair)
        await send(opened.client, b"early")
        await until(lambda: site.sockets)
        assert (site.targets, site.clients) == ([EAST], ["192.0.2.7"])
        up, down = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(2_000_000)
        received = await asyncio.gather(
            receive(site.sockets[0], len(up) + 5),
            receive(opened.client, len(down)),
            send(opened.client, up),
            send(site.sockets[0], down),
        )
        assert received[0] == b"early" + up
        assert received[1] == down
        opened.client.close()
        assert await receive(site.sockets[0], 1) == b""


async def test_many_connections_at_once() -> None:
    async with raw_tunnel() as (pair, site):
        opened = [await connect(pair, str(number)) for number in range(50)]
        await until(lambda: len(site.sockets) == 50)
        for each, far in zip(opened, site.sockets, strict=True):
            await send(far, str(id(far)).encode())
            assert await receive(each.client, len(str(id(far)))) == str(id(far)).encode()
            each.client.close()
            far.close()
        await until(lambda: all(each.closed == 1 for each in opened))
        assert not pair.hub._raw_connections
        assert not pair.worker._raw_connections


@pytest.mark.parametrize("client_first", [True, False])
async def test_each_direction_ends_by_itself(client_first: bool) -> None:
    async with raw_tunnel() as (pair, site):
        opened = await connect(pair)
        await until(lambda: site.sockets)
        first, second = (opened.client, site.sockets[0]) if client_first else (site.sockets[0], opened.client)
        await send(first, b"the whole request")
        first.shutdown(socket.SHUT_WR)
        assert await receive(second, 100) == b"the whole request"
        await send(second, b"the answer")
        assert await receive(first, 10) == b"the answer"
        assert opened.closed == 0
        second.shutdown(socket.SHUT_WR)
        assert await receive(first, 1) == b""
        await until(lambda: opened.closed == 1)
        assert not pair.hub._raw_connections
        assert not pair.worker._raw_connections


@pytest.mark.parametrize("to_client", [True, False])
async def test_a_side_that_does_not_read_holds_the_other_back(to_client: bool) -> None:
    async with raw_tunnel() as (pair, site):
        opened = await connect(pair)
        await until(lambda: site.sockets)
        sender, reader = (site.sockets[0], opened.client) if to_client else (opened.client, site.sockets[0])
        sent = await fill(sender)
        assert sent < BOUND
        other = await connect(pair)
        await until(lambda: len(site.sockets) == 2)
        await send(other.client, b"not held up")
        assert await receive(site.sockets[1], 11) == b"not held up"
        assert len(await receive(reader, sent)) == sent
        await send(sender, b"more")
        assert await receive(reader, 4) == b"more"


@pytest.mark.parametrize("by_client", [True, False])
async def test_a_broken_connection_breaks_at_the_other_side(by_client: bool) -> None:
    async with raw_tunnel() as (pair, site):
        opened = await connect(pair)
        await until(lambda: site.sockets)
        broken, other = (opened.client, site.sockets[0]) if by_client else (site.sockets[0], opened.client)
        await send(other, b"never read")
        await settled()
        broken.close()
        with pytest.raises(OSError, match=r"Broken pipe|reset by peer"):
            await send_until_broken(other)
        await until(lambda: opened.closed == 1)
        assert not pair.worker._raw_connections


async def test_connections_end_with_the_tunnel() -> None:
    async with raw_tunnel() as (pair, site):
        opened = await connect(pair)
        await until(lambda: site.sockets)
        pair.cut()
        assert await receive(opened.client, 1) == b""
        assert await receive(site.sockets[0], 1) == b""
        await until(lambda: opened.closed == 1)
        with pytest.raises(Unavailable, match='worker "w1" is not connected'):
            await connect(pair)


async def test_a_connection_closed_one_way_is_cut_when_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_connection, "HALF_CLOSED_SECONDS", 0.05)
    async with raw_tunnel() as (pair, site):
        opened = await connect(pair)
        await until(lambda: site.sockets)
        site.sockets[0].shutdown(socket.SHUT_WR)
        await until(lambda: opened.closed == 1)
        await until(lambda: not pair.worker._raw_connections)


async def test_a_client_that_goes_before_the_worker_answers() -> None:
    async with raw_tunnel() as (pair, site):
        site.gate = asyncio.Event()
        opened = await connect(pair)
        await until(lambda: site.targets)
        opened.client.close()
        await until(lambda: pair.worker._raw_connections)
        pair.cut()
        site.gate.set()
        await until(lambda: opened.closed == 1)
        await settled()
        assert not site.sockets


async def test_a_refused_connection_is_closed_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shoal.fleet")
    async with raw_tunnel() as (pair, site):
        site.refusal = NotFound("there is no such cluster here")
        for _ in range(3):
            opened = await connect(pair)
            await send(opened.client, b"hello")
            assert await receive(opened.client, 1) == b""
            await until(lambda: opened.closed == 1)  # noqa: B023
        assert [each.message for each in caplog.records] == [f"{REFUSED} (status 404): there is no such cluster here"]
        assert not pair.worker._raw_connections


async def test_a_fault_of_the_worker_is_not_shown_to_the_hub(caplog: pytest.LogCaptureFixture) -> None:
    async with raw_tunnel() as (pair, site):
        site.refusal = ZeroDivisionError()
        opened = await connect(pair)
        assert await receive(opened.client, 1) == b""
        expected = f"{REFUSED} (status 500): Internal error occurred: see the worker's log"
        await until(lambda: expected in [each.message for each in caplog.records])


def open_as_request(worker: WorkerTunnel, number: int, open_frame: OpenFrame) -> None:
    """What a worker did before there were raw connections."""
    after_upgrade = worker._on_upgraded, worker._remove_raw
    stream = _WorkerStream(number, worker.connection, worker._handler, worker._remove_stream, *after_upgrade)
    worker._streams[number] = stream
    stream.on_open(open_frame)


async def test_an_old_worker_takes_the_connection_for_a_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a worker passes the frame to its handler, which refuses the method."""
    monkeypatch.setattr(WorkerTunnel, "_open", open_as_request)
    async with tunnel(lambda request: Response(405, b"no such method")) as pair:
        opened = await connect(pair)
        await send(opened.client, b"x" * 10_000)
        assert await receive(opened.client, 1) == b""
        await until(lambda: opened.closed == 1)
        line = f"{REFUSED} (status 405): it does not know such connections: upgrade the worker"
        assert [each.message for each in caplog.records] == [line]
        answer = await pair.hub.handle(Request("GET", "/"))
        assert answer.status == 405


async def test_a_worker_without_a_connector_refuses(caplog: pytest.LogCaptureFixture) -> None:
    async with tunnel(no_requests) as pair:
        opened = await connect(pair)
        assert await receive(opened.client, 1) == b""
        line = f"{REFUSED} (status 501): this worker does not accept connections to hosted clusters"
        assert [each.message for each in caplog.records] == [line]


async def test_a_worker_of_this_process_is_called() -> None:
    tunnels, site = TunnelRegistry(FakeClock()), Site()
    unregister = tunnels.register("w1", no_requests, connector=site.connector)
    near, far = socket.socketpair()
    (await tunnels.connector_for("w1")(EAST))(near, "192.0.2.7", lambda: None)
    assert (site.sockets, site.clients) == ([near], ["192.0.2.7"])
    unregister()
    with pytest.raises(StatusError, match='worker "w1" is not connected'):
        tunnels.connector_for("w1")
    tunnels.register("w1", no_requests)
    with pytest.raises(NotImplementedHere, match='worker "w1" does not accept connections to hosted clusters'):
        tunnels.connector_for("w1")
    near.close()
    far.close()
