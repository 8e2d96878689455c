"""A client that sends raw bytes to a server on a loopback port, so that tests control exactly what is sent."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shoal.apiserver.http import HTTPServer
from shoal.objects.wire import Request, Response

GET = b"GET %b HTTP/1.1\r\nHost: shoal\r\n\r\n"
TIMEOUT_SECONDS = 10.0
"""Seconds until a test that waits for the server fails."""


@dataclass
class ReceivedResponse:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def get(self, path: bytes = b"/") -> ReceivedResponse:
        self.send(GET % path)
        return await self.receive()

    async def head(self) -> ReceivedResponse:
        """Status and headers of the next answer, its body left unread."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            opening = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = opening.strip().split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        return ReceivedResponse(int(first.split(" ")[1]), {name.lower(): value for name, value in pairs}, b"")

    async def receive(self) -> ReceivedResponse:
        received = await self.head()
        if "content-length" in received.headers:
            received.body = await self.reader.readexactly(int(received.headers["content-length"]))
        elif received.headers.get("transfer-encoding") == "chunked":
            while piece := await self.chunk():
                received.body += piece
        return received

    async def chunk(self) -> bytes:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            size = int(await self.reader.readline(), 16)
            piece = await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        return piece

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


class Site:
    """One running server and the clients a test opened to it."""

    def __init__(self, server: HTTPServer, port: int) -> None:
        self.server, self.port = server, port
        self.clients: list[Client] = []

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        hostname = "localhost" if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=hostname)
        self.clients.append(Client(reader, writer))
        return self.clients[-1]


Serve = Callable[..., Awaitable[Site]]


def echo(request: Request) -> Response:
    return Response(200, f"{request.method} {request.path}?{request.query} ".encode() + request.body)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
