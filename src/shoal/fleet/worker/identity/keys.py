"""A worker's key and CertificateSigningRequest. `cryptography` is imported when the first one is created."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from shoal.kinds.fleet import worker_join

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec


def new_key() -> bytes:
    """Returns a new key as PEM."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_csr(key: bytes, worker: str) -> bytes:
    """Returns the request for the worker's own user, as PEM. Raises ValueError if the key is invalid."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, worker_join.WORKERS_GROUP),
        x509.NameAttribute(NameOID.COMMON_NAME, worker_join.user_name(worker)),
    ]
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    return request.sign(_load(key), hashes.SHA256()).public_bytes(Encoding.PEM)


def csr_name(key: bytes, worker: str) -> str:
    """Name of the CertificateSigningRequest: the same for the same key, so that a retry finds the same request."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    public = _load(key).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"worker-{worker}-{hashlib.sha256(public).hexdigest()[:32]}"


def _load(key: bytes) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    private_key = load_pem_private_key(key, password=None)
    if not isinstance(private_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the worker's key is not an EC key")
    return private_key
