"""Request parsing: requests, their order, and rejections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial

import pytest

from shoal.apiserver.http import HTTPLimits
from shoal.apiserver.http.body_budget import BodyBudget
from shoal.apiserver.http.parser import ParsedRequest, RequestParser
from shoal.objects.wire import Answer, Request, Response
from tests.apiserver.http.loopback import GET, Serve, Site, echo, until

pytestmark = pytest.mark.anyio

HELLO = GET % b"/hello"


async def rejection(site: Site, data: bytes) -> tuple[int, str, str]:
    """Code, reason and message of the Status that ends the connection."""
    client = await site.connect()
    client.send(data)
    received = await client.receive()
    assert received.headers["connection"] == "close"
    assert await client.rest() == b""
    status = json.loads(received.body)
    assert (status["kind"], status["apiVersion"], status["code"]) == ("Status", "v1", received.status)
    return received.status, status["reason"], status["message"]


async def test_connection_is_kept_for_the_next_request(serve: Serve) -> None:
    client = await (await serve()).connect()
    assert (await client.get(b"/a")).body == b"GET /a? "
    assert (await client.get(b"/b")).body == b"GET /b? "


async def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    gates = {f"/{n}": asyncio.Event() for n in range(4)}
    begun: list[str] = []

    async def slowly(request: Request) -> Answer:
        begun.append(request.path)
        await gates[request.path].wait()
        return Response(200, request.path.encode())

    def handler(request: Request) -> object:
        return slowly(request) if request.path in ("/0", "/2") else Response(200, request.path.encode())

    client = await (await serve(handler)).connect()
    client.send(b"".join(GET % path.encode() for path in gates))
    gates["/2"].set()
    await asyncio.sleep(0.01)
    assert begun == ["/0"]
    gates["/0"].set()
    assert [(await client.receive()).body for _ in gates] == [b"/0", b"/1", b"/2", b"/3"]


async def test_connection_close_is_honoured_and_later_requests_ignored(serve: Serve) -> None:
    client = await (await serve()).connect()
    client.send(b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + HELLO)
    received = await client.receive()
    assert (received.body, received.headers["connection"]) == (b"GET /last? ", "close")
    assert await client.rest() == b""


async def test_http_1_0_closes_unless_asked_to_keep_alive(serve: Serve) -> None:
    client = await (await serve()).connect()
    client.send(b"GET /kept HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert (await client.receive()).headers["connection"] == "keep-alive"
    client.send(b"GET /closed HTTP/1.0\r\n\r\n")
    assert (await client.receive()).headers["connection"] == "close"
    assert await client.rest() == b""


async def test_chunked_body_with_a_trailer_that_is_no_header(serve: Serve) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(201, b"{}")

    client = await (await serve(handler)).connect()
    client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.send(b"4\r\nabcd\r\n3;note=1\r\nefg\r\n0\r\nX-Remote-User: admin\r\n\r\n")
    assert (await client.receive()).status == 201
    assert seen[0].body == b"abcdefg"
    assert "x-remote-user" not in seen[0].headers


async def test_expect_continue_is_answered_before_the_body_comes(serve: Serve) -> None:
    client = await (await serve()).connect()
    client.send(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert (await client.head()).status == 100
    client.send(b"{}")
    assert (await client.receive()).body == b"PUT /x? {}"


async def test_no_continue_for_a_body_that_comes_anyway(serve: Serve) -> None:
    client = await (await serve()).connect()
    client.send(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{")
    await asyncio.sleep(0.01)
    client.send(b"}")
    assert (await client.receive()).status == 200


def test_nothing_is_read_after_a_request_that_closes() -> None:
    reader = RequestParser(HTTPLimits(), "", None, BodyBudget(1 << 20))
    reader.feed(HELLO + b"GET /last HTTP/1.0\r\n\r\nnonsense")
    reader.feed(HELLO)
    assert [item.request.path for item in reader.parsed if isinstance(item, ParsedRequest)] == ["/hello", "/last"]
    assert len(reader.parsed) == 2


async def test_pipelining_is_held_back_while_a_request_is_under_way(serve: Serve) -> None:
    gate = asyncio.Event()

    async def handler(request: Request) -> Answer:
        await gate.wait()
        return Response(200, b"")

    site = await serve(handler)
    client = await site.connect()
    client.send(HELLO * 3)
    await until(lambda: bool(site.server._connections))
    (connection,) = site.server._connections
    await until(lambda: not connection._transport.is_reading())
    gate.set()
    assert [(await client.receive()).status for _ in range(3)] == [200] * 3
    assert connection._transport.is_reading()


async def test_pipelining_is_held_back_while_the_answers_are_not_read(serve: Serve) -> None:
    served: list[str] = []

    def handler(request: Request) -> Response:
        served.append(request.path)
        return Response(200, b"x" * 200_000)

    client = await (await serve(handler)).connect()
    client.send(HELLO * 500)
    await asyncio.sleep(0.05)
    assert 0 < len(served) < 250
    assert [len((await client.receive()).body) for _ in range(500)] == [200_000] * 500


async def test_request_line_and_headers_reach_the_handler(serve: Serve) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(200, b"")

    client = await (await serve(handler)).connect()
    client.send(
        b"GET /api/v1/n%C3%A4me%2Fx?watch=1&x=%20 HTTP/1.1\r\nHost: a\r\n"
        b"Impersonate-Group: one\r\nX-Latin: \xe9\r\nIMPERSONATE-GROUP: two\r\n\r\n"
    )
    client.send(
        b"GET https://shoal:6443/abs?y=1 HTTP/1.1\r\nHost: a\r\n\r\nGET http://shoal HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    for _ in range(3):
        assert (await client.receive()).status == 200
    first, absolute, bare = seen
    assert (first.path, first.query, first.remote_addr) == ("/api/v1/näme/x", "watch=1&x=%20", "127.0.0.1")
    assert first.headers == {"host": "a", "impersonate-group": "one, two", "x-latin": "é"}
    assert first.header_list("impersonate-group") == ["one", "two"]
    assert (absolute.path, absolute.query, absolute.raw_headers) == ("/abs", "y=1", ())
    assert bare.path == "/"
    assert first.certificate is None


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", (400, "BadRequest", "malformed HTTP request: Invalid method encountered")),
        (b"GET / HTTP/1.1\r\n\r\n", (400, "BadRequest", "missing required Host header")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", (400, "BadRequest", "too many Host headers")),
        (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", (400, "BadRequest", "invalid URL escape in path: /%zz")),
        (b"GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n", (400, "BadRequest", "invalid URL escape in path: /%ff")),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", (400, "BadRequest", "unsupported request target: *")),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", (400, "BadRequest", "unsupported request target: a:1")),
        (
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            (400, "BadRequest", "Transfer-Encoding is not part of HTTP/1.0"),
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
            (415, "UnsupportedMediaType", "request bodies with Content-Encoding gzip are not supported"),
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: magic\r\nContent-Length: 1\r\n\r\nx",
            (417, "ExpectationFailed", "unknown expectation: magic"),
        ),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", (505, "HTTPVersionNotSupported", "HTTP/2.0 is not supported")),
    ],
)
async def test_what_cannot_be_read_is_refused(serve: Serve, request_bytes: bytes, answer: tuple[int, str, str]) -> None:
    site = await serve()
    assert await rejection(site, request_bytes) == answer
    assert (await (await site.connect()).get(b"/next")).body == b"GET /next? "


async def test_refusal_waits_for_the_answers_before_it(serve: Serve) -> None:
    gate = asyncio.Event()

    async def handler(request: Request) -> Answer:
        await gate.wait()
        return Response(200, b"first")

    client = await (await serve(handler)).connect()
    client.send(HELLO + b"nonsense\r\n\r\n")
    await asyncio.sleep(0.01)
    gate.set()
    assert (await client.receive()).body == b"first"
    assert (await client.receive()).status == 400


@pytest.mark.parametrize("framing", [b"Content-Length: 11\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nb\r\n"])
async def test_body_over_the_limit_is_refused(serve: Serve, framing: bytes) -> None:
    site = await serve(limits=HTTPLimits(max_body_bytes=10))
    too_large = (413, "RequestEntityTooLarge", "Request entity too large: limit is 10")
    assert await rejection(site, b"POST / HTTP/1.1\r\nHost: a\r\n" + framing + b"01234567890") == too_large


async def test_body_at_the_limit_is_taken(serve: Serve) -> None:
    client = await (await serve(limits=HTTPLimits(max_body_bytes=10))).connect()
    client.send(b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789")
    assert (await client.receive()).body == b"POST /p? 0123456789"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 2000,
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 2000,
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 300,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: " + b"a" * 2000,
    ],
    ids=["target", "header", "headers", "trailer"],
)
async def test_unfinished_headers_over_the_limit_are_refused(serve: Serve, head: bytes) -> None:
    site = await serve(limits=HTTPLimits(max_header_bytes=1000))
    client = await site.connect()
    for at in range(0, len(head), 100):
        client.send(head[at : at + 100])
        await asyncio.sleep(0)
    received = await client.receive()
    assert received.status == 431
    assert json.loads(received.body)["message"] == "request headers too large: limit is 1000"


async def test_finished_headers_over_the_limit_are_refused(serve: Serve) -> None:
    site = await serve(limits=HTTPLimits(max_header_bytes=1000))
    just, over = (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * size + b"\r\n\r\n" for size in (900, 1000))
    too_large = (431, "RequestHeaderFieldsTooLarge", "request headers too large: limit is 1000")
    assert await rejection(site, over) == too_large
    client = await site.connect()
    client.send(just * 3)
    assert [(await client.receive()).status for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(
    "part",
    [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"],
    ids=["none", "head", "body"],
)
async def test_half_sent_request_is_cut(serve: Serve, part: bytes) -> None:
    site = await serve(limits=HTTPLimits(header_timeout=0.05, body_timeout=0.05))
    client = await site.connect()
    client.send(part)
    with contextlib.suppress(ConnectionResetError):
        assert await client.rest() == b""


async def test_idle_connection_is_closed(serve: Serve) -> None:
    client = await (await serve(limits=HTTPLimits(idle_timeout=0.05))).connect()
    assert (await client.get()).status == 200
    assert await client.rest() == b""


async def test_slow_handler_outlives_every_timeout(serve: Serve) -> None:
    async def handler(request: Request) -> Answer:
        await asyncio.sleep(0.15)
        return Response(200, b"late")

    limits = HTTPLimits(header_timeout=0.03, body_timeout=0.03, idle_timeout=0.03)
    assert (await (await (await serve(handler, limits)).connect()).get()).body == b"late"


def identify(request: Request) -> Answer:
    """A handler that knows the client."""
    assert request.connection is not None
    request.connection.identify()
    return echo(request)


async def test_a_client_that_is_not_known_gives_way(serve: Serve) -> None:
    site = await serve(limits=HTTPLimits(max_connections=1))
    first = await site.connect()
    assert (await first.get()).status == 200
    second = await site.connect()
    assert (await second.get()).status == 200
    assert await first.rest() == b""
    assert site.server.unknown.ended_total == 1


def are_registered(site: Site, count: int) -> bool:
    """So many clients that are not known have connected so far."""
    return site.server.unknown.count + site.server.unknown.ended_total == count


async def test_unknown_clients_are_limited_and_known_ones_are_not(serve: Serve) -> None:
    def handler(request: Request) -> Answer:
        return identify(request) if request.path == "/known" else echo(request)

    site = await serve(handler, limits=HTTPLimits(max_unknown_connections=4))
    known = []
    for _ in range(10):
        known.append(await site.connect())
        assert (await known[-1].get(b"/known")).status == 200
    unknown = []
    for number in range(1, 11):
        unknown.append(await site.connect())
        await until(partial(are_registered, site, number))
    assert site.server.unknown.count == 3  # of one address: three quarters
    assert [(await client.get()).status for client in (*known, *unknown[7:])] == [200] * 13


async def test_a_request_in_progress_is_not_ended_for_others(serve: Serve) -> None:
    gate = asyncio.Event()

    async def slow(request: Request) -> Answer:
        await gate.wait()
        return Response(200, b"done")

    site = await serve(slow, limits=HTTPLimits(max_unknown_connections=2))
    busy = await site.connect()
    busy.send(HELLO)
    await until(lambda: any(not each.is_waiting for each in site.server._connections))
    late = await site.connect()
    assert await late.rest() == b""
    gate.set()
    assert (await busy.receive()).body == b"done"


async def test_connections_over_the_limit_are_closed(serve: Serve) -> None:
    site = await serve(identify, limits=HTTPLimits(max_connections=1))
    first = await site.connect()
    assert (await first.get()).status == 200
    second = await site.connect()
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await second.get()
    assert (await first.get()).status == 200
