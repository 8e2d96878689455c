"""Fixtures: servers and clients that are closed with the test."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from shoal.apiserver.http import HTTPLimits, HTTPServer
from shoal.apiserver.pki.ca import CertificateAuthority, server_tls_context
from shoal.objects.wire import Handler
from tests.apiserver.http.loopback import Serve, Site, echo
from tests.certificates import issue_client, signer_in


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture
async def serve(anyio_backend: object) -> AsyncIterator[Serve]:
    sites: list[Site] = []

    async def start(
        handler: Handler | None = None,
        limits: HTTPLimits | None = None,
        tls: ssl.SSLContext | None = None,
        head_handler: Handler | None = None,
    ) -> Site:
        server = HTTPServer(handler or echo, limits=limits or HTTPLimits(), head_handler=head_handler)
        sites.append(Site(server, await server.start("127.0.0.1", 0, tls)))
        return sites[-1]

    yield start
    for site in sites:
        for client in site.clients:
            await client.close()
        await site.server.stop(0.0)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path_factory.mktemp("tls"))
    made.ensure_serving_certificate(["localhost", "127.0.0.1"])
    return made


@pytest.fixture(scope="session")
def server_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return server_tls_context(authority.directory, authority.certificate.decode())


@pytest.fixture
def client_tls(authority: CertificateAuthority, tmp_path: Path) -> Callable[..., ssl.SSLContext]:
    """A client's context that trusts the server, with a certificate of `signer` if one is given."""

    def make(signer: CertificateAuthority | None = None, **subject: object) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.directory / "ca.crt"))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if signer is not None:
            issued = issue_client(signer_in(signer.directory), **subject)  # type: ignore[arg-type]
            (tmp_path / "client.pem").write_bytes(issued.key + issued.certificate)
            context.load_cert_chain(tmp_path / "client.pem")
        return context

    return make
