"""Requests through both ends of a tunnel: many at once, slow readers, ends and disconnects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

import pytest

from shoal.clock import FakeClock
from shoal.fleet.tunnel import worker_end
from shoal.fleet.tunnel.connection import MAX_MISSED_PINGS, PING_SECONDS
from shoal.fleet.tunnel.frames import INITIAL_CREDIT, MAX_PAYLOAD
from shoal.fleet.tunnel.hub_end import MAX_BUFFERED_RESPONSE, HubTunnel
from shoal.objects.errors import Forbidden, StatusError, Unavailable
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Sink, StreamResponse, Upgrade
from tests.fleet.tunnel.socket_pair import Slow, settled, tunnel, until

pytestmark = pytest.mark.anyio


class Site:
    """A handler with an answer of every sort."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self.closed = 0
        self.cancelled = 0
        self.seen: list[Request] = []
        self.go_on = asyncio.Event()

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        self.seen.append(request)
        if request.path == "/watch":
            return StreamResponse(200, self.start, "application/json;stream=watch", (("Warning", "old"),))
        if request.path == "/long":
            return Response(200, [bytes([each % 256]) * 10_000 for each in range(800)])
        if request.path == "/wait":
            return self.wait()
        if request.path == "/fail":
            raise Forbidden("no")
        if request.path == "/bug":
            raise ZeroDivisionError
        if request.path == "/upgrade":
            return Upgrade("other", self.never)
        return self.echo(request)

    async def echo(self, request: Request) -> Answer:
        await asyncio.sleep(random.random() / 1000)
        return Response(201, [request.method.encode(), b" ", request.body], "text/plain", (("X-Query", request.query),))

    async def wait(self) -> Answer:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Response(200, b"at last")

    def start(self, sink: Sink) -> None:
        self.sinks.append(sink)
        sink.on_close(self.count)

    def count(self) -> None:
        self.closed += 1

    @staticmethod
    def never(stream: ByteStream) -> Receiver:
        raise AssertionError("nobody starts this")


async def watching(hub: HubTunnel, sink: Slow) -> StreamResponse:
    answer = await hub.handle(Request("GET", "/watch"))
    assert isinstance(answer, StreamResponse)
    answer.start(sink)
    return answer


async def whole(hub: HubTunnel, request: Request) -> tuple[int, bytes]:
    answer = await hub.handle(request)
    assert isinstance(answer, Response)
    assert isinstance(answer.body, list)
    return answer.status, b"".join(answer.body)


async def test_a_request_and_its_answer_are_whole() -> None:
    site = Site()
    async with tunnel(site) as pair:
        lines = (("accept", "a"), ("impersonate-group", "x"), ("impersonate-group", "y, z"))
        sent = Request("POST", "/é", "a=%20b", {"accept": "a"}, b"body", raw_headers=lines)
        answer = await pair.hub.handle(sent)
        assert isinstance(answer, Response)
        assert (answer.status, answer.body, answer.content_type) == (201, [b"POST body"], "text/plain")
        assert answer.headers == (("X-Query", "a=%20b"),)
        (seen,) = site.seen
        assert (seen.method, seen.path, seen.query, seen.body) == ("POST", "/é", "a=%20b", b"body")
        assert seen.header_list("impersonate-group") == ["x", "y, z"]
        assert (seen.certificate, seen.headers["accept"]) == (None, "a")


async def test_many_requests_at_once() -> None:
    async with tunnel(Site()) as pair:
        bodies = [random.Random(each).randbytes(each * 997 % 70_000) for each in range(300)]
        asked = [whole(pair.hub, Request("PUT", "/", body=body)) for body in bodies]
        assert await asyncio.gather(*asked) == [(201, b"PUT " + body) for body in bodies]


