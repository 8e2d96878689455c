"""Revisions on a hub: the ReplicaSets and ControllerRevisions that `kubectl rollout history` and `undo` read.

A hub that serves Deployments also serves ReplicaSets, and one with StatefulSets or DaemonSets serves
ControllerRevisions, unless a workload Cluster brings these kinds itself. A ReplicaSet of this kind records a pod
template and runs nothing: it has neither status nor scale. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.registry import Resource

OWNERS = {"replicasets": frozenset({"deployments"}), "controllerrevisions": frozenset({"statefulsets", "daemonsets"})}
"""Plurals in `apps` by that of their revisions."""


def history_resources(negotiated: Iterable[Resource]) -> list[Resource]:
    """Returns what a hub serves in addition because of its negotiated resources."""
    served = {resource.plural for resource in negotiated if resource.group == "apps"}
    return [history_resource(plural) for plural, owners in OWNERS.items() if owners & served and plural not in served]


@cache
def history_resource(plural: str) -> Resource:
    builtin = builtins.builtin_resource("apps", "v1", plural)
    assert builtin is not None
    return replace(builtin, status=False, scale=None)
