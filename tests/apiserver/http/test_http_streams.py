"""Streamed responses, and shutdown of the server."""

from __future__ import annotations

import asyncio
import json

import pytest

from shoal.apiserver.http import HTTPLimits
from shoal.apiserver.http.encoding import WRITE_BATCH_BYTES
from shoal.objects.errors import Expired
from shoal.objects.wire import Answer, Request, Response, Sink, StreamResponse
from tests.apiserver.http.loopback import GET, Client, Serve, Site, echo, until

pytestmark = pytest.mark.anyio


class Watches:
    """A handler whose `/watch` keeps its sinks for the test to write to."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self.closed = 0

    def __call__(self, request: Request) -> Answer:
        return StreamResponse(200, self.start) if request.path == "/watch" else echo(request)

    def start(self, sink: Sink) -> None:
        self.sinks.append(sink)
        sink.on_close(self.count)

    def count(self) -> None:
        self.closed += 1


async def open_watch(site: Site, version: bytes = b"1.1") -> Client:
    client = await site.connect()
    client.send(b"GET /watch HTTP/%b\r\nHost: a\r\n\r\n" % version)
    assert (await client.head()).status == 200
    return client


async def test_pieces_of_one_tick_are_one_chunk_and_the_end_is_proper(serve: Serve) -> None:
    watches = Watches()
    client = await open_watch(await serve(watches))
    (sink,) = watches.sinks
    for piece in (b"one\n", b"", b"two\n"):
        sink.write(piece)
    assert await client.chunk() == b"one\ntwo\n"
    sink.write(b"three\n")
    sink.close()
    sink.close()
    sink.write(b"after the end")
    assert (await client.chunk(), await client.chunk()) == (b"three\n", b"")
    assert sink.closed
    assert watches.closed == 1
    assert (await client.get(b"/next")).body == b"GET /next? "


async def test_stream_written_and_closed_at_once(serve: Serve) -> None:
    def start(sink: Sink) -> None:
        sink.write(b"all")
        sink.close()

    client = await (await serve(lambda _: StreamResponse(200, start, "text/plain"))).connect()
    client.send(GET % b"/" * 2)
    for _ in range(2):
        received = await client.receive()
        assert (received.body, received.headers["content-type"]) == (b"all", "text/plain")


async def test_http_1_0_stream_is_plain_and_ends_with_the_connection(serve: Serve) -> None:
    watches = Watches()
    client = await open_watch(await serve(watches), b"1.0\r\nConnection: keep-alive")
    watches.sinks[0].write(b"abc")
    watches.sinks[0].close()
    assert await client.rest() == b"abc"


async def test_start_that_fails_is_answered_as_an_error(serve: Serve) -> None:
    watches = Watches()

    def start(sink: Sink) -> None:
        watches.start(sink)
        sink.write(b"half")
        raise Expired("too old resource version")

    client = await (await serve(lambda _: StreamResponse(200, start))).connect()
    received = await client.get()
    assert (received.status, json.loads(received.body)["reason"]) == (410, "Expired")
    assert (watches.sinks[0].closed, watches.closed) == (True, 1)
    assert (await client.get()).status == 410


async def test_disconnect_closes_the_sink_once(serve: Serve) -> None:
    watches = Watches()
    client = await open_watch(await serve(watches))
    await client.close()
    await until(lambda: watches.closed > 0)
    sink = watches.sinks[0]
    assert (sink.closed, sink.pending_bytes) == (True, 0)
    sink.write(b"x")
    sink.close()
    sink.abort()
    late: list[bool] = []
    sink.on_close(lambda: late.append(True))
    await asyncio.sleep(0)
    assert (watches.closed, late) == (1, [True])


async def test_aborted_stream_is_seen_as_broken(serve: Serve) -> None:
    watches = Watches()
    client = await open_watch(await serve(watches))
    watches.sinks[0].write(b"x")
    await client.chunk()
    watches.sinks[0].abort()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError, ValueError)):
        await client.chunk()
    assert watches.closed == 1


async def test_slow_reader_is_cut_while_others_are_served(serve: Serve) -> None:
    watches = Watches()
    site = await serve(watches, HTTPLimits(max_pending_bytes=100_000))
    slow, fast = await open_watch(site), await open_watch(site)
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    event, sent = b"x" * 50_000, 0
    lagging, reading = watches.sinks
    while not lagging.closed:
        lagging.write(event)
        reading.write(event)
        sent += 1
        assert sent < 2000
        assert await fast.chunk() == event
    assert (watches.closed, reading.closed, lagging.pending_bytes) == (1, False, 0)
    assert (await (await site.connect()).get(b"/other")).body == b"GET /other? "


async def test_first_burst_may_be_larger_than_the_limit(serve: Serve) -> None:
    burst = [b"y" * 10_000] * 1000
    kept: list[Sink] = []

    def start(sink: Sink) -> None:
        kept.append(sink)
        for piece in burst:
            sink.write(piece)

    site = await serve(lambda _: StreamResponse(200, start), HTTPLimits(max_pending_bytes=1000))
    client = await site.connect()
    client.send(GET % b"/")
    await until(lambda: len(kept) == 1)
    await asyncio.sleep(0.02)
    kept[0].write(b"tail")
    assert not kept[0].closed
    assert kept[0].pending_bytes > 1_000_000
    (connection,) = site.server._connections
    assert connection._transport.get_write_buffer_size() < 4 * WRITE_BATCH_BYTES
    kept[0].close()
    assert (await client.receive()).body == b"".join(burst) + b"tail"


async def test_stop_ends_streams_and_idle_connections_and_lets_requests_finish(serve: Serve) -> None:
    watches = Watches()
    gate = asyncio.Event()

    async def slow() -> Answer:
        await gate.wait()
        return Response(200, b"done")

    site = await serve(lambda request: slow() if request.path == "/slow" else watches(request))
    idle, watcher, busy = await site.connect(), await open_watch(site), await site.connect()
    assert (await idle.get()).status == 200
    watches.sinks[0].write(b"last")
    busy.send(GET % b"/slow")
    await asyncio.sleep(0.01)
    stopping = asyncio.create_task(site.server.stop(5.0))
    assert await idle.rest() == b""
    assert (await watcher.chunk(), await watcher.chunk(), await watcher.rest()) == (b"last", b"", b"")
    assert watches.closed == 1
    assert not stopping.done()
    with pytest.raises(ConnectionRefusedError):
        await site.connect()
    gate.set()
    received = await busy.receive()
    assert (received.body, received.headers["connection"]) == (b"done", "close")
    await stopping


async def test_stream_that_begins_while_the_server_stops_ends_at_once(serve: Serve) -> None:
    watches, gate, begun = Watches(), asyncio.Event(), asyncio.Event()

    async def later(request: Request) -> Answer:
        begun.set()
        await gate.wait()
        return StreamResponse(200, watches.start)

    site = await serve(later)
    client = await site.connect()
    client.send(GET % b"/")
    await begun.wait()
    stopping = asyncio.create_task(site.server.stop(5.0))
    await asyncio.sleep(0)
    gate.set()
    assert (await client.receive()).body == b""
    assert await client.rest() == b""
    await stopping
    assert watches.closed == 1


async def test_stop_aborts_what_does_not_finish_in_time(serve: Serve) -> None:
    cancelled: list[bool] = []

    async def forever(request: Request) -> Answer:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        raise AssertionError

    site = await serve(forever)
    client = await site.connect()
    client.send(GET % b"/")
    await asyncio.sleep(0.01)
    await site.server.stop(0.01)
    await asyncio.sleep(0)
    assert cancelled == [True]
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await client.receive()