async def test_the_largest_body_is_taken_and_a_larger_one_refused() -> None:
    async with tunnel(Site()) as pair:
        body = random.Random(1).randbytes(worker_end.MAX_BODY)
        answer = await pair.hub.handle(Request("POST", "/", body=body))
        sink = Slow(open_wide=True)
        assert isinstance(answer, StreamResponse)
        answer.start(sink)
        await until(lambda: sink.closed)
        assert sink.body == b"POST " + body
        status, said = await whole(pair.hub, Request("POST", "/", body=body + b"x"))
        assert status == 413
        assert b"Request entity too large: limit is 3145728" in said
        assert await whole(pair.hub, Request("POST", "/", body=b"next")) == (201, b"POST next")


async def test_failures_are_statuses() -> None:
    async with tunnel(Site()) as pair:
        for path, code, said in [
            ("/fail", 403, b'"message":"no"'),
            ("/bug", 500, b"Internal error occurred: see the worker's log"),
            ("/upgrade", 501, b"hosted clusters do not support connection upgrades"),
        ]:
            status, body = await whole(pair.hub, Request("GET", path))
            assert status == code
            assert said in body
        with pytest.raises(StatusError, match="request headers too large"):
            await pair.hub.handle(Request("GET", "/", "x" * MAX_PAYLOAD))


async def test_a_stream_comes_piece_by_piece_and_ends() -> None:
    site, sink = Site(), Slow(open_wide=True)
    async with tunnel(site) as pair:
        answer = await watching(pair.hub, sink)
        assert (answer.content_type, answer.headers) == ("application/json;stream=watch", (("Warning", "old"),))
        site.sinks[0].write(b"one\n")
        await until(lambda: sink.body == b"one\n")
        site.sinks[0].write(b"two\n")
        await until(lambda: sink.body == b"one\ntwo\n")
        site.sinks[0].close()
        site.sinks[0].write(b"after the end")
        await until(lambda: sink.closed)
        assert (sink.body, sink.aborted) == (b"one\ntwo\n", False)
        await until(lambda: site.closed == 1)


async def test_a_client_that_goes_ends_the_stream_at_the_worker() -> None:
    site, sink = Site(), Slow(open_wide=True)
    async with tunnel(site) as pair:
        await watching(pair.hub, sink)
        sink.close()
        await until(lambda: site.closed == 1)
        assert site.sinks[0].closed


async def test_a_request_that_is_given_up_is_cancelled_at_the_worker() -> None:
    site = Site()
    async with tunnel(site) as pair:
        asked = asyncio.create_task(pair.hub.handle(Request("GET", "/wait")))
        await until(lambda: site.seen)
        asked.cancel()
        await until(lambda: site.cancelled == 1)
        with pytest.raises(asyncio.CancelledError):
            await asked


async def test_a_slow_reader_holds_up_nobody_and_little_memory() -> None:
    site, slow = Site(), Slow()
    async with tunnel(site) as pair:
        await watching(pair.hub, slow)
        piece = bytes(10_000)
        for _ in range(200):
            site.sinks[0].write(piece)
        await until(lambda: len(slow.body) >= INITIAL_CREDIT)
        await settled()
        assert len(slow.body) <= 2 * INITIAL_CREDIT
        held = site.sinks[0].pending_bytes
        assert held == 200 * 10_000 - len(slow.body)
        assert await whole(pair.hub, Request("PUT", "/", body=b"quick")) == (201, b"PUT quick")
        fast = Slow(open_wide=True)
        await watching(pair.hub, fast)
        for _ in range(200):
            site.sinks[1].write(piece)
        await until(lambda: len(fast.body) == 200 * 10_000)
        assert site.sinks[0].pending_bytes == held
        for _ in range(20):
            slow.take()
            await settled()
        assert len(slow.body) == 200 * 10_000


async def test_a_reader_too_far_behind_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_end, "MAX_PENDING", 100_000)
    site, slow = Site(), Slow()
    async with tunnel(site) as pair:
        await watching(pair.hub, slow)
        for _ in range(1000):
            site.sinks[0].write(bytes(10_000))
            await asyncio.sleep(0)
            if site.sinks[0].closed:
                break
        await until(lambda: slow.aborted)
        assert site.closed == 1


