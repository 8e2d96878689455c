"""The certificate authority of a Shoal directory: serving and client certificates, and the TLS context.

`ca.crt`, `ca.key` are the authority; `serving.pem` holds the serving key and certificate in one file, so
that they change together, and `serving.json` says what it covers and until when. With it a second start
reads files and makes nothing: `cryptography` is only imported to issue.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.clock import Clock, SystemClock
from shoal.objects.errors import ShoalError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

DAY = 86_400.0
CA_LIFETIME = 3650 * DAY
LEAF_LIFETIME = 365 * DAY
RENEW_BEFORE = 30 * DAY
_SKEW = 300.0
"""Certificates begin this early, for clients whose clock is behind."""


class CertificateError(ShoalError):
    """The authority's files cannot be used."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key as PEM, and its end in seconds since the epoch."""

    certificate: bytes
    key: bytes
    not_after: float


class Authority:
    """The CA in a directory, made at the first use."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self.directory = directory
        self._clock = clock or SystemClock()
        self._signer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory):
            if not (directory / "ca.crt").exists():
                self._create()

    @property
    def certificate(self) -> bytes:
        """The CA certificate as PEM: what a kubeconfig trusts."""
        return (self.directory / "ca.crt").read_bytes()

    def ensure_serving(self, names: Iterable[str]) -> bool:
        """Makes `serving.pem` cover the DNS names and IP addresses; whether a new one was issued.

        One that covers them is kept until 30 days before its end.
        """
        wanted = {_canonical(name) for name in names}
        with _locked(self.directory):
            if self._covers(wanted):
                return False
            issued = self._issue_serving(sorted(wanted))
            chain = issued.key + issued.certificate
            about = {"names": sorted(wanted), "notAfter": issued.not_after, "of": self._fingerprint(chain)}
            _replace(self.directory / "serving.pem", chain, 0o600)
            _replace(self.directory / "serving.json", json.dumps(about).encode(), 0o644)
        return True

    def issue_client(
        self,
        common_name: str,
        organizations: Iterable[str] = (),
        *,
        cluster: str = "",
        uid: str = "",
        ttl: float = LEAF_LIFETIME,
    ) -> Issued:
        """A certificate for a user: CN is its name, each O a group, its URI the cluster it is for (`home_uri`)."""
        from cryptography import x509  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        uris: list[x509.GeneralName] = [x509.UniformResourceIdentifier(home_uri(cluster, uid))] if cluster else []
        return self._issue(x509.Name(subject), uris, ExtendedKeyUsageOID.CLIENT_AUTH, ttl)

    def sign_request(self, request: bytes, cluster: str, uid: str, ttl: float, usages: Sequence[str]) -> bytes:
        """A certificate for the key and names of a PKCS #10 request, all as PEM. ValueError: it is not sound.

        Of its alternative names the URIs are left out: the one that says where it is good for is ours to give.
        """
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

        asked = x509.load_pem_x509_csr(request)
        if not asked.is_signature_valid:
            raise ValueError("it is not signed by its own key")
        try:
            names = list(asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        except x509.ExtensionNotFound:
            names = []
        kept: list[x509.GeneralName] = [
            name for name in names if isinstance(name, x509.DNSName | x509.IPAddress | x509.RFC822Name)
        ]
        kept.append(x509.UniformResourceIdentifier(home_uri(cluster, uid)))
        extended = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}
        authority, signer = self._load()
        now = self._clock.now()
        end = min(now + ttl, authority.not_valid_after_utc.timestamp())
        usage = _key_usage(signs_certificates=False, encrypts_keys="key encipherment" in usages)
        certificate = (
            _builder(asked.subject, authority.subject, asked.public_key(), now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([extended[each] for each in usages if each in extended]), critical=False
            )
            .add_extension(_authority_key(authority), critical=False)
            .add_extension(x509.SubjectAlternativeName(kept), critical=False)
            .sign(signer, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def _issue_serving(self, names: list[str]) -> Issued:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

        addresses = {name: _address(name) for name in names}
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(address) if address else x509.DNSName(name) for name, address in addresses.items()
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shoal")])
        return self._issue(subject, alternatives, ExtendedKeyUsageOID.SERVER_AUTH, LEAF_LIFETIME)

    def _issue(
        self, subject: x509.Name, alternatives: list[x509.GeneralName], usage: x509.ObjectIdentifier, ttl: float
    ) -> Issued:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        authority, signer = self._load()
        now = self._clock.now()
        end = min(now + ttl, authority.not_valid_after_utc.timestamp())
        if end <= now:
            raise CertificateError(f"no certificate can be issued for {ttl:g} seconds from now")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, authority.subject, key.public_key(), now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_authority_key(authority), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(signer, hashes.SHA256())
        return Issued(certificate.public_bytes(serialization.Encoding.PEM), _pem(key), end)

    def _create(self) -> None:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.x509.oid import NameOID  # noqa: PLC0415

        now = self._clock.now()
        key = ec.generate_private_key(ec.SECP256R1())
        # Two authorities of one name confuse whoever trusts both.
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"shoal-ca-{os.urandom(4).hex()}")])
        certificate = (
            _builder(name, name, key.public_key(), now, now + CA_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        # The certificate last: an authority without one is made anew.
        _replace(self.directory / "ca.key", _pem(key), 0o600)
        _replace(self.directory / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM), 0o644)

    def _load(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        if self._signer is None:
            try:
                certificate = x509.load_pem_x509_certificate(self.certificate)
                key = serialization.load_pem_private_key((self.directory / "ca.key").read_bytes(), password=None)
            except (OSError, ValueError) as error:
                raise CertificateError(f"the certificate authority in {self.directory} is unusable: {error}") from error
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
                raise CertificateError(f"ca.key in {self.directory} is not the key of its ca.crt")
            self._signer = certificate, key
        return self._signer

    def _covers(self, wanted: set[str]) -> bool:
        try:
            about = json.loads((self.directory / "serving.json").read_bytes())
            chain = (self.directory / "serving.pem").read_bytes()
            covered, not_after, of = set(about["names"]), float(about["notAfter"]), about["of"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        lasts = not_after - self._clock.now() >= RENEW_BEFORE
        return lasts and wanted <= covered and of == self._fingerprint(chain)

    def _fingerprint(self, chain: bytes) -> str:
        """Ties `serving.json` to one serving certificate of one authority."""
        return hashlib.sha256(self.certificate + chain).hexdigest()


def home_uri(cluster: str, uid: str) -> str:
    """Where a certificate is good for: in the logical cluster of that uid, not in a later one of the name. Root is
    always the same one, and needs none."""
    return f"shoal://{cluster}#{uid}" if uid else f"shoal://{cluster}"


def server_context(directory: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS for `serving.pem`; a client may show a certificate, and then it must be of `client_ca` (`ca.crt`)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would carry a client certificate past its end.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_cert_chain(directory / "serving.pem")
        context.load_verify_locations(client_ca or directory / "ca.crt")
    except OSError as error:
        raise CertificateError(f"the serving certificate in {directory} is unusable: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, now: float, end: float
) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now, UTC) - timedelta(seconds=_SKEW))
        .not_valid_after(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool, encrypts_keys: bool = False) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=encrypts_keys,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509  # noqa: PLC0415

    known = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _canonical(name: str) -> str:
    return str(_address(name) or name.lower())


def _replace(path: Path, content: bytes, mode: int) -> None:
    """The whole file or none of it. Only called under the lock, so one temporary name is enough."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Two processes that start in one directory make one authority."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
