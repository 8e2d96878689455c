"""AES-256-GCM with a key derived by HKDF.

Imports `cryptography`, which takes its time and memory: who has no key file does without.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Cipher:
    def __init__(self, key: bytes, salt: bytes) -> None:
        self._cipher = AESGCM(HKDF(SHA256(), len(key), salt, b"shoal values").derive(key))

    def encrypt(self, nonce: bytes, value: bytes, place: bytes) -> bytes:
        """`place` is authenticated with it."""
        return self._cipher.encrypt(nonce, value, place)

    def decrypt(self, nonce: bytes, sealed: bytes, place: bytes) -> bytes:
        """ValueError: it is not of this key, nonce and place."""
        try:
            return self._cipher.decrypt(nonce, sealed, place)
        except InvalidTag:
            raise ValueError from None
