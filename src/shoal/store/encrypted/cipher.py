"""AES-256-GCM with a key derived by HKDF.

Imports `cryptography`, which costs time and memory, so it is loaded only if there is a key file.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Cipher:
    def __init__(self, key: bytes, salt: bytes) -> None:
        self._cipher = AESGCM(HKDF(SHA256(), len(key), salt, b"shoal values").derive(key))

    def encrypt(self, nonce: bytes, value: bytes, associated_data: bytes) -> bytes:
        """`associated_data` is authenticated together with the value."""
        return self._cipher.encrypt(nonce, value, associated_data)

    def decrypt(self, nonce: bytes, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Raises ValueError if key, nonce or associated data do not match."""
        try:
            return self._cipher.decrypt(nonce, ciphertext, associated_data)
        except InvalidTag:
            raise ValueError from None
