"""Responses of the HTTP server: heads, large and small bodies, errors, compression."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Iterator

import pytest

from shoal.apiserver.http import HTTPLimits, HTTPServer, encode_gzip, status_response
from shoal.apiserver.http.connection import HTTPConnection
from shoal.apiserver.http.encoding import WRITE_BATCH_BYTES, body_batches, encode_date_header
from shoal.clock import FakeClock
from shoal.objects.errors import NotFound, StatusError, TooManyRequests
from shoal.objects.wire import Answer, Request, Response
from tests.apiserver.http.loopback import GET, Client, Serve, until

pytestmark = pytest.mark.anyio


async def test_head_of_an_answer_is_exactly_this() -> None:
    def handler(request: Request) -> Response:
        return Response(201, b'{"a":1}', headers=(("Audit-Id", "42"),))

    server = HTTPServer(handler, clock=FakeClock(1_700_000_000.0))
    port = await server.start("127.0.0.1", 0)
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert await client.rest() == (
        b"HTTP/1.1 201 Created\r\n"
        b"Content-Type: application/json\r\n"
        b"Cache-Control: no-cache, private\r\n"
        b"Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
        b"Content-Length: 7\r\n"
        b"Connection: close\r\n"
        b"Audit-Id: 42\r\n"
        b"\r\n"
        b'{"a":1}'
    )
    await client.close()
    await server.stop(0.0)


def test_date_is_padded_as_http_wants_it() -> None:
    assert encode_date_header(1_704_067_205.9) == b"Date: Mon, 01 Jan 2024 00:00:05 GMT\r\n"


async def test_line_break_in_a_header_adds_no_header(serve: Serve) -> None:
    def handler(request: Request) -> Response:
        return Response(200, b"", headers=(("Warning", '299 - "a\r\nX-Evil: yes\nb"'), ("Cache-Control", "max-age=1")))

    received = await (await (await serve(handler)).connect()).get()
    assert received.headers["warning"] == '299 - "a  X-Evil: yes b"'
    assert "x-evil" not in received.headers
    assert received.headers["cache-control"] == "max-age=1"


async def test_head_request_gets_the_length_but_no_body(serve: Serve) -> None:
    client = await (await serve(lambda _: Response(200, [b"abc", b"def"]))).connect()
    client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + GET % b"/")
    assert (await client.head()).headers["content-length"] == "6"
    assert (await client.receive()).body == b"abcdef"


async def test_no_content_has_neither_length_nor_body(serve: Serve) -> None:
    answers: Iterator[Response] = iter([Response(204, b"x", content_type=""), Response(200, b"ok")])
    client = await (await serve(lambda _: next(answers))).connect()
    client.send(GET % b"/" * 2)
    empty = await client.head()
    assert (empty.status, empty.headers.keys() & {"content-length", "content-type"}) == (204, set())
    assert (await client.receive()).body == b"ok"


@pytest.mark.parametrize("in_pieces", [True, False])
async def test_large_body_is_written_as_the_peer_takes_it(serve: Serve, in_pieces: bool) -> None:
    pieces = [bytes([65 + n % 26]) * 5000 for n in range(2000)]
    whole = b"".join(pieces)
    client = await (await serve(lambda _: Response(200, pieces if in_pieces else whole))).connect()
    client.send(GET % b"/" * 2)
    await asyncio.sleep(0.05)
    assert (await client.receive()).body == whole
    assert (await client.receive()).body == whole


async def test_large_body_is_not_all_held_for_a_client_that_does_not_read(serve: Serve) -> None:
    site = await serve(lambda _: Response(200, [b"x" * 5000] * 10_000))
    client = await site.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET % b"/")
    await asyncio.sleep(0.05)
    (connection,) = site.server._connections
    assert connection.write_paused
    assert connection._transport.get_write_buffer_size() < 4 * WRITE_BATCH_BYTES


async def test_answer_nobody_takes_is_given_up(serve: Serve) -> None:
    site = await serve(lambda _: Response(200, [b"x" * 5000] * 10_000), HTTPLimits(idle_timeout=0.05))
    client = await site.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET % b"/")
    await until(lambda: bool(site.server._connections))
    await until(lambda: not site.server._connections)


async def test_peer_that_takes_something_gets_more_time() -> None:
    class Narrow(asyncio.Transport):
        def write(self, data: object) -> None:
            connection.pause_writing()

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

    loop = asyncio.get_running_loop()
    server = HTTPServer(lambda _: Response(200, [b"x" * WRITE_BATCH_BYTES] * 3), limits=HTTPLimits(idle_timeout=180.0))
    connection = HTTPConnection(server, loop)
    connection.connection_made(Narrow())
    connection.data_received(GET % b"/")
    assert connection.deadline == 180.0
    server.loop_time = 100.0
    connection.resume_writing()
    assert connection.deadline == 280.0


async def test_batches_join_small_pieces_and_cut_large_ones() -> None:
    pieces = [b"a" * 100, b"b" * (2 * WRITE_BATCH_BYTES + 1), b"c" * (WRITE_BATCH_BYTES - 1), b"d", b"e"]
    assert [len(part) for part in body_batches(pieces)] == [
        100,
        WRITE_BATCH_BYTES,
        WRITE_BATCH_BYTES,
        1,
        WRITE_BATCH_BYTES,
        1,
    ]
    assert b"".join(body_batches(pieces)) == b"".join(pieces)
    assert list(body_batches([])) == []


@pytest.mark.parametrize("late", [False, True])
async def test_errors_become_a_status_and_the_server_goes_on(
    serve: Serve, late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(path: str) -> Response:
        if path == "/missing":
            raise NotFound('pods "x" not found', name="x", kind="pods")
        if path == "/busy":
            raise TooManyRequests("slow down", retry_after=7)
        if path == "/bug":
            raise KeyError("secret")
        return Response(200, b"fine")

    async def later(request: Request) -> Answer:
        await asyncio.sleep(0)
        return fail(request.path)

    client = await (await serve(later if late else lambda request: fail(request.path))).connect()
    missing = await client.get(b"/missing")
    assert json.loads(missing.body) == NotFound('pods "x" not found', name="x", kind="pods").to_status()
    assert missing.status == 404
    assert (await client.get(b"/busy")).headers["retry-after"] == "7"
    with caplog.at_level(logging.ERROR):
        bug = await client.get(b"/bug")
    assert (bug.status, json.loads(bug.body)["reason"]) == (500, "InternalError")
    assert json.loads(bug.body)["message"] == "Internal error occurred: the server's log has the details"
    assert "KeyError: 'secret'" in caplog.text
    assert (await client.get(b"/")).body == b"fine"


async def test_handler_that_cancels_itself_or_returns_nonsense_is_a_500(serve: Serve) -> None:
    async def handler(request: Request) -> object:
        if request.path == "/cancel":
            raise asyncio.CancelledError
        return None

    client = await (await serve(handler)).connect()
    assert (await client.get(b"/cancel")).status == 500
    assert (await client.get(b"/nonsense")).status == 500


async def test_on_error_makes_the_body_and_may_itself_fail() -> None:
    def on_error(error: StatusError) -> Response:
        if error.status_code == 404:
            raise RuntimeError("cannot encode")
        return Response(error.status_code, b"mine", content_type="text/plain")

    def handler(request: Request) -> Response:
        raise NotFound("no such thing") if request.path == "/404" else TooManyRequests("wait")

    server = HTTPServer(handler, on_error=on_error)
    client = Client(*await asyncio.open_connection("127.0.0.1", await server.start("127.0.0.1", 0)))
    assert (await client.get(b"/429")).body == b"mine"
    assert (await client.get(b"/404")).body == status_response(NotFound("no such thing")).body
    await client.close()
    await server.stop(0.0)


async def test_disconnect_cancels_the_request(serve: Serve) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Answer:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    client = await (await serve(handler)).connect()
    client.send(GET % b"/")
    await begun.wait()
    await client.close()
    await asyncio.wait_for(cancelled.wait(), 5)


@pytest.mark.parametrize("size", [200_000, 3_000_000])
async def test_large_body_is_compressed_for_who_accepts_it(serve: Serve, size: int) -> None:
    body = [b"0123456789" * 10] * (size // 100)
    client = await (await serve(lambda _: Response(200, body))).connect()
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip;q=1\r\n\r\n")
    received = await client.receive()
    assert (received.headers["content-encoding"], received.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert len(received.body) < size / 10
    assert gzip.decompress(received.body) == b"".join(body)
    assert "content-encoding" not in (await client.get()).headers


@pytest.mark.parametrize(
    ("accept", "size", "headers"),
    [
        ("gzip", 128 * 1024 - 1, ()),
        ("gzip;q=0", 128 * 1024, ()),
        ("deflate", 128 * 1024, ()),
        ("gzip", 128 * 1024, (("Content-Encoding", "br"),)),
    ],
)
def test_gzip_leaves_alone(accept: str, size: int, headers: tuple[tuple[str, str], ...]) -> None:
    response = Response(200, b"x" * size, headers=headers)
    assert encode_gzip(Request("GET", "/", headers={"accept-encoding": accept}), response) is response
