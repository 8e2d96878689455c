"""Bodies are let in after the head was answered, and count until the request is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable

import pytest

from shoal.apiserver.http import HTTPLimits
from shoal.apiserver.http.body_budget import BodyBudget
from shoal.apiserver.http.connection import HTTPConnection
from shoal.apiserver.http.parser import RequestParser
from shoal.objects.errors import Forbidden, TooManyRequests
from shoal.objects.wire import Answer, Request, Response, continue_response
from tests.apiserver.http.loopback import GET, Client, Serve, Site, echo, until

pytestmark = pytest.mark.anyio

SIZE = 1_000_000
POST = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
PART = b"x" * 100_000


def refuse(head: Request) -> Answer:
    raise Forbidden(f"no {head.method} {head.path}")


class Heads:
    """A head handler that notes what it sees. The query names the tenant."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, head: Request) -> Answer:
        self.seen.append(head.path)
        assert head.body == b""
        assert head.hold is not None
        if not head.hold.assign((head.query, "user")):
            raise TooManyRequests("no room", retry_after=1)
        return continue_response()


def only_connection(site: Site) -> HTTPConnection:
    (connection,) = site.server._connections
    return connection


async def post_part(site: Site, path: bytes = b"/x", part: bytes = PART) -> Client:
    client = await site.connect()
    client.send(POST % (path, SIZE) + part)
    return client


async def test_a_refused_head_is_answered_before_the_body(serve: Serve) -> None:
    served: list[Request] = []

    def handler(request: Request) -> Answer:
        served.append(request)
        return echo(request)

    site = await serve(handler, head_handler=refuse)
    client = await post_part(site)
    received = await client.receive()
    assert (received.status, received.headers["connection"]) == (403, "close")
    assert json.loads(received.body)["message"] == "no POST /x"
    assert site.server.bodies.held_bytes == 0
    for _ in range(5):
        client.send(PART)  # the rest is not kept
        await asyncio.sleep(0.01)
    assert site.server.bodies.held_bytes == 0
    assert not served


async def test_a_short_body_that_is_refused_leaves_the_connection_usable(serve: Serve) -> None:
    site = await serve(head_handler=refuse)
    client = await site.connect()
    for _ in range(3):
        client.send(POST % (b"/x", 1000) + b"x" * 10)
        received = await client.receive()
        assert (received.status, "connection" in received.headers) == (403, False)
        client.send(b"x" * 990)
        assert (await client.get(b"/next")).body == b"GET /next? "
    assert site.server.bodies.held_bytes == 0


