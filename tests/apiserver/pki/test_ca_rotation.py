"""The authority of a data directory is replaced by one that it has cross-signed, under a server that runs."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from shoal.apiserver.pki import ca
from shoal.apiserver.pki.ca import CertificateAuthority, CertificateError
from shoal.apiserver.pki.ca_rotation import begin_rotation, finish_rotation, is_rotating
from shoal.apiserver.pki.sign import CertificateSigner, new_ca
from shoal.assemble.commands import rotate_ca
from shoal.assemble.storage.datadir import DataDirError
from shoal.clock import FakeClock, SystemClock
from tests.apiserver.pki.test_ca import handshake
from tests.apiserver.pki.test_reload import NAMES, Served
from tests.certificates import signer_in

CLOCK = SystemClock()


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path / "pki")
    made.ensure_serving_certificate(NAMES)
    (tmp_path / "pki" / "cluster-keys.key").touch()
    return made


def trusting(authorities: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


async def test_clients_verify_a_running_server_in_every_phase(authority: CertificateAuthority, tmp_path: Path) -> None:
    served, former = Served(authority, FakeClock(CLOCK.now())), authority.certificate
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(f"certificate-authority-data: {base64.b64encode(former).decode()}\n")
    rotate_ca.begin(tmp_path)
    both = authority.certificate
    new = both.removesuffix(former)
    assert both == new + former
    assert len(new) > 100
    assert base64.b64decode(kubeconfig.read_text().split()[1]) == both
    assert (authority.directory / "ca.key").stat().st_mode & 0o777 == 0o600
    for trusted in (former, both):  # before it is reloaded
        handshake(served.context, trusting(trusted), "localhost")
    assert await served.rotation.reload_if_changed()
    assert not await served.rotation.reload_if_changed()
    for trusted in (former, both, new):
        handshake(served.context, trusting(trusted), "localhost")
    assert rotate_ca.finish(tmp_path) == ["the former certificate in ca.crt"]
    assert authority.certificate == new
    assert base64.b64decode(kubeconfig.read_text().split()[1]) == new
    assert await served.rotation.reload_if_changed()
    for trusted in (both, new):
        handshake(served.context, trusting(trusted), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served.context, trusting(former), "localhost")
    assert rotate_ca.finish(tmp_path) == []
    rotate_ca.begin(tmp_path)  # and again


def test_one_rotation_at_a_time(authority: CertificateAuthority) -> None:
    begin_rotation(authority, CLOCK)
    with pytest.raises(CertificateError, match="is being rotated already: finish that first"):
        begin_rotation(authority, CLOCK)


def test_further_certificates_stay(authority: CertificateAuthority) -> None:
    own, further = authority.certificate, new_ca(CLOCK.now(), CLOCK.now() + 3600)[0]
    (authority.directory / "ca.crt").write_bytes(own + further)
    begin_rotation(authority, CLOCK)
    assert authority.certificate.endswith(own + further)
    assert finish_rotation(authority)
    assert authority.certificate.endswith(further)
    assert own not in authority.certificate
    assert not is_rotating(authority.directory)


@pytest.mark.parametrize("written", ["nothing", "ca.key", "cross.crt"])
def test_an_interrupted_rotation_is_completed(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """By the next start, after any of its writes."""
    former, write = authority.certificate, ca.write_atomically
    last = {"nothing": "rotation.json"}.get(written, written)

    def write_until(path: Path, content: bytes) -> None:
        write(path, content)
        if path.name == last:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ca, "write_atomically", write_until)
        with pytest.raises(KeyboardInterrupt):
            begin_rotation(authority, CLOCK)
    again = CertificateAuthority(authority.directory)
    again.check_usable()
    assert again.certificate.endswith(former)
    assert len(again.certificate) > len(former)
    again.ensure_serving_certificate(NAMES)
    handshake(ca.server_tls_context(again.directory), trusting(former), "localhost")
    assert not (authority.directory / "rotation.json").exists()


def test_an_authority_that_allows_none_below_it_is_left_alone(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    cross = signer_in(tmp_path).cross_sign(authority.certificate, CLOCK.now())
    (tmp_path / "ca.crt").write_bytes(cross)
    with pytest.raises(CertificateError, match="its path length allows no other certificate authority below it"):
        begin_rotation(authority, CLOCK)
    assert CertificateSigner(cross, (tmp_path / "ca.key").read_bytes())


def test_an_upgrade_is_finished_first(authority: CertificateAuthority, tmp_path: Path) -> None:
    (authority.directory / "former-ca.crt").write_bytes(authority.certificate)
    with pytest.raises(DataDirError, match="is being replaced after an upgrade"):
        rotate_ca.begin(tmp_path)
    assert rotate_ca.finish(tmp_path) == ["former-ca.crt"]
    rotate_ca.begin(tmp_path)