async def test_a_long_answer_is_not_held_at_the_hub() -> None:
    async with tunnel(Site()) as pair:
        answer = await pair.hub.handle(Request("GET", "/long"))
        assert isinstance(answer, StreamResponse)
        await settled()
        slow = Slow()
        answer.start(slow)
        await settled()
        assert len(slow.body) <= 2 * INITIAL_CREDIT < MAX_BUFFERED_RESPONSE
        while not slow.closed:
            slow.take()
            await settled()
        assert slow.body == b"".join(bytes([each % 256]) * 10_000 for each in range(800))
        assert not slow.aborted


async def test_a_cut_fails_what_waits_and_ends_what_streams() -> None:
    site, watch, half = Site(), Slow(open_wide=True), Slow()
    async with tunnel(site) as pair:
        await watching(pair.hub, watch)
        site.sinks[0].write(b"seen\n")
        await until(lambda: watch.body)
        long = await pair.hub.handle(Request("GET", "/long"))
        assert isinstance(long, StreamResponse)
        long.start(half)
        late = await pair.hub.handle(Request("GET", "/watch"))
        asked = asyncio.create_task(pair.hub.handle(Request("GET", "/wait")))
        await until(lambda: len(site.seen) == 4)
        pair.cut()
        with pytest.raises(Unavailable) as caught:
            await asked
        assert caught.value.to_status()["message"] == 'worker "w1" is not connected'
        assert (caught.value.status_code, caught.value.retry_after) == (503, 1)
        assert (watch.closed, watch.aborted, watch.body) == (True, False, b"seen\n")
        assert half.aborted, "a body cut short must not look whole"
        sink = Slow(open_wide=True)
        assert isinstance(late, StreamResponse)
        late.start(sink)
        assert (sink.closed, sink.aborted) == (True, False)
        await until(lambda: site.closed == 2 and site.cancelled == 1)
        with pytest.raises(Unavailable, match='worker "w1" is not connected'):
            await pair.hub.handle(Request("GET", "/"))
        assert pair.lost == [pair.hub]


async def test_what_the_worker_gives_up_is_broken_for_the_client() -> None:
    site, sink = Site(), Slow(open_wide=True)
    async with tunnel(site) as pair:
        await watching(pair.hub, sink)
        site.sinks[0].abort()
        await until(lambda: sink.aborted)
        assert await whole(pair.hub, Request("GET", "/")) == (201, b"GET ")


async def test_a_head_request_leaves_no_stream_behind() -> None:
    site = Site()
    async with tunnel(site) as pair:
        answer = await pair.hub.handle(Request("HEAD", "/watch"))
        assert answer.status == 200
        await until(lambda: site.closed == 1)


async def ticks(clock: FakeClock, count: int) -> None:
    for _ in range(count):
        clock.step(PING_SECONDS)
        await settled()


async def test_an_answer_nobody_starts_is_given_up() -> None:
    site, clock = Site(), FakeClock()
    async with tunnel(site, clock) as pair:
        assert isinstance(await pair.hub.handle(Request("GET", "/watch")), StreamResponse)
        kept = Slow(open_wide=True)
        await watching(pair.hub, kept)
        await ticks(clock, 4)
        assert (site.sinks[0].closed, site.sinks[1].closed) == (True, False)


async def test_a_silent_peer_is_noticed_and_a_quiet_one_kept() -> None:
    clock = FakeClock()
    async with tunnel(Site(), clock) as pair:
        await ticks(clock, 3 * MAX_MISSED_PINGS)
        assert pair.lost == []
        pair.sockets[1].transport.pause_reading()  # the worker hears and says nothing any more
        await ticks(clock, MAX_MISSED_PINGS - 1)
        assert pair.lost == []
        await ticks(clock, 2)
        assert pair.lost == [pair.hub]


async def test_a_tunnel_whose_pings_fail_is_cut() -> None:
    clock = FakeClock()
    async with tunnel(Site(), clock) as pair:

        def fail() -> None:
            raise KeyError("a defect")

        pair.hub._connection.ping_handlers.append(fail)
        await ticks(clock, 1)
        assert pair.lost == [pair.hub]
