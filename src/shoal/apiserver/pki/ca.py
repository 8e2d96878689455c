"""The certificate authority in a data directory: serving and client certificates, and the TLS context.

`ca.crt` and `ca.key` are the authority. Further certificates in `ca.crt` are trusted as well, so that the authority can
be replaced. `serving.pem` holds serving key and certificate in one file, so that they change together. `serving.json`
records which names it covers and when it expires, so a second start reads files and issues nothing. `pki.sign`, which
imports `cryptography`, is imported only to issue.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.clock import Clock, SystemClock
from shoal.objects.errors import ShoalError

if TYPE_CHECKING:
    from shoal.apiserver.pki.sign import CertificateSigner

DAY = 86_400.0
CA_LIFETIME = 3650 * DAY
LEAF_LIFETIME = 365 * DAY
RENEW_BEFORE = 30 * DAY


class CertificateError(ShoalError):
    """The files of the authority are unusable."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate and its key as PEM, and its expiry in seconds since the epoch."""

    certificate: bytes
    key: bytes
    not_after: float


class CertificateAuthority:
    """The CA in a directory, created on first use."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self.directory = directory
        self._clock = clock or SystemClock()
        self._loaded: tuple[bytes, CertificateSigner] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        with _directory_lock(directory):
            if not (directory / "ca.crt").exists():
                self._create()

    @property
    def certificate(self) -> bytes:
        """The CA certificate as PEM, as trusted by a kubeconfig."""
        return (self.directory / "ca.crt").read_bytes()

    def check_usable(self) -> None:
        """Raises CertificateError if the CA cannot sign."""
        self._signer()

    def ensure_serving_certificate(self, names: Iterable[str]) -> bool:
        """Makes `serving.pem` cover the DNS names and IP addresses. Returns whether a new certificate was issued.

        An existing certificate that covers them is kept until 30 days before its expiry, including one placed there by
        an administrator.
        """
        required_names = {_canonical_name(name) for name in names}
        with _directory_lock(self.directory):
            if self._covers(required_names) or (self._adopt_external_certificate() and self._covers(required_names)):
                return False
            issued = self._issue(
                lambda signer, now, end: signer.issue_serving(sorted(required_names), now, end), LEAF_LIFETIME
            )
            chain = issued.key + issued.certificate
            _write_atomically(self.directory / "serving.pem", chain, 0o600)
            self._write_metadata(chain, sorted(required_names), issued.not_after)
        return True

    def issue_client(
        self,
        common_name: str,
        organizations: Iterable[str] = (),
        *,
        cluster: str = "",
        uid: str = "",
        ttl: float = LEAF_LIFETIME,
    ) -> IssuedCertificate:
        """Issues a certificate for a user: CN is the user name, each O a group, the URI the logical cluster it is valid
        in (`cluster_uri`).
        """
        uri = cluster_uri(cluster, uid) if cluster else ""
        return self._issue(lambda signer, now, end: signer.issue_client(common_name, organizations, uri, now, end), ttl)

    def sign_request(self, request: bytes, cluster: str, uid: str, ttl: float, usages: Sequence[str]) -> bytes:
        """Issues a certificate for the key and names of a PKCS #10 request, all as PEM. Raises ValueError for an
        unsound request.

        URIs among its alternative names are dropped: only the server sets the URI that names the cluster.
        """
        now, signer = self._clock.now(), self._signer()
        return signer.sign_csr(request, cluster_uri(cluster, uid), usages, now, min(now + ttl, signer.not_after))

    def _issue(
        self, make: Callable[[CertificateSigner, float, float], tuple[bytes, bytes]], ttl: float
    ) -> IssuedCertificate:
        now, signer = self._clock.now(), self._signer()
        end = min(now + ttl, signer.not_after)
        if end <= now:
            raise CertificateError(f"cannot issue a certificate that is valid for {ttl:g} seconds from now")
        certificate, key = make(signer, now, end)
        return IssuedCertificate(certificate, key, end)

    def _create(self) -> None:
        from shoal.apiserver.pki.sign import new_ca  # noqa: PLC0415

        now = self._clock.now()
        certificate, key = new_ca(now, now + CA_LIFETIME)
        # The certificate is written last: an authority without one is created anew.
        _write_atomically(self.directory / "ca.key", key, 0o600)
        _write_atomically(self.directory / "ca.crt", certificate, 0o644)

    def _signer(self) -> CertificateSigner:
        from shoal.apiserver.pki.sign import CertificateSigner, KeyMismatch  # noqa: PLC0415

        certificate = self.certificate
        if self._loaded is None or self._loaded[0] != certificate:
            try:
                self._loaded = certificate, CertificateSigner(certificate, (self.directory / "ca.key").read_bytes())
            except KeyMismatch as error:
                raise CertificateError(f"ca.key in {self.directory} does not match ca.crt") from error
            except (OSError, ValueError) as error:
                raise CertificateError(f"the certificate authority in {self.directory} is unusable: {error}") from error
        return self._loaded[1]

    def _adopt_external_certificate(self) -> bool:
        """Accepts a serving certificate that was placed in the directory, if this authority issued it. Returns whether
        it did.
        """
        try:
            chain = (self.directory / "serving.pem").read_bytes()
            metadata = json.loads((self.directory / "serving.json").read_bytes())
            if metadata["of"] == self._fingerprint(chain):
                return False
            names, not_after = self._signer().inspect_serving(chain)
        except (OSError, ValueError, KeyError, TypeError, CertificateError):
            return False
        self._write_metadata(chain, sorted(names), not_after)
        return True

    def _write_metadata(self, chain: bytes, names: list[str], not_after: float) -> None:
        metadata = {"names": names, "notAfter": not_after, "of": self._fingerprint(chain)}
        _write_atomically(self.directory / "serving.json", json.dumps(metadata).encode(), 0o644)

    def _covers(self, required_names: set[str]) -> bool:
        try:
            metadata = json.loads((self.directory / "serving.json").read_bytes())
            chain = (self.directory / "serving.pem").read_bytes()
            covered, not_after, of = set(metadata["names"]), float(metadata["notAfter"]), metadata["of"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        lasts = not_after - self._clock.now() >= RENEW_BEFORE
        return lasts and required_names <= covered and of == self._fingerprint(chain)

    def _fingerprint(self, chain: bytes) -> str:
        """Ties `serving.json` to one serving certificate of one authority."""
        return hashlib.sha256(self.certificate + chain).hexdigest()


def cluster_uri(cluster: str, uid: str) -> str:
    """The URI that binds a certificate to the logical cluster of that uid, and not to a later cluster of the same name.
    Root needs no uid, because it is always the same cluster.
    """
    return f"shoal://{cluster}#{uid}" if uid else f"shoal://{cluster}"


def server_tls_context(directory: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS context for `serving.pem`. A client certificate is optional and must be issued by `client_ca` (default
    `ca.crt`).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would keep a client certificate valid after its expiry.
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


def _canonical_name(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _write_atomically(path: Path, content: bytes, mode: int) -> None:
    """Writes the whole file or nothing. Called only under the lock, so one temporary name is enough."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """Locks the directory, so that two processes that start in it create one authority."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
