"""Serving certificates under a running server: renewed in time, replaced on disk, CA replaced."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import DAY, CertificateAuthority, server_tls_context
from shoal.apiserver.pki.reload import ServingCertReloader
from shoal.clock import FakeClock, SystemClock
from tests.apiserver.pki.test_ca import client_context, handshake, serving

NAMES = ["localhost", "127.0.0.1"]


class Served:
    """What new connections would get."""

    def __init__(self, authority: CertificateAuthority, clock: FakeClock) -> None:
        self._authority = authority
        self.context = self._new_context()
        self.rotation = ServingCertReloader(authority, NAMES, clock, self._new_context, self._renew)

    def _new_context(self) -> ssl.SSLContext:
        return server_tls_context(self._authority.directory)

    def _renew(self, context: ssl.SSLContext) -> None:
        self.context = context


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(SystemClock().now())


@pytest.fixture
def authority(tmp_path: Path, clock: FakeClock) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path / "pki", clock)
    made.ensure_serving_certificate(NAMES)
    return made


async def test_it_is_renewed_before_its_end(authority: CertificateAuthority, clock: FakeClock) -> None:
    served, first = Served(authority, clock), serving(authority)
    assert not await served.rotation.reload_if_changed()
    clock.step(334 * DAY)
    assert not await served.rotation.reload_if_changed()
    clock.step(2 * DAY)
    before = served.context
    assert await served.rotation.reload_if_changed()
    assert served.context is not before
    assert serving(authority).not_valid_after_utc > first.not_valid_after_utc
    assert not await served.rotation.reload_if_changed()


async def test_one_that_somebody_puts_there_is_served_and_kept(
    authority: CertificateAuthority, clock: FakeClock, tmp_path: Path
) -> None:
    served = Served(authority, clock)
    # Another directory of the same authority, as of a tool that issues certificates.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("ca.crt", "ca.key"):
        (elsewhere / name).write_bytes((authority.directory / name).read_bytes())
    tool = CertificateAuthority(elsewhere, clock)
    tool.ensure_serving_certificate([*NAMES, "hub.example.com"])
    (authority.directory / "serving.pem").write_bytes((elsewhere / "serving.pem").read_bytes())
    assert await served.rotation.reload_if_changed()
    handshake(served.context, client_context(authority), "hub.example.com")
    # Another start keeps it as well.
    assert not CertificateAuthority(authority.directory, clock).ensure_serving_certificate(NAMES)
    assert serving(authority) == serving(tool)


@pytest.mark.parametrize("content", [b"", b"nothing of the kind"])
async def test_one_that_cannot_be_used_is_replaced(
    authority: CertificateAuthority, clock: FakeClock, content: bytes
) -> None:
    served = Served(authority, clock)
    (authority.directory / "serving.pem").write_bytes(content)
    assert await served.rotation.reload_if_changed()
    handshake(served.context, client_context(authority), "localhost")


async def test_files_that_are_gone_leave_it_as_it_was(authority: CertificateAuthority, clock: FakeClock) -> None:
    served, trusted = Served(authority, clock), client_context(authority)
    (authority.directory / "ca.crt").rename(authority.directory / "away")
    assert not await served.rotation.reload_if_changed()
    handshake(served.context, trusted, "localhost")


async def test_the_authority_is_replaced_in_two_steps(
    authority: CertificateAuthority, clock: FakeClock, tmp_path: Path
) -> None:
    served = Served(authority, clock)
    old, fresh = authority.certificate, CertificateAuthority(tmp_path / "fresh", clock)
    trusts_old = client_context(authority)
    # First the new one is trusted beside the old one, which still signs.
    (authority.directory / "ca.crt").write_bytes(old + fresh.certificate)
    assert await served.rotation.reload_if_changed()
    handshake(served.context, trusts_old, "localhost")
    trusts_both = client_context(authority)
    # Then it signs, and the old one is trusted still.
    (authority.directory / "ca.key").write_bytes((fresh.directory / "ca.key").read_bytes())
    (authority.directory / "ca.crt").write_bytes(fresh.certificate + old)
    assert await served.rotation.reload_if_changed()
    handshake(served.context, trusts_both, "localhost")
    handshake(served.context, client_context(fresh), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served.context, trusts_old, "localhost")
    # In the end the old one is in no file any more.
    (authority.directory / "ca.crt").write_bytes(fresh.certificate)
    assert await served.rotation.reload_if_changed()
    handshake(served.context, client_context(authority), "localhost")
