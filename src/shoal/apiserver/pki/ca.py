"""The server's certificate authority in a data directory, its serving certificate, and the TLS context.

`ca.crt` and `ca.key` are the authority. It signs the serving certificate and nothing else: certificates for anybody in
a logical cluster are signed by that cluster's own authority (`cluster_keys`). Clients also trust further certificates
in `ca.crt`, so that the authority can be replaced (`ca_rotation`). `serving.pem` holds serving key and certificate in
one file, so that they change together. `serving.json` records which names it covers and when it expires, so a second
start reads files and issues nothing. `pki.sign`, which imports `cryptography`, is imported only to issue.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
import ssl
from collections.abc import Iterable, Iterator
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
SERVER_NAME = "shoal-server"
"""Every serving certificate covers this name. Clients that ask for it get a certificate of the current authority."""
CROSS_CERTIFICATE = "cross.crt"
"""File with the certificate of the current authority by the former one, during a rotation."""
_STAGED_FILES = "rotation.json"


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
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with directory_lock(directory):
            _make_private(directory)
            apply_staged_files(directory)
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
        required_names = {SERVER_NAME, *map(_canonical_name, names)}
        with directory_lock(self.directory):
            if self._covers(required_names) or (self._adopt_external_certificate() and self._covers(required_names)):
                return False
            issued = self.issue_serving(required_names, LEAF_LIFETIME)
            chain = issued.key + issued.certificate + self._cross_certificate()
            write_atomically(self.directory / "serving.pem", chain)
            self._write_metadata(chain, sorted(required_names), issued.not_after)
        return True

    def issue_serving(self, names: Iterable[str], ttl: float) -> IssuedCertificate:
        now, signer = self._clock.now(), self._signer()
        end = min(now + ttl, signer.not_after)
        if end <= now:
            raise CertificateError(f"cannot issue a certificate that is valid for {ttl:g} seconds from now")
        certificate, key = signer.issue_serving(sorted(set(map(_canonical_name, names))), now, end)
        return IssuedCertificate(certificate, key, end)

    def serving_names(self) -> list[str]:
        """The names of the serving certificate; empty if they are not known."""
        try:
            return list(map(str, json.loads((self.directory / "serving.json").read_bytes())["names"]))
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def replace(self) -> None:
        """Replaces the authority by a new one. Its key is lost."""
        self._create()

    def _create(self) -> None:
        from shoal.apiserver.pki.sign import new_ca  # noqa: PLC0415

        now = self._clock.now()
        certificate, key = new_ca(now, now + CA_LIFETIME)
        # The certificate is written last: an authority without one is created anew.
        write_atomically(self.directory / "ca.key", key)
        write_atomically(self.directory / "ca.crt", certificate)

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
            if metadata.get("cross", "") != self._cross_certificate().decode():
                return False  # issued here, before a rotation began or was finished
            names, not_after = self._signer().inspect_serving(chain)
        except (OSError, ValueError, KeyError, TypeError, CertificateError):
            return False
        self._write_metadata(chain, sorted(names), not_after)
        return True

    def _write_metadata(self, chain: bytes, names: list[str], not_after: float) -> None:
        metadata = {"names": names, "notAfter": not_after, "of": self._fingerprint(chain)}
        cross = self._cross_certificate()
        if cross:
            metadata["cross"] = cross.decode()
        write_atomically(self.directory / "serving.json", json.dumps(metadata).encode())

    def _covers(self, required_names: set[str]) -> bool:
        try:
            metadata = json.loads((self.directory / "serving.json").read_bytes())
            chain = (self.directory / "serving.pem").read_bytes()
            covered, not_after, of = set(metadata["names"]), float(metadata["notAfter"]), metadata["of"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        lasts = not_after - self._clock.now() >= RENEW_BEFORE
        return lasts and required_names <= covered and of == self._fingerprint(chain)

    def _cross_certificate(self) -> bytes:
        file = self.directory / CROSS_CERTIFICATE
        return file.read_bytes() if file.exists() else b""

    def _fingerprint(self, chain: bytes) -> str:
        """Ties `serving.json` to one serving certificate of one authority."""
        return hashlib.sha256(self.certificate + chain).hexdigest()


def cluster_uri(cluster: str, uid: str) -> str:
    """The URI that binds a certificate to the logical cluster of that uid, and not to a later cluster of the same name.
    Root needs no uid, because it is always the same cluster.
    """
    return f"shoal://{cluster}#{uid}" if uid else f"shoal://{cluster}"


def server_tls_context(directory: Path, client_ca: str = "") -> ssl.SSLContext:
    """TLS context for `serving.pem`. A client certificate is optional and must be issued by an authority in `client_ca`
    (PEM).

    While `former-serving.pem` exists, it is served to clients that do not ask for `SERVER_NAME`: they may trust only
    the former authority (`former_ca`).
    """
    context = tls_context(directory / "serving.pem", client_ca)
    former = directory / "former-serving.pem"
    if not former.exists():
        return context
    default_context = tls_context(former, client_ca)

    def select(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name == SERVER_NAME:
            connection.context = context

    default_context.sni_callback = select
    return default_context


def tls_context(chain: Path, client_ca: str) -> ssl.SSLContext:
    """TLS context for a file with key and certificate chain."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would keep a client certificate valid after its expiry.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_cert_chain(chain)
        if client_ca:
            context.load_verify_locations(cadata=client_ca)
    except OSError as error:
        raise CertificateError(f"the serving certificate {chain} is unusable: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_ca_bundle(directory: Path, root_ca: str) -> str:
    """The authorities whose client certificates a server accepts: that of its root, a former one, and one given by
    the operator.
    """
    files = (directory / name for name in ("former-ca.crt", "client-ca.crt"))
    return root_ca + "".join(file.read_text() for file in files if file.exists())


def _canonical_name(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _make_private(directory: Path) -> None:
    """Closes the directory and its files to other users: earlier versions did not."""
    for path in (directory, *directory.iterdir()):
        if path.stat().st_mode & 0o077:
            path.chmod(0o700 if path.is_dir() else 0o600)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes the whole file or nothing. Called only under the lock, so one temporary name is enough."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def stage_files(directory: Path, files: str) -> None:
    """Writes files of the authority, as a JSON object by name, that belong together. Called under the lock."""
    write_atomically(directory / _STAGED_FILES, files.encode())


def apply_staged_files(directory: Path) -> None:
    """Installs staged files, also those of an interrupted process. Called under the lock."""
    staged = directory / _STAGED_FILES
    if staged.exists():
        for name, content in json.loads(staged.read_bytes()).items():
            write_atomically(directory / name, content.encode())
        staged.unlink()


@contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Locks the directory, so that two processes that start in it create one authority."""
    with os.fdopen(os.open(directory / ".lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
