"""JWT signatures with ECDSA on P-256 and SHA-256 (ES256).

Imports `cryptography`, which is slow to import. Callers import this module late.
"""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

from shoal.objects.errors import ShoalError


def generate_key() -> bytes:
    """Returns a new private key as PEM."""
    return generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class PublicKey:
    def __init__(self, key: EllipticCurvePublicKey) -> None:
        self._public = key

    def verify(self, data: bytes, signature: bytes) -> bool:
        if len(signature) != 64:
            return False
        der = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
        try:
            self._public.verify(der, data, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    def public_der(self) -> bytes:
        return self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def coordinates(self) -> tuple[bytes, bytes]:
        """The public key as a point of the curve."""
        numbers = self._public.public_numbers()
        return numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")


class PrivateKey(PublicKey):
    """A private key."""

    def __init__(self, pem: bytes) -> None:
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as problem:
            raise ShoalError(f"the service account key cannot be read: {problem}") from problem
        if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
            raise ShoalError("the service account key must be an EC key on P-256")
        super().__init__(key.public_key())
        self._private = key

    def sign(self, data: bytes) -> bytes:
        r, s = decode_dss_signature(self._private.sign(data, ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@lru_cache(maxsize=256)
def load_public_key(der: bytes) -> PublicKey:
    """Raises ValueError for a key that is not on P-256."""
    key = load_der_public_key(der)
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise ValueError("not an EC key on P-256")
    return PublicKey(key)
