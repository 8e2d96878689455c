"""Arbitrary input from the other side: no exception, no log above a warning, and little memory."""

from __future__ import annotations

import asyncio
import logging
import socket
from logging.handlers import BufferingHandler

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.clock import FakeClock
from shoal.fleet.tunnel.frames import (
    DATA,
    END,
    HEAD,
    INITIAL_CREDIT,
    OPEN,
    PING,
    PONG,
    RESET,
    WINDOW,
    encode,
    encode_head,
    encode_open,
    encode_window,
)
from shoal.fleet.tunnel.hub_end import HubTunnel
from shoal.fleet.tunnel.paths import HostedPath
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.fleet.tunnel.worker_end import WorkerTunnel
from shoal.objects.errors import Unavailable
from shoal.objects.wire import Answer, Request, Response, Sink, StreamResponse
from tests.fleet.tunnel.socket_pair import Slow

EAST = HostedPath("default", "east", "")


class Wire:
    def __init__(self) -> None:
        self.written = 0
        self.over = False

    def write(self, data: bytes) -> None:
        assert not self.over
        self.written += len(data)

    def close(self) -> None:
        self.over = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


streams = st.integers(1, 6)
CONNECTION = Request("CONNECT", "/managedclusters/default/east")
payloads = st.binary(max_size=40) | st.just(bytes(INITIAL_CREDIT))
frames = st.one_of(
    st.builds(lambda at, body: encode(OPEN, at, encode_open(Request("GET", "/", body=body))), streams, payloads),
    st.builds(lambda stream: encode(OPEN, stream, encode_open(Request("GET", "/watch"))), streams),
    st.builds(lambda stream: encode(OPEN, stream, encode_open(CONNECTION)), streams),
    st.builds(lambda stream: encode(HEAD, stream, encode_head(404, "", (), 0)), streams),
    st.builds(
        lambda stream, length: encode(HEAD, stream, encode_head(200, "", (("a\r\nb", "c"),), length)),
        streams, st.none() | st.integers(0, 100) | st.just(1 << 30),
    ),
    st.builds(lambda stream, data: encode(DATA, stream, data), streams, payloads),
    st.builds(lambda kind, stream: encode(kind, stream), st.sampled_from([END, RESET]), streams),
    st.builds(encode_window, streams, st.integers(0, 0xFFFFFFFF)),
    st.builds(lambda kind, data: encode(kind, 0, data), st.sampled_from([PING, PONG]), payloads),
    st.builds(lambda kind, data: encode(kind, 1, data), st.sampled_from([OPEN, HEAD, WINDOW]), st.binary(max_size=20)),
    st.binary(max_size=20),
)  # fmt: skip


def quiet(work: object) -> None:
    listener = BufferingHandler(1000)
    listener.setLevel(logging.ERROR)
    logging.getLogger().addHandler(listener)
    try:
        asyncio.run(work)  # type: ignore[arg-type]
    finally:
        logging.getLogger().removeHandler(listener)
    assert listener.buffer == []


@settings(max_examples=300)
@given(st.lists(frames, max_size=15))
def test_the_hub_survives_any_worker(sent: list[bytes]) -> None:
    async def run() -> None:
        lost: list[HubTunnel] = []
        hub, wire = HubTunnel("w1", FakeClock(), lost.append), Wire()
        receiver = hub.start(wire)

        async def ask(number: int) -> None:
            try:
                answer = await hub.handle(Request("GET", "/", body=bytes(number * 1000)))
            except Unavailable:
                return
            assert all("\n" not in name for name, _ in answer.headers)
            if isinstance(answer, StreamResponse):
                sinks.append(Slow())
                answer.start(sinks[-1])

        sinks: list[Slow] = []
        asked = [asyncio.ensure_future(ask(number)) for number in range(4)]
        await asyncio.sleep(0)
        clients: list[socket.socket] = []
        closed: list[None] = []
        for _ in range(2):
            client, accepted = socket.socketpair()
            accepted.setblocking(False)
            client.send(b"hello")
            clients.append(client)
            (await hub.connector(EAST))(accepted, "", lambda: closed.append(None))
        for data in sent:
            receiver.data_received(data)
            await asyncio.sleep(0)
        assert all(sink.pending_bytes <= 2 * INITIAL_CREDIT for sink in sinks)
        receiver.connection_lost(None)
        await asyncio.gather(*asked)
        assert all(sink.closed for sink in sinks)
        assert lost == [hub]
        while len(closed) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for client in clients:
            client.close()

    quiet(run())


@settings(max_examples=300)
@given(st.lists(frames, max_size=15))
def test_the_worker_survives_any_hub(sent: list[bytes]) -> None:
    async def run() -> None:
        opened: list[Sink] = []

        def handler(request: Request) -> Answer:
            if request.path != "/watch":
                return Response(200, request.body)
            return StreamResponse(200, opened.append)

        async def connector(target: HostedPath) -> SocketHandler:
            return lambda sock, client, on_closed: sockets.append(sock)

        sockets: list[socket.socket] = []
        worker, wire = WorkerTunnel("w1", handler, FakeClock(), connector), Wire()
        receiver = worker.start(wire)
        for data in sent:
            receiver.data_received(data)
            await asyncio.sleep(0)
            for sink in opened:
                sink.write(b"event")
        receiver.connection_lost(None)
        await worker.wait_ended()
        assert all(sink.closed for sink in opened)
        for sock in sockets:
            sock.close()
        while worker._connect_tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not worker._raw_connections

    quiet(run())
