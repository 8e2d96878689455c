"""The syncer graph of `authz.syncer` from the watch cache: which objects of root relate to which workload Cluster."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz.rbac import Attributes
from shoal.apiserver.cache import Cache
from shoal.apiserver.paths import ROOT
from shoal.kinds import apiresource, workload

Object = dict[str, Any]


class CachedMeant:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def _find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        # A lookup must not create a cache for a resource without stored objects.
        kind = self._cache.kinds.get(f"{group or 'core'}/{plural}")
        entry = kind.get(ROOT, namespace, name) if kind is not None else None
        return entry.object() if entry is not None else None

    def is_registered(self, cluster: str) -> bool:
        return self._find(workload.GROUP, workload.PLURAL, "", cluster) is not None

    def belongs(self, cluster: str, wanted: Attributes) -> str:
        obj = self._find(wanted.group, wanted.resource, wanted.namespace, wanted.name)
        return belonging(obj, cluster) if obj is not None else ""

    def location_of(self, name: str) -> str:
        found = self._find(apiresource.GROUP, apiresource.IMPORTS, "", name)
        return str((found.get("spec") or {}).get("location") or "") if found is not None else ""

    def teller_of(self, namespace: str, name: str) -> str:
        found = self._find("", "events", namespace, name)
        return str(found.get("reportingInstance") or "") if found is not None else ""

    def mirrors_pods(self, cluster: str) -> bool:
        found = self._find(workload.GROUP, workload.PLURAL, "", cluster)
        return found is not None and workload.mirrors(found, "pods")

    def shown_from(self, namespace: str, name: str) -> str:
        found = self._find("", "pods", namespace, name)
        return workload.mirrored_from(found) if found is not None else ""


def belonging(obj: Object, cluster: str) -> str:
    if workload.assigned_to(obj) == cluster:
        return "assigned"
    if workload.finalizer_of(cluster) in (obj["metadata"].get("finalizers") or ()):
        return "held"
    return "needed" if workload.dependency_label(cluster) in (obj["metadata"].get("labels") or {}) else ""
