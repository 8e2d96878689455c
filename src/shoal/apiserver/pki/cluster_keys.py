"""The keys of each logical cluster: its certificate authority, and the keys that sign its service account tokens.

Each is created on first use, so an unused cluster has none. They are stored with the other objects of the cluster,
encrypted with a key of the data directory, so they move and end with it. No API group can have the name of theirs:
nothing serves them. Both are lists, newest first: the first signs, all of them verify (`key_rotation`).
"""

from __future__ import annotations

import base64
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, WatchCache
from shoal.apiserver.cache.storage_form import encode
from shoal.apiserver.keyed_locks import KeyedLocks
from shoal.apiserver.pki.ca import IssuedCertificate, cluster_uri, directory_lock, write_atomically
from shoal.apiserver.pki.key_rotation import (
    CA,
    SERVICE_ACCOUNT,
    Keys,
    generation_of,
    has_former,
    new_keys,
    rotated_keys,
    without_former,
)
from shoal.apiserver.request.info import ROOT
from shoal.clock import Clock, rfc3339
from shoal.objects.errors import ShoalError
from shoal.store.encrypted.keys import KEY_BYTES, EncryptionError, KeyRing
from shoal.store.interface import CompareFailed, Store

if TYPE_CHECKING:
    from shoal.apiserver.pki.sign import CertificateSigner

log = logging.getLogger("shoal.apiserver")

KEYS_RESOURCE = "_shoal/keys"
"""The first part of their store keys. An API group does not begin with an underscore."""
KEY_ENCRYPTION_FILE = "cluster-keys.key"
MAX_LOADED = 4_096
"""Key sets that are kept decrypted."""
_TYPE_META = {"apiVersion": "_shoal/v1", "kind": "Keys"}

Object = dict[str, Any]


