"""Encryption at rest between the server and any store: values of some kinds are encrypted, their keys are not.

keys.py   the key file and the form of an encrypted value store.py  a store decorator that encrypts writes and decrypts
reads
"""

from shoal.store.encrypted.keys import KeyRing
from shoal.store.encrypted.store import EncryptedStore

__all__ = ["EncryptedStore", "KeyRing"]
