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
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

SECRET_BYTES = 32


def generate_secret() -> bytes:
    """Returns the secret number of a new private key."""
    return generate_private_key(SECP256R1()).private_numbers().private_value.to_bytes(SECRET_BYTES, "big")


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
    """A private key, given its secret number. Raises ValueError for a number that is none."""

    def __init__(self, secret: bytes) -> None:
        self._private = derive_private_key(int.from_bytes(secret, "big"), SECP256R1())
        super().__init__(self._private.public_key())

    def sign(self, data: bytes) -> bytes:
        r, s = decode_dss_signature(self._private.sign(data, ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@lru_cache(maxsize=256)
def load_private_key(secret: bytes) -> PrivateKey:
    return PrivateKey(secret)


def public_key_of_pem(pem: bytes) -> bytes:
    """Returns the public key, as DER, of a private key on P-256. Raises ValueError for anything else."""
    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise ValueError("not an EC key on P-256")
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@lru_cache(maxsize=256)
def load_public_key(der: bytes) -> PublicKey:
    """Raises ValueError for a key that is not on P-256."""
    key = load_der_public_key(der)
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise ValueError("not an EC key on P-256")
    return PublicKey(key)
