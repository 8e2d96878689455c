"""Encryption at rest, between the server and any store: values of some kinds are sealed, their keys are not.

keys.py   the key file, and what a sealed value is
store.py  a store that seals what is written and opens what is read
"""

from shoal.store.encrypted.keys import KeyRing
from shoal.store.encrypted.store import EncryptedStore

__all__ = ["EncryptedStore", "KeyRing"]
