"""Requests that take their connection over, passed on to a server that a test plays byte by byte."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.client.tls import client_context
from shoal.client.transport import Unreachable
from shoal.client.upgrade_forwarding import encode_request_head, forward_upgrade
from shoal.objects.wire import Receiver, Response, Upgrade
from tests.fleet.tunnel.socket_pair import until
from tests.fleet.tunnel.test_upgraded_stream import Client

pytestmark = pytest.mark.anyio

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: yes\r\n\r\n"
)
HEADERS = (("connection", "Upgrade"), ("upgrade", "websocket"), ("authorization", "Bearer x"))


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of its clients."""
    authority = CertificateAuthority(directory)
    issued = authority.issue_serving(["127.0.0.1"], 3600)
    file = directory / "serving.pem"
    file.write_bytes(issued.certificate + b"\n" + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, client_context(authority.certificate.decode())


def send_and_close(listening: socket.socket, context: ssl.SSLContext, content: bytes) -> None:
    """As a server in Go, it does not wait until the client has read everything, or says that it ends, too."""
    accepted, _ = listening.accept()
    with context.wrap_socket(accepted, server_side=True) as connection:
        while not connection.recv(65536).endswith(b"\r\n\r\n"):
            pass
        connection.sendall(SWITCH + content)
        connection.setblocking(False)
        with suppress(ssl.SSLWantReadError):
            connection.unwrap()


class SlowClient(Client):
    """It often asks the server to pause."""

    to_server: Receiver | None = None

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.is_read and self.to_server is not None:
            self.is_read = False
            self.to_server.pause_writing()
            asyncio.get_running_loop().call_later(0.003, self._go_on)

    def _go_on(self) -> None:
        assert self.to_server is not None
        self.is_read = True
        self.to_server.resume_writing()


@asynccontextmanager
async def server(directory: Path, talk: Talk) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """Its address, and what trusts it."""
    context, trusting = contexts(directory)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        port = listening.sockets[0].getsockname()[1]
        yield f"https://127.0.0.1:{port}", trusting
    finally:
        listening.close()
        await listening.wait_closed()


async def test_an_upgraded_connection_is_relayed(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(SWITCH + b"hello ")
        seen.append(await reader.readexactly(4))
        writer.write(b"world")
        await writer.drain()

    async with server(tmp_path, talk) as (address, tls):
        answer = await forward_upgrade(address, tls, "GET", "/api/exec?command=a%20b", HEADERS, b"")
        assert isinstance(answer, Upgrade)
        assert (answer.protocol, answer.headers) == ("websocket", (("sec-websocket-accept", "yes"),))
        client = Client()
        to_server = answer.start(client)
        to_server.data_received(b"ping")
        await until(lambda: client.ends == ["closed"])
        assert client.written == b"hello world"
        head = seen[0].decode().split("\r\n")
        assert head[0] == "GET /api/exec?command=a%20b HTTP/1.1"
        assert head[1:] == [
            f"host: {address.removeprefix('https://')}",
            *(f"{name}: {value}" for name, value in HEADERS),
            "content-length: 0",
            "",
            "",
        ]
        to_server.connection_lost(None)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_all_bytes_arrive_however_slowly_they_are_read(tmp_path: Path) -> None:
    content = bytes(5_000_000)
    context, tls = contexts(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sending = asyncio.create_task(asyncio.to_thread(send_and_close, listening, context, content))
        address = f"https://127.0.0.1:{listening.getsockname()[1]}"
        answer = await forward_upgrade(address, tls, "GET", "/api/exec", HEADERS, b"")
        assert isinstance(answer, Upgrade)
        client = SlowClient()
        client.to_server = answer.start(client)
        await until(lambda: client.ends == ["closed"])
        await sending
    assert len(client.written) == len(content)
    client.to_server.connection_lost(None)


@pytest.mark.parametrize(
    ("response", "status", "body"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nno!\n", 403, b"no!\n"),
        (b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 400, b"abcde"),
        (b"HTTP/1.1 500 Oops\r\n\r\nuntil the end", 500, b"until the end"),
    ],
)
async def test_any_other_response_is_read_as_a_whole(tmp_path: Path, response: bytes, status: int, body: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in (response[:10], response[10:]):
            writer.write(piece)
            await writer.drain()

    async with server(tmp_path, talk) as (address, tls):
        answer = await forward_upgrade(address, tls, "POST", "/x", HEADERS, b"body")
        assert isinstance(answer, Response)
        assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the server's response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n" + b"x" * 300_000, "the server's response is too long"),
    ],
)
async def test_what_is_no_response(tmp_path: Path, response: bytes, message: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)

    async with server(tmp_path, talk) as (address, tls):
        with pytest.raises(Unreachable, match=message):
            await forward_upgrade(address, tls, "GET", "/x", HEADERS, b"")


async def test_a_server_that_nobody_trusts_is_not_asked(tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("not to be reached")

    (tmp_path / "other").mkdir()
    async with server(tmp_path, talk) as (address, _):
        stranger = client_context(CertificateAuthority(tmp_path / "other").certificate.decode())
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await forward_upgrade(address, stranger, "GET", "/x", HEADERS, b"")


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET /x HTTP/1.1\r\nX: y", "/", ()),
        ("GET", "/a b", ()),
        ("GET", "/a\r\nimpersonate-user: root", ()),
        ("GET", "https://elsewhere/", ()),
        ("GET", "/", (("x", "y\r\nimpersonate-user: root"),)),
        ("GET", "/", (("x\r\nimpersonate-user", "root"),)),
        ("GET", "/", (("x y", "z"),)),
        ("GET", "/", (("x", "ü\u2028"),)),
    ],
)
def test_what_could_be_read_as_another_request(method: str, target: str, headers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ValueError, match=r"not an HTTP|codec can't encode"):
        encode_request_head(method, target, headers)
