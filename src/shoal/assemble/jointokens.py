"""Join tokens, and the hub's certificate authority by its hash: what a person carries from one machine to the other.

The hash is kubeadm's: `sha256:` and the digest of the authority's public key. With it, the first connection needs no
other trust.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import ssl

from shoal.client.requests import Client, Kind
from shoal.clock import rfc3339
from shoal.kinds import joining
from shoal.objects.errors import ShoalError

SECRETS = Kind("", "v1", "secrets")
LONGEST_AUTHORITY = 64 * 1024
FETCH_SECONDS = 15.0
SELF_TOKEN_SECONDS = 600.0
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
    id_, secret = _letters(joining.ID_LENGTH), _letters(joining.SECRET_LENGTH)
    body = joining.token_secret((id_, secret), rfc3339(now + seconds), worker, location, reusable)
    await hub.create(SECRETS, body, joining.TOKEN_NAMESPACE)
    return f"{id_}.{secret}"


def _letters(count: int) -> str:
    return "".join(secrets.choice(joining.LETTERS) for _ in range(count))


def authority_hash(certificate: str) -> str:
    """Takes a PEM certificate. Raises ValueError if it is not one."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    public = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(public).hexdigest()}"


def is_of_hash(certificate: str, wanted: str) -> bool:
    try:
        return hmac.compare_digest(authority_hash(certificate), wanted)
    except ValueError:
        return False


async def fetch_authority(hub: str, wanted: str) -> str:
    """Returns the CA certificate of a hub as PEM if it has the expected hash. Until then the connection is not trusted
    and nothing is sent over it.
    """
    # A hub creates tokens without the network, so the client is loaded on demand.
    from shoal.client.https import HttpsTransport  # noqa: PLC0415

    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    transport = HttpsTransport(hub, blind, FETCH_SECONDS)
    try:
        status, _, body = await transport.request("GET", joining.AUTHORITY_PATH, "", {}, b"")
    finally:
        await transport.close()
    if status != 200 or len(body) > LONGEST_AUTHORITY:
        raise JoinError(f"{hub} is no Shoal hub: it has no {joining.AUTHORITY_PATH}", exit_code=3)
    certificate = body.decode("ascii", errors="replace")
    if not is_of_hash(certificate, wanted):
        raise JoinError(
            f"{hub} is not the hub of the token: its certificate authority is not {wanted}",
            "somebody may be between you and the hub; compare with: shoal join-token create",
            exit_code=4,
        )
    return certificate
