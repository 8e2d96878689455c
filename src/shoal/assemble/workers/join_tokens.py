"""Join tokens, and the hub's certificate authority by its hash: what a person carries from one machine to the other.

The hash is kubeadm's: `sha256:` and the digest of the authority's public key. With it, the first connection needs no
other trust.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import ssl

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import rfc3339
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import ShoalError

SECRETS = GroupVersionResource("", "v1", "secrets")
MAX_CA_BYTES = 64 * 1024
FETCH_SECONDS = 15.0
SHORT_TOKEN_SECONDS = 600.0
"""The lifetime of a token that is used at once: with an administrator's kubeconfig, or by a hub for its own
processes.
"""


class JoinError(ShoalError):
    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint, self.exit_code = hint, exit_code


async def create_token(
    hub: Client, now: float, seconds: float, *, worker: str = "", location: str = "", reusable: bool = False
) -> str:
    """Returns the token in the form a user types."""
    id_, secret = _random_letters(worker_join.ID_LENGTH), _random_letters(worker_join.SECRET_LENGTH)
    body = worker_join.new_token_secret((id_, secret), rfc3339(now + seconds), worker, location, reusable)
    await hub.create(SECRETS, body, worker_join.TOKEN_NAMESPACE)
    return f"{id_}.{secret}"


def _random_letters(count: int) -> str:
    return "".join(secrets.choice(worker_join.TOKEN_ALPHABET) for _ in range(count))


def ca_cert_hash(certificate: str) -> str:
    """Takes a PEM certificate. Raises ValueError if it is not one."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    public = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(public).hexdigest()}"


def matches_ca_cert_hash(certificate: str, expected_hash: str) -> bool:
    try:
        return hmac.compare_digest(ca_cert_hash(certificate), expected_hash)
    except ValueError:
        return False


async def fetch_ca(hub: str, expected_hash: str) -> str:
    """Returns the CA certificate of a hub as PEM if it has the expected hash. Until then the connection is not trusted
    and nothing is sent over it.
    """
    # A hub creates tokens without the network, so the client is loaded on demand.
    from shoal.client.https import HttpsTransport  # noqa: PLC0415

    unverified_tls = ssl.create_default_context()
    unverified_tls.check_hostname, unverified_tls.verify_mode = False, ssl.CERT_NONE
    transport = HttpsTransport(hub, unverified_tls, FETCH_SECONDS)
    try:
        status, _, body = await transport.request("GET", worker_join.CA_PATH, "", {}, b"")
    finally:
        await transport.close()
    if status != 200 or len(body) > MAX_CA_BYTES:
        raise JoinError(f"{hub} is not a Shoal hub: it does not serve {worker_join.CA_PATH}", exit_code=3)
    certificate = body.decode("ascii", errors="replace")
    if not matches_ca_cert_hash(certificate, expected_hash):
        raise JoinError(
            f"{hub} is not the hub of the token: the hash of its certificate authority is not {expected_hash}",
            "the connection may be intercepted; compare with: shoal join-token create",
            exit_code=4,
        )
    return certificate
