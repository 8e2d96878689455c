"""TLS: client certificates, streams and large bodies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.apiserver.http import HTTPLimits
from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.objects.wire import Request, Response, Sink, StreamResponse
from tests.apiserver.http.loopback import GET, Serve

pytestmark = pytest.mark.anyio

ClientTLS = Callable[..., ssl.SSLContext]


def echo_identity(request: Request) -> Response:
    return Response(200, repr(request.certificate).encode())


async def test_client_certificate_is_seen(
    serve: Serve, authority: CertificateAuthority, server_tls: ssl.SSLContext, client_tls: ClientTLS
) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(200, b"")

    tls = client_tls(authority, common_name="jürgen", organizations=["system:masters", "devs"], cluster="east")
    client = await (await serve(handler, tls=server_tls)).connect(tls)
    await client.get()
    await client.get()
    certificate = seen[1].certificate
    assert certificate is not None
    assert certificate.common_name == "jürgen"
    assert certificate.organizations == ("system:masters", "devs")
    assert certificate.uris == ("shoal://east",)


async def test_no_certificate_is_fine_and_http_1_1_is_agreed_on(
    serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS
) -> None:
    tls = client_tls()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    client = await (await serve(echo_identity, tls=server_tls)).connect(tls)
    assert (await client.get()).body == b"None"
    assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


async def test_certificate_of_a_foreign_authority_is_refused(
    serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS, tmp_path: Path
) -> None:
    site = await serve(echo_identity, tls=server_tls)
    foreign = client_tls(
        CertificateAuthority(tmp_path / "foreign"), common_name="admin", organizations=["system:masters"]
    )
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await (await site.connect(foreign)).get()
    assert (await (await site.connect(client_tls())).get()).status == 200


async def test_plain_bytes_on_the_tls_port_hurt_nobody(
    serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS
) -> None:
    site = await serve(echo_identity, tls=server_tls)
    plain = await site.connect()
    plain.send(GET % b"/")
    await plain.rest()
    assert (await (await site.connect(client_tls())).get()).status == 200


async def test_large_body_and_stream_through_tls(
    serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS
) -> None:
    sinks: list[Sink] = []
    site = await serve(
        lambda request: (
            StreamResponse(200, sinks.append) if request.path == "/watch" else Response(200, [b"z" * 4000] * 1000)
        ),
        HTTPLimits(max_pending_bytes=200_000),
        server_tls,
    )
    large, slow = await site.connect(client_tls()), await site.connect(client_tls())
    slow.send(GET % b"/watch")
    await slow.head()
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(2000):
        sinks[0].write(b"e" * 50_000)
        await asyncio.sleep(0)
        if sinks[0].closed:
            break
    assert sinks[0].closed
    assert (await large.get(b"/list")).body == b"z" * 4_000_000


async def test_refusal_arrives_although_the_body_was_not_read(
    serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS
) -> None:
    client = await (await serve(limits=HTTPLimits(max_body_bytes=1000), tls=server_tls)).connect(client_tls())
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000)
    assert (await client.receive()).status == 413


async def test_stop_ends_a_tls_stream_properly(serve: Serve, server_tls: ssl.SSLContext, client_tls: ClientTLS) -> None:
    sinks: list[Sink] = []
    site = await serve(lambda _: StreamResponse(200, sinks.append), tls=server_tls)
    client = await site.connect(client_tls())
    client.send(GET % b"/")
    await client.head()
    sinks[0].write(b"bye")
    stopping = asyncio.create_task(site.server.stop(5.0))
    assert (await client.chunk(), await client.chunk(), await client.rest()) == (b"bye", b"", b"")
    await client.close()
    await stopping
