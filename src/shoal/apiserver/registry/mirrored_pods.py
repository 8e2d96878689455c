"""Mirrored pods on a hub: copies of the pods in workload Clusters that ask for it (`spec.mirror: [pods]`). They do not
run on the hub.

The resource is the built-in one without its strategy and without the subresources that schedule, evict or resize a pod:
the syncer writes spec and status in one piece. `admission.plugins.mirrored_pods` decides who may write. Pure except for
the cache.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from shoal.apiserver.cache.cacher import CachedObject, WatchCache
from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.registry import Resource
from shoal.kinds.core.pod import pods as kind
from shoal.kinds.strategy import Strategy
from shoal.kinds.workload import workloadcluster

WORKLOAD_CLUSTERS = (workloadcluster.GROUP, workloadcluster.PLURAL)
PODS = ("", "pods")
KINDS_OF_WORKLOAD_CLUSTERS = (("", "v1", "pods"), ("", "v1", "nodes"))
UNSERVED_MESSAGE = (
    "a hub has no {plural}: they are in its workload Clusters. kubectl with a kubeconfig of such a cluster shows them"
    " (shoal kubeconfig NAME for a ManagedCluster); spec.mirror: [pods] of a workload Cluster copies its pods here"
)
"""The answer to a request for pods or nodes of a hub that has none."""
KUBELET_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources a person may try on a mirrored pod. The error names the cluster to ask."""


@cache
def pod_resource() -> Resource:
    builtin = builtins.builtin_resource("", "v1", "pods")
    assert builtin is not None
    subresources = {name: taken for name, taken in builtin.subresources.items() if name in KUBELET_SUBRESOURCES}
    rules = Strategy(
        return_deleted_object=True, default=kind.default_pod_status, selectable_field_value=kind.selectable_field
    )
    return replace(builtin, status=False, subresources=subresources, strategy=rules)


def is_requested(entry: CachedObject | None) -> bool:
    """Reports whether a workload Cluster wants its pods mirrored."""
    if entry is None or b'"mirror"' not in entry.data:
        return False
    return workloadcluster.mirrors_resource(entry.object(), "pods")


def is_served(cache: WatchCache, cluster: str) -> bool:
    """Reports whether a workload Cluster of that hub wants its pods mirrored, or mirrored pods still exist."""
    resource_cache = cache.resource_caches.get("core/pods")
    table = resource_cache.tables.get(cluster) if resource_cache is not None else None
    if table is not None and table.entries:
        return True
    return any(is_requested(entry) for entry in cache.resource_cache(*WORKLOAD_CLUSTERS).table(cluster).select(""))