async def test_a_refused_expectation_gets_no_100(serve: Serve) -> None:
    client = await (await serve(head_handler=refuse)).connect()
    client.send(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
    assert (await client.receive()).status == 403


async def test_100_comes_when_the_head_was_answered(serve: Serve) -> None:
    gate = asyncio.Event()

    async def later(head: Request) -> Answer:
        await gate.wait()
        return continue_response()

    site = await serve(head_handler=later)
    client = await site.connect()
    client.send(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    await until(lambda: bool(site.server._connections))
    await until(lambda: not only_connection(site)._transport.is_reading())
    gate.set()
    assert (await client.head()).status == 100
    client.send(b"{}")
    assert (await client.receive()).body == b"PUT /x? {}"


async def test_nothing_is_read_while_a_head_is_examined(serve: Serve) -> None:
    gate = asyncio.Event()

    async def later(head: Request) -> Answer:
        await gate.wait()
        raise Forbidden("no")

    site = await serve(head_handler=later)
    client = await post_part(site, part=b"")
    await until(lambda: bool(site.server._connections))
    await until(lambda: not only_connection(site)._transport.is_reading())
    client.send(b"x" * (SIZE - 1))
    await asyncio.sleep(0.02)
    assert only_connection(site)._parser.body_bytes == 0
    gate.set()
    assert (await client.receive()).status == 403


async def test_a_body_counts_as_it_arrives_until_the_answer(serve: Serve) -> None:
    gate = asyncio.Event()

    async def handler(request: Request) -> Answer:
        await gate.wait()
        return Response(200, b"%d" % len(request.body))

    site = await serve(handler, head_handler=Heads())
    client = await post_part(site)
    await until(lambda: site.server.bodies.held_bytes == len(PART))
    client.send(b"x" * (SIZE - len(PART)))
    await until(lambda: site.server.bodies.held_bytes == SIZE)
    gate.set()
    assert (await client.receive()).body == b"%d" % SIZE
    assert site.server.bodies.held_bytes == 0
    assert only_connection(site)._parsed.request.body == b""


@pytest.mark.parametrize("is_complete", [False, True])
async def test_a_client_that_goes_away_takes_its_body_along(serve: Serve, is_complete: bool) -> None:
    async def handler(request: Request) -> Answer:
        await asyncio.sleep(60)
        raise AssertionError

    site = await serve(handler, head_handler=Heads())
    client = await post_part(site, part=b"x" * SIZE if is_complete else PART)
    await until(lambda: site.server.bodies.held_bytes == (SIZE if is_complete else len(PART)))
    await client.close()
    await until(lambda: site.server.bodies.held_bytes == 0)


async def test_a_body_that_comes_with_its_head_is_counted_but_not_asked_for(serve: Serve) -> None:
    heads = Heads()
    held: list[int] = []

    def handler(request: Request) -> Answer:
        held.append(site.server.bodies.held_bytes)
        return echo(request)

    site = await serve(handler, head_handler=heads)
    client = await site.connect()
    client.send(POST % (b"/x", 2) + b"{}")
    assert (await client.receive()).body == b"POST /x? {}"
    assert (held, heads.seen, site.server.bodies.held_bytes) == ([2], [], 0)


async def test_a_tenant_over_its_share_is_refused_and_another_is_served(serve: Serve) -> None:
    site = await serve(head_handler=Heads(), limits=HTTPLimits(max_bodies_bytes=8 * SIZE))
    greedy = [await post_part(site, b"/x?greedy", b"x" * (SIZE - 1)) for _ in range(10)]
    refused = 0
    for client in greedy:
        try:
            async with asyncio.timeout(0.3):
                received = await client.head()
        except TimeoutError:
            continue
        assert (received.status, received.headers["retry-after"]) == (429, "1")
        refused += 1
    assert refused == 8
    assert site.server.bodies.held_bytes <= 3 * SIZE
    assert site.server.bodies.rejected_total == 8
    other = await site.connect()
    other.send(POST % (b"/x?other", SIZE) + b"x" * SIZE)
    assert (await other.receive()).status == 200


async def test_a_silent_body_is_ended_for_another_of_its_tenant(serve: Serve) -> None:
    site = await serve(head_handler=Heads(), limits=HTTPLimits(max_bodies_bytes=8 * SIZE))
    now = 0.0
    site.server.bodies.now = lambda: now
    silent = [await post_part(site, b"/x?tenant", b"x" * (SIZE - 1))]
    await until(lambda: site.server.bodies.held_bytes == SIZE - 1)
    now = 1.0
    silent.append(await post_part(site, b"/x?tenant", b"x" * (SIZE - 1)))
    await until(lambda: site.server.bodies.held_bytes == 2 * (SIZE - 1))
    now = 10.0
    busy = await site.connect()
    busy.send(POST % (b"/x?tenant", SIZE) + b"x" * SIZE)
    assert (await busy.receive()).status == 200
    assert (await silent[0].receive()).status == 429
    silent[1].send(b"x")
    assert (await silent[1].receive()).status == 200


async def test_a_head_is_not_examined_before_earlier_requests_are_answered(serve: Serve) -> None:
    heads, gate = Heads(), asyncio.Event()

    async def slow(request: Request) -> Answer:
        await gate.wait()
        return echo(request)

    def handler(request: Request) -> Answer | Awaitable[Answer]:
        return slow(request) if request.path == "/first" else echo(request)

    site = await serve(handler, head_handler=heads)
    client = await site.connect()
    client.send(GET % b"/first" + POST % (b"/second", SIZE) + PART)
    await until(lambda: bool(site.server._connections))
    await until(lambda: not only_connection(site)._transport.is_reading())
    assert heads.seen == []
    gate.set()
    assert (await client.receive()).body == b"GET /first? "
    client.send(b"x" * (SIZE - len(PART)))
    assert len((await client.receive()).body) > SIZE
    assert heads.seen == ["/second"]


async def test_little_is_parsed_ahead_of_a_request_in_progress(serve: Serve) -> None:
    gate, count = asyncio.Event(), 3000

    async def handler(request: Request) -> Answer:
        await gate.wait()
        return Response(200, request.path.encode())

    site = await serve(handler)
    client = await site.connect()
    client.send(b"".join(GET % b"/%d" % number for number in range(count)))
    await until(lambda: bool(site.server._connections))
    connection = only_connection(site)
    await until(lambda: not connection._transport.is_reading())
    assert len(connection._parser.parsed) < 150
    gate.set()
    assert [(await client.receive()).body for _ in range(count)] == [b"/%d" % number for number in range(count)]


def test_small_chunks_are_kept_in_one_buffer() -> None:
    parser = RequestParser(HTTPLimits(), "", None, BodyBudget(1 << 24))
    parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(200):
        parser.feed(b"2\r\nxy\r\n" * 500)
    assert isinstance(parser._body, bytearray)
    assert len(parser._body) == parser.body_bytes == 200_000
