"""Draining and certificate reload: no request is lost."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority, server_tls_context
from shoal.objects.wire import Request, Response, Sink, StreamResponse
from tests.apiserver.http.loopback import GET, Serve, until

ClientTLS = Callable[..., ssl.SSLContext]
POST = b"POST /made HTTP/1.1\r\nHost: shoal\r\nContent-Length: 5\r\n\r\n"


async def test_draining_it_serves_on_and_sends_clients_elsewhere(serve: Serve) -> None:
    site = await serve()
    idle, used = await site.connect(), await site.connect()
    assert "connection" not in (await used.get()).headers
    site.server.drain()
    received = await used.get()
    assert (received.status, received.headers["connection"]) == (200, "close")
    assert await used.rest() == b""
    new = await site.connect()
    assert (await new.get()).headers["connection"] == "close"
    # A client that has not sent its request yet is still answered.
    assert (await idle.get()).status == 200


async def test_requests_that_were_sent_together_are_all_answered_while_it_drains(serve: Serve) -> None:
    site = await serve()
    client = await site.connect()
    site.server.drain()
    client.send(GET % b"/a" + GET % b"/b")
    first, second = await client.receive(), await client.receive()
    assert (first.body, second.body) == (b"GET /a? ", b"GET /b? ")
    assert ("connection" in first.headers, second.headers["connection"]) == (False, "close")


@pytest.mark.parametrize("cut", [10, len(POST), len(POST) + 2])
async def test_a_request_that_has_begun_to_come_is_answered(serve: Serve, cut: int) -> None:
    site = await serve()
    client = await site.connect()
    assert (await client.get()).status == 200
    whole = POST + b"hello"
    client.send(whole[:cut])
    await asyncio.sleep(0.02)
    stopping = asyncio.create_task(site.server.stop(10.0))
    await asyncio.sleep(0.02)
    assert not stopping.done()
    client.send(whole[cut:])
    received = await client.receive()
    assert (received.body, received.headers["connection"]) == (b"POST /made? hello", "close")
    assert await client.rest() == b""
    await stopping


async def test_who_has_connected_may_still_ask(serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS) -> None:
    site = await serve(tls=server_tls)
    fresh, used = await site.connect(client_tls()), await site.connect(client_tls())
    assert (await used.get()).status == 200
    stopping = asyncio.create_task(site.server.stop(10.0, linger_seconds=60.0))
    await asyncio.sleep(0.02)
    with pytest.raises(ConnectionRefusedError):
        await site.connect(client_tls())
    for client in (fresh, used):
        received = await client.get()
        assert (received.status, received.headers["connection"]) == (200, "close")
    # Without connections the server does not wait.
    async with asyncio.timeout(30):
        await stopping


async def test_streams_end_bit_by_bit_and_none_is_cut(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.apiserver.http.server._STREAMS_PER_BATCH", 2)
    sinks: list[Sink] = []
    ended: list[int] = []

    def handler(request: Request) -> StreamResponse:
        def start(sink: Sink) -> None:
            number = len(sinks)
            sinks.append(sink)
            sink.write(b"event")
            sink.on_close(lambda: ended.append(number))

        return StreamResponse(200, start)

    site = await serve(handler)
    clients = [await site.connect() for _ in range(5)]
    for client in clients:
        client.send(GET % b"/")
        assert (await client.head()).status == 200
        assert await client.chunk() == b"event"
    stopping = asyncio.create_task(site.server.stop(20.0))
    await until(lambda: len(ended) == 2)
    assert not stopping.done()
    for client in clients:
        assert await client.chunk() == b""
        assert await client.rest() == b""
    await stopping
    assert sorted(ended) == list(range(5))


async def test_new_connections_get_the_new_certificate_and_old_ones_stay(serve: Serve, tmp_path: Path) -> None:
    old, new = CertificateAuthority(tmp_path / "old"), CertificateAuthority(tmp_path / "new")
    for authority in (old, new):
        authority.ensure_serving_certificate(["localhost"])
    trusting = {each: ssl.create_default_context(cadata=each.certificate.decode()) for each in (old, new)}
    site = await serve(lambda request: Response(200, b"ok"), tls=server_tls_context(old.directory))
    before = await site.connect(trusting[old])
    assert (await before.get()).body == b"ok"
    for _ in range(3):
        site.server.set_ssl_context(server_tls_context(new.directory))
    after = await site.connect(trusting[new])
    assert (await after.get()).body == b"ok"
    assert (await before.get()).body == b"ok"
    with pytest.raises(ssl.SSLCertVerificationError):
        await site.connect(trusting[old])
    await site.server.stop(1.0)
    with pytest.raises(ConnectionRefusedError):
        await site.connect(trusting[new])
