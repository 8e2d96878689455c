"""Synthesizes the Leases of simulated nodes on read, so that simulated nodes write no heartbeats.

A stored Lease, as of a real kubelet, is served as it is. Watches deliver stored Leases only.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from typing import Any

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.request.info import WILDCARD
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.clock import rfc3339_micro
from shoal.kinds.clusterapi.simulated_node import is_simulated
from shoal.kinds.core.node_identity import LEASE_NAMESPACE as NODE_LEASES
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

LEASES = ("coordination.k8s.io", "leases")
DURATION_SECONDS = 40
RENEW_SECONDS = 10


def may_include_node_leases(ctx: RequestContext) -> bool:
    """Reports whether the request can include a node's Lease."""
    here = ctx.namespace in ("", NODE_LEASES)
    return here and (ctx.resource.group, ctx.resource.plural) == LEASES


def synthesize_lease(server: ServerComponents, ctx: RequestContext) -> CachedObject | None:
    """Returns the requested Lease if a simulated node of that name exists."""
    if not may_include_node_leases(ctx):
        return None
    nodes = server.cache.resource_cache("", "nodes").tables.get(ctx.info.cluster)
    node = nodes.entries.get(f"/{ctx.name}") if nodes is not None else None
    return _lease_of(node, server.clock.now()) if node is not None else None


def leased_nodes(server: ServerComponents, ctx: RequestContext) -> list[CachedObject]:
    """The nodes whose Leases a list may have to include."""
    if not may_include_node_leases(ctx) or ctx.info.cluster == WILDCARD:
        return []
    nodes = server.cache.resource_cache("", "nodes").tables.get(ctx.info.cluster)
    return list(nodes.entries.values()) if nodes is not None else []


def add_node_leases(
    entries: list[CachedObject], nodes: Sequence[CachedObject], after: str, now: float
) -> Generator[None, None, list[CachedObject]]:
    """Adds the Leases of simulated nodes to a list of stored ones, one node in each step. `after` is the last key of
    the previous page.
    """
    stored, added = {entry.key for entry in entries}, []
    for node in nodes:
        lease = _lease_of(node, now)
        if lease is not None and lease.key > after and lease.key not in stored:
            added.append(lease)
        yield
    return sorted([*entries, *added], key=lambda entry: entry.key) if added else entries


def _lease_of(entry: CachedObject, now: float) -> CachedObject | None:
    node = entry.object()
    if not is_simulated(node):
        return None
    metadata: dict[str, Any] = node["metadata"]
    ready = get_condition(node, "Ready") or {}
    lost_time = parse_time(ready.get("lastTransitionTime")) if ready.get("status") == "Unknown" else None
    renew_time = lost_time if lost_time is not None else now - now % RENEW_SECONDS
    owner = {"apiVersion": "v1", "kind": "Node", "name": entry.name, "uid": metadata["uid"]}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": entry.name,
            "namespace": NODE_LEASES,
            "uid": str(uuid.uuid5(uuid.UUID(metadata["uid"]), "lease")),
            "creationTimestamp": metadata["creationTimestamp"],
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": entry.name,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": rfc3339_micro(renew_time),
        },
    }
    return CachedObject(
        NODE_LEASES, entry.name, entry.revision, inject_revision(encode(lease), entry.revision), virtual=True
    )
