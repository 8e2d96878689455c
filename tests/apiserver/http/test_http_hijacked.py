"""Upgraded connections: negotiation, hand-over, back-pressure and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import ssl
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.apiserver.http import HTTPLimits, HTTPServer
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Upgrade
from tests.apiserver.http.loopback import GET, Client, Serve, Site, echo, until

pytestmark = pytest.mark.anyio

UPGRADE_REQUEST = b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n"


class Echo:
    """Sends back what comes."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.pauses = self.resumes = self.got = 0
        self.lost: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        if data == b"fail":
            raise ZeroDivisionError
        self.got += len(data)
        self.stream.write(data)

    def pause_writing(self) -> None:
        self.pauses += 1

    def resume_writing(self) -> None:
        self.resumes += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Echoes:
    def __init__(self) -> None:
        self.made: list[Echo] = []
        self.go_on = asyncio.Event()

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        if request.path == "/late":
            return self.late()
        if request.path == "/slow":
            return self.slow()
        if request.path == "/broken":
            return Upgrade("echo", self.broken)
        return Upgrade("echo", self.start, headers=(("X-Hello", "1"),)) if request.path == "/echo" else echo(request)

    async def late(self) -> Answer:
        await asyncio.sleep(0.01)
        return Upgrade("echo", self.start)

    async def slow(self) -> Answer:
        await self.go_on.wait()
        return Response(200, b"done")

    def start(self, stream: ByteStream) -> Receiver:
        stream.write(b"hello ")
        self.made.append(Echo(stream))
        return self.made[-1]

    def broken(self, stream: ByteStream) -> Receiver:
        raise ZeroDivisionError


async def open_upgraded(site: Site, path: bytes = b"/echo", tls: ssl.SSLContext | None = None) -> Client:
    client = await site.connect(tls)
    client.send(UPGRADE_REQUEST % path)
    head = await client.head()
    assert head.status == 101
    assert (head.headers["connection"], head.headers["upgrade"]) == ("Upgrade", "echo")
    assert "content-type" not in head.headers
    assert "content-length" not in head.headers
    assert await client.reader.readexactly(6) == b"hello "
    return client


async def wait_closed(client: Client) -> None:
    with contextlib.suppress(ConnectionError):
        assert await client.rest() == b""


@pytest.mark.parametrize("path", [b"/echo", b"/late"])
async def test_bytes_go_both_ways_after_101(serve: Serve, path: bytes) -> None:
    echoes = Echoes()
    client = await open_upgraded(await serve(echoes), path)
    for data in (GET % b"/not-http-any-more", bytes(100_000), b"\0\r\n\r\n"):
        client.send(data)
        assert await client.reader.readexactly(len(data)) == data
    client.writer.close()
    await until(lambda: len(echoes.made[0].lost) == 1)


async def test_over_tls(serve: Serve, server_tls: ssl.SSLContext, client_tls: Callable[..., ssl.SSLContext]) -> None:
    echoes = Echoes()
    client = await open_upgraded(await serve(echoes, tls=server_tls), tls=client_tls())
    data = bytes(range(256)) * 4000
    client.send(data)
    assert await client.reader.readexactly(len(data)) == data
    echoes.made[0].stream.close()
    assert await client.rest() == b""


async def test_after_other_requests_on_the_connection(serve: Serve) -> None:
    client = await (await serve(Echoes())).connect()
    client.send(GET % b"/one" + GET % b"/two" + UPGRADE_REQUEST % b"/echo")
    assert [(await client.receive()).body for _ in range(2)] == [b"GET /one? ", b"GET /two? "]
    assert (await client.head()).status == 101
    client.send(b"x")
    assert await client.reader.readexactly(7) == b"hello x"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (GET % b"/echo", b"an HTTP/1.1 request with Connection: Upgrade and Upgrade: echo"),
        (GET % b"/late", b"an HTTP/1.1 request with Connection: Upgrade and Upgrade: echo"),
        (
            UPGRADE_REQUEST.replace(b"1.1", b"1.0", 1) % b"/echo",
            b"an HTTP/1.1 request with Connection: Upgrade",
        ),
        (UPGRADE_REQUEST % b"/echo" + b"x", b"data was sent before the upgrade response"),
        (UPGRADE_REQUEST % b"/late" + b"x", b"data was sent before the upgrade response"),
        (
            b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 1\r\n\r\nx",
            b"data was sent before the upgrade response",
        ),
    ],
)
async def test_what_is_no_upgrade_is_refused(serve: Serve, sent: bytes, said: bytes) -> None:
    echoes = Echoes()
    client = await (await serve(echoes)).connect()
    client.send(sent)
    received = await client.receive()
    assert received.status == 400
    assert said in received.body
    assert echoes.made == []


