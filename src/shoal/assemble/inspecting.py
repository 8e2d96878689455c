"""Finds problems in the contents of a store, record by record. Pure: no store is touched here.

A problem is something a server cannot serve, or serves wrongly; a note is information. Both have a message and a
remedy. Of an object only its uid and its owners are kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.apiserver.cache import split_key
from shoal.apiserver.entries import REMOVED
from shoal.apiserver.paths import ROOT
from shoal.kinds import logicalcluster
from shoal.store.encrypted.keys import SEALED, KeyRing, SealError, name_in
from shoal.store.interface import KeyValue

CLUSTERS = f"{logicalcluster.GROUP}/{logicalcluster.PLURAL}"
SHOWN = 5
"""Keys listed per finding; the others are counted."""
RESTORE = "restore a backup from before: shoal restore FILE --force-replace"
SHARED_KINDS = ("core/events",)
"""Served by two groups, stored as one."""


@dataclass(slots=True)
class Finding:
    what: str
    todo: str
    problem: bool = True
    keys: list[str] = field(default_factory=list)
    count: int = 0

    def sentence(self) -> str:
        named = ", ".join(self.keys)
        more = f" and {self.count - len(self.keys)} more" if self.count > len(self.keys) else ""
        return f"{self.what}: {named}{more}" if self.keys else self.what


class Inspection:
    def __init__(self, newest: int, ring: KeyRing | None, kinds: tuple[str, ...]) -> None:
        """`kinds` should be encrypted if there is a key ring."""
        self._newest, self._ring = newest, ring
        self._prefixes = tuple(f"{kind}/" for kind in kinds) if ring is not None else ()
        self._found: dict[str, Finding] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._owned: list[tuple[str, str, str]] = []
        """Cluster, uid of the owner, key of the owned object."""
        self._clusters: set[str] = {ROOT}
        self._first_of: dict[str, str] = {}
        self._objects_of: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self.records = self.sealed = self.marks = 0

    def add(self, record: KeyValue) -> None:
        self.records += 1
        key, value, revision = record
        try:
            kind, cluster, namespace, name = split_key(key)
        except ValueError:
            self._note(
                "keys that are not GROUP/RESOURCE/CLUSTER/NAMESPACE/NAME", "Shoal did not write them; delete them", key
            )
            return
        if not 0 < revision <= self._newest:
            self._note(f"revisions that are not between 1 and the store's newest, {self._newest}", RESTORE, key)
        if kind == CLUSTERS and cluster == ROOT:
            self._clusters.add(name)
        self._first_of.setdefault(cluster, key)
        self._objects_of[cluster] += 1
        plain = self._opened(key, value)
        if plain is None:
            return
        if plain == REMOVED:
            self.marks += 1
            return
        obj = _decoded(plain)
        if obj is None:
            self._note("values that are not objects in JSON", RESTORE, key)
        else:
            self._check_object(key, kind, cluster, namespace, name, obj)

    def findings(self) -> list[Finding]:
        """Returns all findings, problems first. Called after all records were added."""
        for cluster, first in self._first_of.items():
            if cluster not in self._clusters:
                what = f"{self._objects_of[cluster]} objects of the logical cluster {cluster}, which does not exist"
                todo = f"create the LogicalCluster {cluster} and delete it again: that deletes what it holds"
                self._found[what] = Finding(what, todo, True, [first], self._objects_of[cluster])
        for cluster, uid, key in self._owned:
            if (cluster, uid) not in self._uids:
                what = "objects whose owners are not stored"
                self._note(
                    what, "nothing: the garbage collector looks after them once a server runs", key, problem=False
                )
        for name, count in self._unread.items():
            what = f"not looked into, encrypted with the key {name}: {count}"
            self._found[what] = Finding(what, "give --encryption-key-file to check them", False)
        return sorted(self._found.values(), key=lambda finding: not finding.problem)

    def _opened(self, key: str, value: bytes) -> bytes | None:
        if not value.startswith(SEALED):
            if key.startswith(self._prefixes) and value != REMOVED and self._prefixes:
                what = "values of encrypted kinds that are not encrypted"
                self._note(what, "shoal encrypt --encryption-key-file FILE encrypts them", key, problem=False)
            return value
        self.sealed += 1
        if self._ring is None:
            self._unread[name_in(value)] += 1
            return None
        try:
            return self._ring.open(key, value)
        except SealError as error:
            name = name_in(value)
            lost = name not in self._ring.names
            what = (
                f"values encrypted with the key {name}, which was not given" if lost else "values that do not decrypt"
            )
            self._note(what, error.hint, key)
            return None

    def _check_object(self, key: str, kind: str, cluster: str, namespace: str, name: str, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        said = metadata.get("namespace") or "", metadata.get("name")
        group = str(obj.get("apiVersion")).rpartition("/")[0] or "core"
        if said != (namespace, name) or (group != kind.partition("/")[0] and kind not in SHARED_KINDS):
            self._note("objects that are stored under the key of another", RESTORE, key)
        uid = metadata.get("uid")
        if not uid:
            self._note("objects without a uid", RESTORE, key)
            return
        other = self._uids.setdefault((cluster, uid), key)
        if other != key:
            self._note(f"objects with the uid of {other}", "delete one of them and make it anew", key)
        for owner in metadata.get("ownerReferences") or ():
            self._owned.append((cluster, str(owner.get("uid")), key))

    def _note(self, what: str, todo: str, key: str, *, problem: bool = True) -> None:
        found = self._found.setdefault(what, Finding(what, todo, problem))
        found.count += 1
        if len(found.keys) < SHOWN:
            found.keys.append(key)


def _decoded(value: bytes) -> dict[str, Any] | None:
    try:
        obj = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return None
    # The API server inserts the resourceVersion right after this.
    return obj if b'"metadata":{' in value else None
