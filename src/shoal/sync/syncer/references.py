"""Index of references to ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims by the objects that need them.

The caller updates it on object changes; it does no I/O.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from shoal.kinds.pod_references import ACCOUNTS, NEEDED, account_needs, needs_of

Object = dict[str, Any]
Who = TypeVar("Who", bound=Hashable)


class Ref(NamedTuple):
    """A core object that others may reference."""

    plural: str
    namespace: str
    name: str


def refs_of(obj: Object, plural: str, group: str) -> frozenset[Ref]:
    """The objects that `obj` references in its namespace."""
    namespace = obj["metadata"].get("namespace", "")
    if not namespace:
        return frozenset()
    needs = account_needs(obj) if (plural, group) == (ACCOUNTS, "") else needs_of(obj)
    return frozenset(Ref(need.plural, namespace, need.name) for need in needs)


def can_be_needed(plural: str, group: str) -> bool:
    return not group and plural in NEEDED


class References(Generic[Who]):
    """`Referrer` identifies a referencing object; each has a kind and is in a cluster."""

    def __init__(self) -> None:
        self._by: dict[tuple[str, Who], frozenset[Ref]] = {}
        self._from: dict[Who, set[str]] = {}
        self._of: dict[str, dict[Ref, dict[Who, str]]] = {}
        self._clusters: dict[Ref, set[str]] = {}

    def put(self, cluster: str, who: Who, kind: str, refs: frozenset[Ref]) -> frozenset[Ref]:
        """Replaces the references of the referrer. Returns the added and removed ones."""
        key = cluster, who
        before = self._by.get(key, frozenset())
        if refs == before:
            return frozenset()
        if refs:
            self._by[key] = refs
            self._from.setdefault(who, set()).add(cluster)
        else:
            del self._by[key]
            _take(self._from, who, cluster)
        for ref in before - refs:
            self._drop(ref, cluster, who)
        for ref in refs - before:
            self._of.setdefault(cluster, {}).setdefault(ref, {})[who] = kind
            self._clusters.setdefault(ref, set()).add(cluster)
        return before ^ refs

    def _drop(self, ref: Ref, cluster: str, who: Who) -> None:
        named = self._of[cluster]
        del named[ref][who]
        if not named[ref]:
            del named[ref]
            _take(self._clusters, ref, cluster)
        if not named:
            del self._of[cluster]

    def kinds(self, cluster: str, ref: Ref) -> set[str]:
        """Kinds of the referrers in the cluster; empty: none."""
        return set(self._of.get(cluster, {}).get(ref, {}).values())

    def named_from(self, who: Who) -> frozenset[str]:
        """Clusters in which it references anything."""
        return frozenset(self._from.get(who, ()))

    def clusters(self, ref: Ref) -> frozenset[str]:
        """Clusters in which it is referenced."""
        return frozenset(self._clusters.get(ref, ()))

    def of_cluster(self, cluster: str) -> list[Ref]:
        return list(self._of.get(cluster, ()))


def _take(among: dict[Any, set[str]], key: Any, value: str) -> None:
    among[key].discard(value)
    if not among[key]:
        del among[key]
