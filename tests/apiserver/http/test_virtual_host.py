"""Connections that were accepted elsewhere: requests, limits, upgrades, failed handshakes, and the server's end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from shoal.apiserver.http import HTTPServer
from shoal.apiserver.http.virtual_host import VirtualHost
from shoal.apiserver.pki.ca import CertificateAuthority, server_tls_context
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, StreamResponse, Upgrade

pytestmark = pytest.mark.anyio

PATIENCE = 20.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"


class Echo(asyncio.Protocol):
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def data_received(self, data: bytes) -> None:
        self._stream.write(data)


def handler(request: Request) -> Answer:
    if request.path == "/echo":
        return Upgrade("echo", lambda stream: cast(Receiver, Echo(stream)))
    if request.path == "/watch":
        return StreamResponse(200, lambda sink: sink.write(b"event"))
    return Response(200, request.remote_addr.encode(), "text/plain")


def elsewhere(request: Request) -> Answer:
    raise AssertionError("that is the handler of the server's own address")


class Site:
    def __init__(self, server: HTTPServer, pki: Path) -> None:
        self.server, self.host = server, VirtualHost(server, handler, server.head_handler, 3)
        self._serving = server_tls_context(pki)
        self._tls = ssl.create_default_context(cafile=pki / "ca.crt")
        self.closed = 0
        self.writers: list[asyncio.StreamWriter] = []

    def count_closed(self) -> None:
        self.closed += 1

    def serve(self) -> socket.socket:
        """Returns the client's end."""
        client, accepted = socket.socketpair()
        accepted.setblocking(False)
        self.host.serve(accepted, self._serving, "192.0.2.7", self.count_closed)
        return client

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(
                sock=self.serve(), ssl=self._tls, server_hostname="localhost"
            )
        self.writers.append(writer)
        return reader, writer

    async def until(self, closed: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.closed < closed:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        assert self.closed == closed


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pki")
    CertificateAuthority(directory).ensure_serving_certificate(["localhost"])
    return directory


@asynccontextmanager
async def serving(pki: Path) -> AsyncIterator[Site]:
    server = HTTPServer(elsewhere)
    await server.start("127.0.0.1", 0, server_tls_context(pki))
    site = Site(server, pki)
    try:
        yield site
    finally:
        for writer in site.writers:
            writer.transport.abort()
        await server.stop(1.0)
        assert site.host.connection_count == 0


async def read_to(reader: asyncio.StreamReader, end: bytes) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await reader.readuntil(end)


async def test_requests_have_the_address_of_the_client(pki: Path) -> None:
    async with serving(pki) as site:
        reader, writer = await site.connect()
        for _ in range(3):
            writer.write(GET)
            assert b"200 OK" in await read_to(reader, b"192.0.2.7")
        assert (site.host.connection_count, site.closed) == (1, 0)
        writer.close()
        await site.until(closed=1)


async def test_a_connection_above_the_limit_is_closed(pki: Path) -> None:
    async with serving(pki) as site:
        for _ in range(3):
            await site.connect()
        assert site.host.is_full
        with site.serve() as refused:
            assert refused.recv(1) == b""
        assert (site.host.connection_count, site.closed) == (3, 1)
        site.writers[0].transport.abort()
        await site.until(closed=2)
        reader, writer = await site.connect()
        writer.write(GET)
        await read_to(reader, b"192.0.2.7")


async def test_a_failed_handshake_is_counted_once(pki: Path) -> None:
    async with serving(pki) as site:
        with site.serve() as client:
            assert site.host.connection_count == 1
            client.send(b"this is no TLS, by far" * 10)
            await site.until(closed=1)
        assert site.host.connection_count == 0


async def test_an_upgraded_connection_counts_until_it_ends(pki: Path) -> None:
    async with serving(pki) as site:
        reader, writer = await site.connect()
        writer.write(UPGRADE)
        assert b"101" in await read_to(reader, b"\r\n\r\n")
        writer.write(b"hello")
        assert await read_to(reader, b"hello") == b"hello"
        assert (site.host.connection_count, site.closed) == (1, 0)
        writer.close()
        await site.until(closed=1)


async def test_shut_down_ends_what_is_open(pki: Path) -> None:
    async with serving(pki) as site:
        idle, _ = await site.connect()
        watching, writer = await site.connect()
        writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
        await read_to(watching, b"event")
        with site.serve():  # in its handshake
            site.host.shut_down()
            async with asyncio.timeout(PATIENCE):
                assert await idle.read() == b""
                assert (await watching.read()).endswith(b"0\r\n\r\n")
            await site.until(closed=2)
        await site.until(closed=3)


async def test_connections_end_with_the_server(pki: Path) -> None:
    async with serving(pki) as site:
        reader, _ = await site.connect()
        with site.serve() as silent:
            await site.server.stop(1.0)
            with suppress(ConnectionError):  # the client may be cut while it answers the end of TLS
                assert await reader.read() == b""
            assert silent.recv(1) == b""
            await site.until(closed=2)
        with site.serve() as late:
            assert late.recv(1) == b""
        await site.until(closed=3)
