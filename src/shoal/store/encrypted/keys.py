"""The keys of encryption at rest and the form of an encrypted value.

    encrypted = "shoal:enc:v1:" name(16) ":" salt(16) nonce(12) AES-256-GCM(value)

The first key of the file encrypts, all of them decrypt. `name` is derived from the key, so a value names the key it
needs. The store key of the value is authenticated with it: a value that was copied to another key does not decrypt.
Every process encrypts with a key of its own, derived with its salt, so that random nonces never run out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from shoal.objects.errors import StoreError

if TYPE_CHECKING:
    from shoal.store.encrypted.cipher import Cipher

log = logging.getLogger("shoal.store")

ENCRYPTED_PREFIX = b"shoal:enc:v1:"
KEY_BYTES, NAME_DIGITS, SALT_BYTES, NONCE_BYTES = 32, 16, 16, 12
MAX_CACHED_SALTS = 256
OTHER_USERS_MODE = 0o007
_NAME = slice(len(ENCRYPTED_PREFIX), len(ENCRYPTED_PREFIX) + NAME_DIGITS)
_SALT = slice(_NAME.stop + 1, _NAME.stop + 1 + SALT_BYTES)
_NONCE = slice(_SALT.stop, _SALT.stop + NONCE_BYTES)


class EncryptionError(StoreError):
    """A value cannot be decrypted, or a key file cannot be used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class KeyRing:
    def __init__(self, keys: tuple[bytes, ...], key_file: str) -> None:
        self._key_file = key_file
        self._keys = {key_name(key): key for key in keys}
        self.key_names = tuple(self._keys)
        self._salt = os.urandom(SALT_BYTES)
        self._cipher_for = lru_cache(MAX_CACHED_SALTS)(self._derive_cipher)

    @classmethod
    def load(cls, file: Path) -> Self:
        """Reads one key per line, 32 bytes in base64; # starts a comment."""
        try:
            if file.stat().st_mode & OTHER_USERS_MODE:
                log.warning("encryption key file %s is readable by other users; run chmod 600 %s", file, file)
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not text"
            raise EncryptionError(
                f"--encryption-key-file {file} cannot be read: {reason}", "give a file of keys"
            ) from None
        keys = []
        for number, line in enumerate(lines, 1):
            text = line.partition("#")[0].strip()
            if text:
                keys.append(_parse_key(text, f"{file}, line {number}"))
        if not keys:
            raise EncryptionError(f"--encryption-key-file {file} holds no key", _KEY_FILE_HINT)
        return cls(tuple(keys), str(file))

    def encrypt(self, key: str, value: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        name = self.key_names[0]
        ciphertext = self._cipher_for(name, self._salt).encrypt(nonce, value, key.encode())
        return b"%b%b:%b%b%b" % (ENCRYPTED_PREFIX, name.encode(), self._salt, nonce, ciphertext)

    def decrypt(self, key: str, value: bytes) -> bytes:
        """Returns the plain value. A value that is not encrypted is returned as it is."""
        if not value.startswith(ENCRYPTED_PREFIX):
            return value
        name = key_name_of(value)
        if name not in self._keys:
            raise missing_key_error(key, name, f"{self._key_file} holds only {', '.join(self.key_names)}")
        try:
            return self._cipher_for(name, value[_SALT]).decrypt(value[_NONCE], value[_NONCE.stop :], key.encode())
        except ValueError:
            raise EncryptionError(
                f"cannot decrypt {key} with encryption key {name}: the value was altered or copied from another key",
                "shoal fsck finds all such values; restore a backup, or delete the object",
            ) from None

    def uses_write_key(self, value: bytes) -> bool:
        """True if the value is encrypted with the key that encrypts new values."""
        return value.startswith(ENCRYPTED_PREFIX) and key_name_of(value) == self.key_names[0]

    def _derive_cipher(self, name: str, salt: bytes) -> Cipher:
        from shoal.store.encrypted.cipher import Cipher  # noqa: PLC0415

        return Cipher(self._keys[name], salt)


_KEY_FILE_HINT = "make one: (umask 077; head -c 32 /dev/urandom | base64 > keys)"


def key_name(key: bytes) -> str:
    return hmac.new(key, b"shoal key name", hashlib.sha256).hexdigest()[:NAME_DIGITS]


def key_name_of(encrypted_value: bytes) -> str:
    """Returns the name of the key that an encrypted value needs."""
    return encrypted_value[_NAME].decode(errors="replace")


def missing_key_error(key: str, name: str, reason: str) -> EncryptionError:
    return EncryptionError(
        f"{key} is encrypted with the key {name}, but {reason}",
        "give --encryption-key-file with a file that holds that key; a lost key cannot be recovered",
    )


def _parse_key(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise EncryptionError(f"{where}: a key must be {KEY_BYTES} bytes in base64", _KEY_FILE_HINT)
    return key
