"""Pods on a hub: shown as they are in workload Clusters that ask for it (`spec.mirror: [pods]`), and run nowhere here.

It is the built-in kind, without its rules and without what schedules, evicts or resizes a pod: the syncer writes what
it saw, status and all, in one piece. Who may write is `admission.mirrored`'s business. Pure but for the tables.
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
"""What a person may try with a pod that is seen here; the answer says where to ask."""


@cache
def pods() -> Resource:
    whole = builtins.resource("", "v1", "pods")
    assert whole is not None
    reached = {name: taken for name, taken in whole.subresources.items() if name in REACHED}
    rules = Rules(returns_deleted=True, default=kind.default_conditions, field=kind.selectable)
    return replace(whole, status=False, subresources=reached, rules=rules)


def asks(entry: Entry | None) -> bool:
    """Whether a workload Cluster wants its pods shown."""
    if entry is None or b'"mirror"' not in entry.data:
        return False
    return workload.mirrors(entry.object(), "pods")


def is_served(cache: Cache, cluster: str) -> bool:
    """Whether somebody asks for it in that hub, or some are still there."""
    kind = cache.kinds.get("core/pods")
    table = kind.tables.get(cluster) if kind is not None else None
    if table is not None and table.entries:
        return True
    return any(asks(entry) for entry in cache.kind(*ASKING).table(cluster).select(""))
