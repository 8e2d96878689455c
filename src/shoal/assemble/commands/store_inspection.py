"""Finds problems in the contents of a store, record by record. Pure: no store is touched here.

A problem is something a server cannot serve, or serves wrongly; a note is information. Both have a message and a
remedy. Of an object only its uid and its owners are kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.apiserver.cache.cacher import split_key
from shoal.apiserver.cache.objects import TOMBSTONE
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet import logicalcluster
from shoal.store.encrypted.keys import ENCRYPTED_PREFIX, EncryptionError, KeyRing, key_name_of
from shoal.store.interface import KeyValue

CLUSTERS_KIND = f"{logicalcluster.GROUP}/{logicalcluster.PLURAL}"
MAX_KEYS_SHOWN = 5
"""Keys listed per finding; the others are counted."""
RESTORE_HINT = "restore an earlier backup: shoal restore FILE --force-replace"
SHARED_KINDS = ("core/events",)
"""Served by two groups, stored as one."""


@dataclass(slots=True)
class Finding:
    message: str
    remedy: str
    is_problem: bool = True
    keys: list[str] = field(default_factory=list)
    count: int = 0

    def sentence(self) -> str:
        keys = ", ".join(self.keys)
        more = f" and {self.count - len(self.keys)} more" if self.count > len(self.keys) else ""
        return f"{self.message}: {keys}{more}" if self.keys else self.message


class StoreInspection:
    def __init__(self, newest_revision: int, key_ring: KeyRing | None, kinds: tuple[str, ...]) -> None:
        """`kinds` should be encrypted if there is a key ring."""
        self._newest_revision, self._key_ring = newest_revision, key_ring
        self._prefixes = tuple(f"{kind}/" for kind in kinds) if key_ring is not None else ()
        self._findings_by_message: dict[str, Finding] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._owner_references: list[tuple[str, str, str]] = []
        """Cluster, uid of the owner, key of the owned object."""
        self._logical_clusters: set[str] = {ROOT}
        self._first_key_of: dict[str, str] = {}
        self._objects_of: Counter[str] = Counter()
        self._undecrypted: Counter[str] = Counter()
        self.records = self.encrypted = self.tombstones = 0

    def add(self, record: KeyValue) -> None:
        self.records += 1
        key, value, revision = record
        try:
            kind, cluster, namespace, name = split_key(key)
        except ValueError:
            self._add_finding(
                "keys that are not of the form GROUP/RESOURCE/CLUSTER/NAMESPACE/NAME",
                "delete them: Shoal did not write them",
                key,
            )
            return
        if not 0 < revision <= self._newest_revision:
            self._add_finding(
                f"revisions that are not between 1 and the store's newest revision {self._newest_revision}",
                RESTORE_HINT,
                key,
            )
        if kind == CLUSTERS_KIND and cluster == ROOT:
            self._logical_clusters.add(name)
        self._first_key_of.setdefault(cluster, key)
        self._objects_of[cluster] += 1
        plain = self._decrypt_value(key, value)
        if plain is None:
            return
        if plain == TOMBSTONE:
            self.tombstones += 1
            return
        obj = _decode_object(plain)
        if obj is None:
            self._add_finding("values that are not JSON objects", RESTORE_HINT, key)
        else:
            self._check_object(key, kind, cluster, namespace, name, obj)

    def findings(self) -> list[Finding]:
        """Returns all findings, problems first. Called after all records were added."""
        for cluster, first in self._first_key_of.items():
            if cluster not in self._logical_clusters:
                message = f"{self._objects_of[cluster]} objects of logical cluster {cluster}, which does not exist"
                remedy = f"create LogicalCluster {cluster} and delete it again: that deletes its objects"
                self._findings_by_message[message] = Finding(message, remedy, True, [first], self._objects_of[cluster])
        for cluster, uid, key in self._owner_references:
            if (cluster, uid) not in self._uids:
                message = "objects whose owners do not exist"
                self._add_finding(
                    message, "none needed: the garbage collector deletes them when a server runs", key, is_problem=False
                )
        for name, count in self._undecrypted.items():
            message = f"values not checked, encrypted with key {name}: {count}"
            self._findings_by_message[message] = Finding(message, "give --encryption-key-file to check them", False)
        return sorted(self._findings_by_message.values(), key=lambda finding: not finding.is_problem)

    def _decrypt_value(self, key: str, value: bytes) -> bytes | None:
        if not value.startswith(ENCRYPTED_PREFIX):
            if key.startswith(self._prefixes) and value != TOMBSTONE and self._prefixes:
                message = "unencrypted values of encrypted kinds"
                self._add_finding(
                    message, "encrypt them: shoal encrypt --encryption-key-file FILE", key, is_problem=False
                )
            return value
        self.encrypted += 1
        if self._key_ring is None:
            self._undecrypted[key_name_of(value)] += 1
            return None
        try:
            return self._key_ring.decrypt(key, value)
        except EncryptionError as error:
            name = key_name_of(value)
            lost = name not in self._key_ring.key_names
            message = (
                f"values encrypted with key {name}, which was not given" if lost else "values that cannot be decrypted"
            )
            self._add_finding(message, error.hint, key)
            return None

    def _check_object(self, key: str, kind: str, cluster: str, namespace: str, name: str, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        stored_name = metadata.get("namespace") or "", metadata.get("name")
        group = str(obj.get("apiVersion")).rpartition("/")[0] or "core"
        if stored_name != (namespace, name) or (group != kind.partition("/")[0] and kind not in SHARED_KINDS):
            self._add_finding("objects stored under the key of another object", RESTORE_HINT, key)
        uid = metadata.get("uid")
        if not uid:
            self._add_finding("objects without a uid", RESTORE_HINT, key)
            return
        other = self._uids.setdefault((cluster, uid), key)
        if other != key:
            self._add_finding(f"objects with the uid of {other}", "delete one of them and create it again", key)
        for owner in metadata.get("ownerReferences") or ():
            self._owner_references.append((cluster, str(owner.get("uid")), key))

    def _add_finding(self, message: str, remedy: str, key: str, *, is_problem: bool = True) -> None:
        finding = self._findings_by_message.setdefault(message, Finding(message, remedy, is_problem))
        finding.count += 1
        if len(finding.keys) < MAX_KEYS_SHOWN:
            finding.keys.append(key)


def _decode_object(value: bytes) -> dict[str, Any] | None:
    try:
        obj = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return None
    # The API server inserts the resourceVersion right after this.
    return obj if b'"metadata":{' in value else None
