"""Mirrored pods on a hub: copies of the pods in workload Clusters that ask for it (`spec.mirror: [pods]`). They do not
run on the hub.

The resource is the built-in one without its strategy and without the subresources that schedule, evict or resize a pod:
the syncer writes spec and status in one piece. `admission.plugins.mirrored_pods` decides who may write. Pure except for
the cache.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from shoal.apiserver import builtins
from shoal.apiserver.cache import Cache, Entry
from shoal.apiserver.registry import Resource
from shoal.apiserver.rules import Rules
from shoal.kinds import pods as kind
from shoal.kinds import workload

ASKING = (workload.GROUP, workload.PLURAL)
PODS = ("", "pods")
REACHED = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources a person may try on a mirrored pod. The error names the cluster to ask."""


@cache
def pods() -> Resource:
    whole = builtins.resource("", "v1", "pods")
    assert whole is not None
    reached = {name: taken for name, taken in whole.subresources.items() if name in REACHED}
    rules = Rules(returns_deleted=True, default=kind.default_conditions, field=kind.selectable)
    return replace(whole, status=False, subresources=reached, rules=rules)


def asks(entry: Entry | None) -> bool:
    """Reports whether a workload Cluster wants its pods mirrored."""
    if entry is None or b'"mirror"' not in entry.data:
        return False
    return workload.mirrors(entry.object(), "pods")


def is_served(cache: Cache, cluster: str) -> bool:
    """Reports whether a workload Cluster of that hub wants its pods mirrored, or mirrored pods still exist."""
    kind = cache.kinds.get("core/pods")
    table = kind.tables.get(cluster) if kind is not None else None
    if table is not None and table.entries:
        return True
    return any(asks(entry) for entry in cache.kind(*ASKING).table(cluster).select(""))
