"""Upgraded connections through a tunnel: bytes both ways, their end, and one side that does not read."""

from __future__ import annotations

import asyncio

import pytest

from shoal.fleet.tunnel import upgraded_stream
from shoal.fleet.tunnel.flow_control import SendBuffer
from shoal.fleet.tunnel.frames import INITIAL_CREDIT
from shoal.fleet.tunnel.hub_end import HubTunnel
from shoal.objects.wire import ByteStream, Receiver, Request, Response, Upgrade
from tests.fleet.tunnel.socket_pair import Tunnel, tunnel, until

pytestmark = pytest.mark.anyio

EXEC = Request("POST", "/managedclusters/default/east/x/exec", headers={"connection": "Upgrade", "upgrade": "SPDY/3.1"})


class End:
    """One end of an upgraded connection: a byte stream that a test writes and reads, as slowly as it likes."""

    def __init__(self) -> None:
        self.stream: ByteStream | None = None
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.is_paused = False
        """Whether this end was asked to write no more."""

    def start(self, stream: ByteStream) -> Receiver:
        self.stream = stream
        return self

    def write(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.write(data)

    # --- as a receiver ---

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Client:
    """The connection of a client at the hub: what the hub writes, and whether it reads."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.ends: list[str] = []
        self.is_read = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Pair:
    def __init__(self, client: Client, to_worker: Receiver, server: End) -> None:
        self.client, self.to_worker, self.server = client, to_worker, server


async def upgraded(pair: Tunnel, server: End) -> Pair:
    answer = await pair.hub.handle(EXEC)
    assert isinstance(answer, Upgrade)
    assert (answer.status, answer.protocol, answer.headers) == (101, "SPDY/3.1", (("x-stream-protocol-version", "v4"),))
    client = Client()
    return Pair(client, answer.start(client), server)


def answers(server: End, protocol: str = "SPDY/3.1") -> Upgrade:
    return Upgrade(protocol, server.start, headers=(("x-stream-protocol-version", "v4"),))


async def test_bytes_go_both_ways_and_the_server_ends() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        made = await upgraded(pair, server)
        made.to_worker.data_received(b"ping")
        await until(lambda: server.received == b"ping")
        server.write(b"pong")
        server.write(b"last words")
        assert server.stream is not None
        server.stream.close()
        await until(lambda: made.client.ends == ["closed"])
        assert made.client.written == b"ponglast words"
        # The server's end hears of it as of any connection that it has closed.
        assert server.lost == [None]
        # The tunnel goes on.
        assert isinstance(await pair.hub.handle(EXEC), Upgrade)


async def test_the_client_ends_after_its_last_bytes() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        made = await upgraded(pair, server)
        made.to_worker.data_received(b"x" * 600_000)
        made.to_worker.connection_lost(None)
        await until(lambda: server.lost == [None])
        assert len(server.received) == 600_000


async def test_a_broken_connection_breaks_the_other_end() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        made = await upgraded(pair, server)
        made.to_worker.connection_lost(ConnectionResetError())
        await until(lambda: len(server.lost) == 1)
        assert isinstance(server.lost[0], ConnectionResetError)


async def test_the_end_of_the_tunnel_ends_it() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        made = await upgraded(pair, server)
        pair.cut()
        await until(lambda: made.client.ends == ["aborted"])
        await until(lambda: len(server.lost) == 1)


async def test_a_client_that_does_not_read_stops_the_server() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        made = await upgraded(pair, server)
        made.to_worker.pause_writing()
        written = 0
        while not server.is_paused:
            server.write(b"y" * 10_000)
            written += 10_000
            await asyncio.sleep(0)
        await until(lambda: len(made.client.written) == INITIAL_CREDIT)
        assert written <= INITIAL_CREDIT + upgraded_stream.MAX_PENDING + 200_000
        made.to_worker.resume_writing()
        await until(lambda: len(made.client.written) == written)
        assert not server.is_paused


async def test_a_server_that_does_not_read_stops_the_client() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        made = await upgraded(pair, server)
        assert server.stream is not None
        server.stream.pause_reading()
        written = 0
        while made.client.is_read:
            made.to_worker.data_received(b"z" * 10_000)
            written += 10_000
            await asyncio.sleep(0)
        await until(lambda: len(server.received) == INITIAL_CREDIT)
        server.stream.resume_reading()
        await until(lambda: len(server.received) == written)
        assert made.client.is_read


async def test_bytes_from_before_the_client_is_joined_are_kept() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        answer = await pair.hub.handle(EXEC)
        server.write(b"early")
        assert server.stream is not None
        server.stream.close()
        await until(lambda: server.lost == [None])
        await asyncio.sleep(0.01)
        client = Client()
        assert isinstance(answer, Upgrade)
        answer.start(client)
        assert client.written == b"early"
        assert client.ends == ["closed"]


async def test_an_upgrade_that_nobody_asked_for_is_refused() -> None:
    async with tunnel(lambda request: answers(End())) as pair:
        answer = await pair.hub.handle(Request("GET", "/managedclusters/default/east/api"))
        assert isinstance(answer, Response)
        assert answer.status == 501


async def test_a_worker_that_changes_the_protocol_loses_its_tunnel(caplog: pytest.LogCaptureFixture) -> None:
    async with tunnel(lambda request: answers(End(), "websocket")) as pair:
        with pytest.raises(Exception, match='worker "w1" is not connected'):
            await pair.hub.handle(EXEC)
        assert "closing tunnel of w1: unexpected upgrade" in caplog.text


async def test_a_client_that_went_away_before_it_was_joined_holds_nothing() -> None:
    server = End()
    async with tunnel(lambda request: answers(server)) as pair:
        await pair.hub.handle(EXEC)
        for _ in range(upgraded_stream.MAX_IDLE_PINGS + 1):
            HubTunnel._reset_abandoned(pair.hub)
        await until(lambda: len(server.lost) == 1)
        assert pair.hub._raw_connections == {}


def test_nothing_is_written_after_the_end() -> None:
    buffer = SendBuffer(1)
    buffer.is_closing = True
    buffer.add(b"x")
    assert buffer.pending == 0
