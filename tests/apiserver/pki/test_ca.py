"""The certificate authority: what it issues, when it reissues, and its files."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shoal.apiserver.malloc import tune
from shoal.apiserver.pki.ca import DAY, CertificateAuthority, CertificateError, IssuedCertificate, server_tls_context
from shoal.clock import FakeClock, SystemClock
from tests.certificates import issue_client, signer_in


def serving(authority: CertificateAuthority) -> x509.Certificate:
    return x509.load_pem_x509_certificate((authority.directory / "serving.pem").read_bytes())


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Both sides in memory; raises what the failing side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1]


def client_context(authority: CertificateAuthority, issued: IssuedCertificate | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.directory / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if issued is not None:
        path = authority.directory / "client.pem"
        path.write_bytes(issued.key + issued.certificate)
        context.load_cert_chain(path)
    return context


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    made = CertificateAuthority(tmp_path)
    made.ensure_serving_certificate(["localhost", "127.0.0.1", "::1"])
    return made


def test_keys_are_private_and_nothing_is_left_over(authority: CertificateAuthority) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in authority.directory.iterdir()}
    assert modes.keys() == {"ca.crt", "ca.key", "serving.pem", "serving.json", ".lock"}
    assert set(modes.values()) == {0o600}


def test_authority_certificate(authority: CertificateAuthority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert (usage.critical, usage.value.key_cert_sign, constraints.critical, constraints.value.ca) == (True,) * 4
    assert lifetime.days == 3650


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_serving_certificate_satisfies_a_strict_client(authority: CertificateAuthority, name: str) -> None:
    handshake(server_tls_context(authority.directory), client_context(authority), name)


def test_serving_certificate_is_refused_under_another_name(authority: CertificateAuthority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server_tls_context(authority.directory), client_context(authority), "elsewhere")


def test_client_certificate(authority: CertificateAuthority) -> None:
    issued = issue_client(signer_in(authority.directory), "ann", ["devs", "ops"], cluster="east", uid="u-1", ttl=3600)
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    names = certificate.subject
    assert [each.value for each in names.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["ann"]
    assert [each.value for each in names.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["devs", "ops"]
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.UniformResourceIdentifier) == ["shoal://east#u-1"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds() == 3600 + 300
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


def test_client_is_verified_if_it_shows_a_certificate(authority: CertificateAuthority, tmp_path: Path) -> None:
    server = server_tls_context(authority.directory, authority.certificate.decode())
    issued = issue_client(signer_in(authority.directory), "ann")
    known = handshake(server, client_context(authority, issued), "localhost").getpeercert()
    assert known is not None
    assert known["subject"] == ((("commonName", "ann"),),)
    assert handshake(server, client_context(authority), "localhost").getpeercert() is None
    CertificateAuthority(tmp_path / "other")
    stranger = issue_client(signer_in(tmp_path / "other"), "ann")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client_context(authority, stranger), "localhost")


def test_expired_and_serving_certificates_are_no_client_certificates(tmp_path: Path) -> None:
    clock = FakeClock(SystemClock().now() - 2 * DAY)
    authority = CertificateAuthority(tmp_path, clock)
    authority.ensure_serving_certificate(["localhost"])
    server = server_tls_context(tmp_path, authority.certificate.decode())
    expired = issue_client(signer_in(tmp_path), "ann", ttl=DAY, now=clock.now())
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(server, client_context(authority, expired), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"purpose"):
        handshake(
            server,
            client_context(authority, IssuedCertificate((tmp_path / "serving.pem").read_bytes(), b"", 0)),
            "localhost",
        )


def test_serving_certificate_is_kept_while_it_covers_and_lasts(tmp_path: Path) -> None:
    clock = FakeClock()
    CertificateAuthority(tmp_path, clock).ensure_serving_certificate(["a.example", "10.0.0.1"])
    first = serving(authority := CertificateAuthority(tmp_path, clock)).serial_number
    assert not authority.ensure_serving_certificate(["A.EXAMPLE"])
    clock.step(334 * DAY)
    assert not authority.ensure_serving_certificate(["a.example", "10.0.0.1"])
    assert serving(authority).serial_number == first
    clock.step(2 * DAY)
    assert authority.ensure_serving_certificate(["a.example"])
    assert serving(authority).serial_number != first


def test_serving_certificate_is_reissued_for_a_new_name_file_or_authority(authority: CertificateAuthority) -> None:
    directory = authority.directory
    assert authority.ensure_serving_certificate(["localhost", "new.example"])
    names = serving(authority).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "new.example", "shoal-server"]
    (directory / "serving.pem").write_bytes(b"")
    assert authority.ensure_serving_certificate(["localhost"])
    (directory / "serving.json").write_text(json.dumps({"names": 3}))
    assert authority.ensure_serving_certificate(["localhost"])
    (directory / "ca.crt").unlink()
    assert CertificateAuthority(directory).ensure_serving_certificate(["localhost"])
    handshake(server_tls_context(directory), client_context(authority), "localhost")


def test_leaf_never_outlives_its_authority(tmp_path: Path) -> None:
    clock = FakeClock()
    authority = CertificateAuthority(tmp_path, clock)
    clock.step(3600 * DAY)
    end = x509.load_pem_x509_certificate(authority.certificate).not_valid_after_utc.timestamp()
    assert authority.issue_serving(["localhost"], 365 * DAY).not_after == end
    clock.step(51 * DAY)
    with pytest.raises(CertificateError, match="cannot issue a certificate"):
        authority.issue_serving(["localhost"], 365 * DAY)


def test_unusable_files_are_named(tmp_path: Path) -> None:
    CertificateAuthority(tmp_path / "a")
    CertificateAuthority(tmp_path / "b")
    with pytest.raises(CertificateError, match=r"the serving certificate .* is unusable"):
        server_tls_context(tmp_path / "a")
    (tmp_path / "b" / "ca.key").replace(tmp_path / "a" / "ca.key")
    with pytest.raises(CertificateError, match=r"ca\.key in .* does not match ca\.crt"):
        CertificateAuthority(tmp_path / "a").check_usable()
    with pytest.raises(CertificateError, match=r"the certificate authority in .* is unusable"):
        CertificateAuthority(tmp_path / "b").check_usable()


def test_starts_at_the_same_time_make_one_authority(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: CertificateAuthority(tmp_path).certificate, range(8)))
    assert len(set(made)) == 1
    CertificateAuthority(tmp_path).check_usable()


def test_second_start_imports_no_cryptography(authority: CertificateAuthority) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from shoal.apiserver.pki.ca import CertificateAuthority, server_tls_context\n"
        "directory = Path(sys.argv[1])\n"
        "issued = CertificateAuthority(directory).ensure_serving_certificate(['localhost'])\n"
        "server_tls_context(directory)\n"
        "print(issued, any(name.startswith('cryptography') for name in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(authority.directory)], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "False"]


def test_malloc_options_are_taken_on_glibc_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.confstr", lambda name: None)
    assert tune() is False
    monkeypatch.undo()
    assert tune() is (sys.platform == "linux")
