"""The syncer graph of `authz.syncer` from the watch cache: which objects of root relate to which workload Cluster."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz.rbac import Attributes
from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.request.info import ROOT
from shoal.kinds.workload import apiresource, workloadcluster

Object = dict[str, Any]


class CachedSyncerGraph:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache

    def _find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        # A lookup must not create a cache for a resource without stored objects.
        kind = self._cache.resource_caches.get(f"{group or 'core'}/{plural}")
        entry = kind.get(ROOT, namespace, name) if kind is not None else None
        return entry.object() if entry is not None else None

    def is_registered(self, cluster: str) -> bool:
        return self._find(workloadcluster.GROUP, workloadcluster.PLURAL, "", cluster) is not None

    def relation(self, cluster: str, attributes: Attributes) -> str:
        obj = self._find(attributes.group, attributes.resource, attributes.namespace, attributes.name)
        return relation_to_cluster(obj, cluster) if obj is not None else ""

    def location_of(self, name: str) -> str:
        api_import = self._find(apiresource.GROUP, apiresource.IMPORT_PLURAL, "", name)
        return str((api_import.get("spec") or {}).get("location") or "") if api_import is not None else ""

    def reporting_instance_of(self, namespace: str, name: str) -> str:
        event = self._find("", "events", namespace, name)
        return str(event.get("reportingInstance") or "") if event is not None else ""

    def mirrors_pods(self, cluster: str) -> bool:
        workload_cluster = self._find(workloadcluster.GROUP, workloadcluster.PLURAL, "", cluster)
        return workload_cluster is not None and workloadcluster.mirrors_resource(workload_cluster, "pods")

    def mirrored_from(self, namespace: str, name: str) -> str:
        pod = self._find("", "pods", namespace, name)
        return workloadcluster.mirror_source(pod) if pod is not None else ""


def relation_to_cluster(obj: Object, cluster: str) -> str:
    if workloadcluster.assigned_cluster(obj) == cluster:
        return "assigned"
    if workloadcluster.syncer_finalizer(cluster) in (obj["metadata"].get("finalizers") or ()):
        return "held"
    return "needed" if workloadcluster.dependency_label(cluster) in (obj["metadata"].get("labels") or {}) else ""
