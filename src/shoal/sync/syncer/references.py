"""Index of references to ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims by the objects that need them.

The caller updates it on object changes; it does no I/O.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from shoal.kinds.core.pod.references import (
    REFERENCED_PLURALS,
    SERVICE_ACCOUNT_PLURAL,
    pod_references,
    service_account_references,
)

Object = dict[str, Any]
Referrer = TypeVar("Referrer", bound=Hashable)


class DependencyRef(NamedTuple):
    """A core object that others may reference."""

    plural: str
    namespace: str
    name: str


def references_of(obj: Object, plural: str, group: str) -> frozenset[DependencyRef]:
    """The objects that `obj` references in its namespace."""
    namespace = obj["metadata"].get("namespace", "")
    if not namespace:
        return frozenset()
    needs = service_account_references(obj) if (plural, group) == (SERVICE_ACCOUNT_PLURAL, "") else pod_references(obj)
    return frozenset(DependencyRef(need.plural, namespace, need.name) for need in needs)


def is_dependency_kind(plural: str, group: str) -> bool:
    return not group and plural in REFERENCED_PLURALS


class ReferenceIndex(Generic[Referrer]):
    """`Referrer` identifies a referencing object; each has a kind and is in a cluster."""

    def __init__(self) -> None:
        self._refs_by_referrer: dict[tuple[str, Referrer], frozenset[DependencyRef]] = {}
        self._clusters_by_referrer: dict[Referrer, set[str]] = {}
        self._referrers_by_cluster: dict[str, dict[DependencyRef, dict[Referrer, str]]] = {}
        self._clusters: dict[DependencyRef, set[str]] = {}

    def set_references(
        self, cluster: str, referrer: Referrer, kind: str, refs: frozenset[DependencyRef]
    ) -> frozenset[DependencyRef]:
        """Replaces the references of the referrer. Returns the added and removed ones."""
        key = cluster, referrer
        previous = self._refs_by_referrer.get(key, frozenset())
        if refs == previous:
            return frozenset()
        if refs:
            self._refs_by_referrer[key] = refs
            self._clusters_by_referrer.setdefault(referrer, set()).add(cluster)
        else:
            del self._refs_by_referrer[key]
            _discard(self._clusters_by_referrer, referrer, cluster)
        for ref in previous - refs:
            self._drop(ref, cluster, referrer)
        for ref in refs - previous:
            self._referrers_by_cluster.setdefault(cluster, {}).setdefault(ref, {})[referrer] = kind
            self._clusters.setdefault(ref, set()).add(cluster)
        return previous ^ refs

    def _drop(self, ref: DependencyRef, cluster: str, referrer: Referrer) -> None:
        by_ref = self._referrers_by_cluster[cluster]
        del by_ref[ref][referrer]
        if not by_ref[ref]:
            del by_ref[ref]
            _discard(self._clusters, ref, cluster)
        if not by_ref:
            del self._referrers_by_cluster[cluster]

    def referrer_kinds(self, cluster: str, ref: DependencyRef) -> set[str]:
        """Kinds of the referrers in the cluster; empty: none."""
        return set(self._referrers_by_cluster.get(cluster, {}).get(ref, {}).values())

    def clusters_of_referrer(self, referrer: Referrer) -> frozenset[str]:
        """Clusters in which it references anything."""
        return frozenset(self._clusters_by_referrer.get(referrer, ()))

    def clusters_of(self, ref: DependencyRef) -> frozenset[str]:
        """Clusters in which it is referenced."""
        return frozenset(self._clusters.get(ref, ()))

    def references_in(self, cluster: str) -> list[DependencyRef]:
        return list(self._referrers_by_cluster.get(cluster, ()))


def _discard(index: dict[Any, set[str]], key: Any, value: str) -> None:
    index[key].discard(value)
    if not index[key]:
        del index[key]