class ClusterKeys:
    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        key_ring: KeyRing,
        server_ca: str,
        clock: Clock,
        generation: Callable[[str], int] = lambda cluster: 1,
    ) -> None:
        """`key_ring` encrypts the keys. `server_ca` holds the certificates of the server's authority, as PEM.
        `generation` returns the generation that the first keys of a cluster have.
        """
        self._store, self._cache, self._clock, self._generation = store, cache, clock, generation
        self._key_ring, self.server_ca = key_ring, server_ca
        self._resource_cache = cache.resource_cache_by_key(KEYS_RESOURCE)
        self._resource_cache.add_event_handler("*", self._on_change)
        self._loaded: dict[tuple[str, str], Keys] = {}
        self._signers: dict[str, CertificateSigner] = {}
        self._locks = KeyedLocks()
        self._change_handlers: list[Callable[[str, str], None]] = []

    def add_change_handler(self, handler: Callable[[str, str], None]) -> None:
        """The handler gets the cluster and the name of keys that were created or replaced."""
        self._change_handlers.append(handler)

    # --- the certificate authority of a cluster ---

    def ca_bundle(self, cluster: str) -> str:
        """The certificates of the cluster's authority, as PEM. Empty if it has none yet."""
        return "".join(each["certificate"] for each in self._read(cluster, CA))

    def root_ca(self, cluster: str) -> str:
        """The content of `kube-root-ca.crt`. Programs in root use the server's own address."""
        bundle = self.ca_bundle(cluster)
        return bundle + self.server_ca if bundle and cluster == ROOT else bundle

    def root_ca_revision(self, cluster: str) -> int:
        """The revision of the last rotation, which has changed `kube-root-ca.crt`. 0 if there was none."""
        keys, entry = self._read(cluster, CA), self._entry(cluster, CA)
        return entry.revision if entry is not None and keys and generation_of(keys) > 1 else 0

    async def ensure_root_ca(self, cluster: str) -> str:
        """Creates the authority of the cluster if there is none."""
        await self._ensure(cluster, CA)
        return self.root_ca(cluster)

    async def sign_request(
        self,
        request: bytes,
        cluster: str,
        uid: str,
        ttl: float,
        usages: Sequence[str],
        further_uris: Sequence[str] = (),
    ) -> bytes:
        """Issues a certificate of the cluster's authority for the key and names of a PKCS #10 request, all as PEM.
        Raises ValueError for an unsound request.

        URIs among its alternative names are dropped: only the server sets the URI that names the cluster, and others.
        """
        signer, now = await self._signer(cluster), self._clock.now()
        uris = (cluster_uri(cluster, uid), *further_uris)
        return signer.sign_csr(request, uris, usages, now, min(now + ttl, signer.not_after))

    async def issue_serving(self, cluster: str, names: Sequence[str], ttl: float) -> IssuedCertificate:
        """Issues a serving certificate for the cluster's own address, during a rotation with the cross certificate by
        which clients verify it that trust only the former authority.
        """
        signer, now = await self._signer(cluster), self._clock.now()
        end = min(now + ttl, signer.not_after)
        certificate, key = signer.issue_serving(names, now, end)
        cross = str(self._read(cluster, CA)[0].get("cross", ""))
        return IssuedCertificate(certificate + cross.encode(), key, end)

    async def _signer(self, cluster: str) -> CertificateSigner:
        from shoal.apiserver.pki.sign import CertificateSigner  # noqa: PLC0415

        await self._ensure(cluster, CA)
        signer = self._signers.get(cluster)
        if signer is None:
            authority = self._read(cluster, CA)[0]
            signer = CertificateSigner(authority["certificate"].encode(), authority["key"].encode())
            self._signers[cluster] = signer
        return signer

    # --- the keys of its service account tokens ---

    def signing_keys(self, cluster: str) -> tuple[bytes, ...]:
        """Private keys as secret numbers. The first signs, all of them verify. Empty if the cluster has none yet."""
        return tuple(base64.b64decode(each["key"]) for each in self._read(cluster, SERVICE_ACCOUNT))

    async def ensure_signing_key(self, cluster: str) -> None:
        await self._ensure(cluster, SERVICE_ACCOUNT)

    # --- rotation ---

    def generation(self, cluster: str) -> int:
        """The generation that all keys of the cluster have reached. 0 if it has none yet."""
        return min((generation_of(keys) for keys in self._all(cluster)), default=0)

    def has_former(self, cluster: str) -> bool:
        """True if a former authority or a former token key is still trusted."""
        return any(map(has_former, self._all(cluster)))

    def refuses_former_tokens(self, cluster: str) -> bool:
        """True after a finished rotation, also for tokens from before the cluster had keys of its own."""
        keys = self._read(cluster, SERVICE_ACCOUNT)
        return bool(keys) and generation_of(keys) > 1 and not has_former(keys)

    async def rotate(self, cluster: str, generation: int) -> None:
        """Replaces keys of an older generation. What the replaced ones have signed stays valid. Keys that do not exist
        are created on first use.
        """
        for name in (CA, SERVICE_ACCOUNT):
            while (keys := self._read(cluster, name)) and generation_of(keys) < generation:
                await self._write(cluster, name, rotated_keys(name, keys, generation, self._clock.now()))

    async def drop_former(self, cluster: str) -> None:
        """Ends the validity of what former keys have signed."""
        for name in (CA, SERVICE_ACCOUNT):
            while has_former(keys := self._read(cluster, name)):
                await self._write(cluster, name, without_former(keys))

    def _all(self, cluster: str) -> list[Keys]:
        return [keys for name in (CA, SERVICE_ACCOUNT) if (keys := self._read(cluster, name))]

    # --- storage ---

    def _entry(self, cluster: str, name: str) -> CachedObject | None:
        table = self._resource_cache.tables.get(cluster)
        return table.entries.get(f"/{name}") if table is not None else None

    def _read(self, cluster: str, name: str) -> Keys:
        keys = self._loaded.get((cluster, name))
        if keys is None:
            entry = self._entry(cluster, name)
            keys = [] if entry is None else self._decrypt(_store_key(cluster, name), entry.object())
            if len(self._loaded) >= MAX_LOADED:
                self._loaded.clear()
                self._signers.clear()
            self._loaded[cluster, name] = keys
        return keys

    def _decrypt(self, key: str, obj: Object) -> Keys:
        """Keys that cannot be decrypted count as missing: the data directory was restored without its own keys."""
        try:
            plain = self._key_ring.decrypt(key, base64.b64decode(obj["encrypted"]))
            return list(orjson.loads(plain))
        except (EncryptionError, ValueError, KeyError):
            log.warning("cannot decrypt %s; new keys are created when they are needed", key)
            return []

    async def _ensure(self, cluster: str, name: str) -> None:
        if self._read(cluster, name):
            return
        await self._locks.acquire((cluster, name))
        try:
            while not self._read(cluster, name):
                await self._write(cluster, name, new_keys(name, self._generation(cluster), self._clock.now()))
        finally:
            self._locks.release((cluster, name))

    async def _write(self, cluster: str, name: str, keys: Keys) -> None:
        """Returns when the cache has the keys, or those of another server that was faster."""
        key = _store_key(cluster, name)
        entry = self._entry(cluster, name)
        metadata = {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": rfc3339(self._clock.now())}
        try:
            revision = await self._store.put(
                key, self._stored_value(key, metadata, keys), 0 if entry is None else entry.revision
            )
        except CompareFailed as conflict:
            revision = conflict.current_revision
        await self._cache.wait_for_revision(revision)

    def _stored_value(self, key: str, metadata: Object, keys: Keys) -> bytes:
        encrypted = base64.b64encode(self._key_ring.encrypt(key, orjson.dumps(keys))).decode()
        return encode({**_TYPE_META, "metadata": metadata, "encrypted": encrypted})

    def _on_change(self, event: CacheEvent) -> None:
        self._loaded.pop((event.cluster, event.latest.name), None)
        self._signers.pop(event.cluster, None)
        for handler in self._change_handlers:
            handler(event.cluster, event.latest.name)

    # --- moving to another server ---

    def export_value(self, key: str, value: bytes) -> bytes:
        """The stored value as another server can import it: with the keys in plain text."""
        obj = orjson.loads(value)
        return encode({**_TYPE_META, "metadata": obj["metadata"], "keys": self._decrypt(key, obj)})

    def import_value(self, key: str, value: bytes) -> bytes:
        """The value as this server stores it."""
        obj = orjson.loads(value)
        return self._stored_value(key, obj["metadata"], list(obj.get("keys") or ()))


def is_key_entry(key: str) -> bool:
    return key.startswith(f"{KEYS_RESOURCE}/")


def load_key_encryption_key(directory: Path) -> KeyRing:
    """Reads the key of the data directory that encrypts the keys of clusters, and creates it on first use."""
    file = directory / KEY_ENCRYPTION_FILE
    with directory_lock(directory):
        if not file.exists():
            write_atomically(file, base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
    key = base64.b64decode(file.read_bytes())
    if len(key) != KEY_BYTES:
        raise ShoalError(f"{file} must hold {KEY_BYTES} bytes in base64")
    return KeyRing((key,), str(file))


def _store_key(cluster: str, name: str) -> str:
    return f"{KEYS_RESOURCE}/{cluster}//{name}"