async def test_an_upgrade_nobody_takes_up_is_an_ordinary_request(serve: Serve) -> None:
    client = await (await serve(Echoes())).connect()
    client.send(UPGRADE_REQUEST % b"/plain")
    assert (await client.receive()).body == b"GET /plain? "
    assert await client.rest() == b""


async def test_a_receiver_that_fails_costs_its_connection_only(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    echoes = Echoes()
    site = await serve(echoes)
    one, other, third = await open_upgraded(site), await open_upgraded(site), await site.connect()
    one.send(b"fail")
    await wait_closed(one)
    third.send(UPGRADE_REQUEST % b"/broken")
    assert (await third.head()).status == 101
    other.send(b"x")
    assert await other.reader.readexactly(1) == b"x"
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "upgraded connection failed",
        "connection upgrade failed",
    ]
    await until(lambda: len(echoes.made[0].lost) == 1)


async def test_a_peer_that_does_not_read_is_told_of(serve: Serve) -> None:
    echoes = Echoes()
    client = await open_upgraded(await serve(echoes))
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    (made,) = echoes.made
    while not made.pauses:
        made.stream.write(bytes(100_000))
        await asyncio.sleep(0)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    reading = asyncio.create_task(client.rest())
    await until(lambda: made.resumes == made.pauses)
    made.stream.close()
    assert len(await reading) % 100_000 == 0


async def test_no_deadline_of_requests_holds(serve: Serve) -> None:
    limits = HTTPLimits(header_timeout=0.05, body_timeout=0.05, idle_timeout=0.05)
    client = await open_upgraded(await serve(Echoes(), limits))
    await asyncio.sleep(0.3)
    client.send(b"x")
    assert await client.reader.readexactly(1) == b"x"


async def test_it_counts_as_a_connection(serve: Serve) -> None:
    site = await serve(Echoes(), HTTPLimits(max_connections=2))
    await open_upgraded(site)
    second = await site.connect()
    assert (await second.get()).status == 200
    third = await site.connect()
    assert (await third.get()).status == 200
    await wait_closed(second)  # the third one takes its place


async def test_the_server_ends_it_last(serve: Serve) -> None:
    """Requests in progress may be answered through it."""
    echoes = Echoes()
    site = await serve(echoes)
    client, waiting = await open_upgraded(site), await site.connect()
    waiting.send(GET % b"/slow")
    await asyncio.sleep(0.02)
    stopping = asyncio.create_task(site.server.stop(10.0))
    await asyncio.sleep(0.02)
    client.send(b"x")
    assert await client.reader.readexactly(1) == b"x"
    echoes.go_on.set()
    assert (await waiting.receive()).body == b"done"
    assert await client.rest() == b""
    await stopping
    assert len(echoes.made[0].lost) == 1


@settings(max_examples=100)
@given(st.sampled_from([b"/echo", b"/late"]), st.binary(max_size=300), st.lists(st.integers(0, 1000), max_size=8))
def test_sliced_and_hasty_upgrades_are_answered_or_refused(path: bytes, extra: bytes, cuts: list[int]) -> None:
    async def run() -> bytes:
        server = HTTPServer(Echoes())
        port = await server.start("127.0.0.1", 0)
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        data = UPGRADE_REQUEST % path + extra
        edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        for a, b in itertools.pairwise(edges):
            client.send(data[a:b])
            await asyncio.sleep(0)
        got, whole = b"", b"\r\n\r\nhello " + extra
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                # A rejected client is disconnected. An accepted one gets exactly these bytes.
                while not got.endswith(whole) and (piece := await client.reader.read(65536)):
                    got += piece
        await client.close()
        await server.stop(1.0)
        return got

    got = uvloop.run(run())
    head, _, rest = got.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 101 "):
        assert rest == b"hello " + extra
    else:
        assert head.startswith(b"HTTP/1.1 400 ")
        assert extra
