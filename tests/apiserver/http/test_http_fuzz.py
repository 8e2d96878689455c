"""Arbitrary bytes in arbitrary slices: no crash, no 500, and the next client is served."""

from __future__ import annotations

import asyncio
import itertools
import logging
from logging.handlers import BufferingHandler

import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.apiserver.http import HTTPLimits, HTTPServer
from shoal.objects.wire import Answer, Request, Response, Sink, StreamResponse
from tests.apiserver.http.loopback import GET, Client

LIMITS = HTTPLimits(max_body_bytes=2000, max_header_bytes=1000)

VALID = [
    GET % b"/sync",
    GET % b"/late?x=1",
    GET % b"/stream",
    b"POST /sync HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /late HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: r\r\n\r\n",
    b"PATCH /sync HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    b"HEAD /late HTTP/1.1\r\nHost: a\r\nA: b\r\nA: c\r\n\r\n",
]


def handler(request: Request) -> object:
    async def later() -> Answer:
        await asyncio.sleep(0)
        return Response(200, [b"later ", request.body])

    def start(sink: Sink) -> None:
        sink.write(b"streamed")
        asyncio.get_running_loop().call_soon(sink.close)

    if request.path == "/late":
        return later()
    return StreamResponse(200, start) if request.path == "/stream" else Response(200, request.body)


async def converse(slices: list[bytes]) -> bytes:
    """Sends the slices on one connection and returns all it got; then another client must be served."""
    server = HTTPServer(handler, limits=LIMITS)  # type: ignore[arg-type]
    port = await server.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    got = b""
    try:
        for part in slices:
            client.send(part)
            await asyncio.sleep(0)
        client.send(b"\r\n\r\n" + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % b"/sync")
        async with asyncio.timeout(0.3):
            while piece := await client.reader.read(65536):
                got += piece
    except (ConnectionError, TimeoutError):
        pass
    good = Client(*await asyncio.open_connection("127.0.0.1", port))
    assert (await good.get(b"/sync")).status == 200
    for each in (client, good):
        await each.close()
    await server.stop(1.0)
    return got


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(each % (len(data) + 1) for each in at)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


cuts = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(VALID), min_size=1, max_size=6), cuts)
def test_valid_requests_are_all_answered_however_they_are_sliced(requests: list[bytes], at: list[int]) -> None:
    got = uvloop.run(converse(cut(b"".join(requests), at)))
    assert got.count(b"HTTP/1.1 200 OK\r\n") == len(requests) + 1
    assert got.count(b"HTTP/1.1 4") == 0


@settings(max_examples=200)
@given(st.sampled_from(VALID), st.binary(max_size=30), st.integers(0, 200), st.integers(0, 30), cuts)
def test_damaged_requests_never_give_a_500(base: bytes, noise: bytes, at: int, lost: int, where: list[int]) -> None:
    at %= len(base)
    check_quiet(cut(base[:at] + noise + base[at + lost :], where))


@settings(max_examples=100)
@given(st.binary(max_size=3000), cuts)
def test_random_bytes_never_give_a_500(data: bytes, where: list[int]) -> None:
    check_quiet(cut(data, where))


def check_quiet(slices: list[bytes]) -> None:
    listener = BufferingHandler(1000)
    listener.setLevel(logging.WARNING)
    logging.getLogger().addHandler(listener)
    try:
        got = uvloop.run(converse(slices))
    finally:
        logging.getLogger().removeHandler(listener)
    assert b"HTTP/1.1 500" not in got
    assert listener.buffer == []
