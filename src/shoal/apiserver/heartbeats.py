"""Synthesizes the Leases of simulated nodes on read, so that simulated nodes write no heartbeats.

A stored Lease, as of a real kubelet, is served as it is. Watches deliver stored Leases only.
"""

from __future__ import annotations

import uuid
from typing import Any

from shoal.apiserver.cache import Entry
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import encode, splice
from shoal.clock import rfc3339_micro
from shoal.kinds.nodes_identity import LEASES as NODE_LEASES
from shoal.kinds.simulated import is_simulated
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

RESOURCE = ("coordination.k8s.io", "leases")
DURATION_SECONDS = 40
RENEW_SECONDS = 10


def has_node_leases(call: Call) -> bool:
    """Reports whether the request can include a node's Lease."""
    here = call.namespace in ("", NODE_LEASES)
    return here and (call.resource.group, call.resource.plural) == RESOURCE


def node_lease(core: Core, call: Call) -> Entry | None:
    """Returns the requested Lease if a simulated node of that name exists."""
    if not has_node_leases(call):
        return None
    nodes = core.cache.kind("", "nodes").tables.get(call.target.cluster)
    node = nodes.entries.get(f"/{call.name}") if nodes is not None else None
    return _lease(node, core.clock.now()) if node is not None else None


def with_node_leases(core: Core, call: Call, found: list[Entry], after: str) -> list[Entry]:
    """Adds the Leases of simulated nodes to a list of stored ones. `after` is the last key of the previous page."""
    nodes = core.cache.kind("", "nodes").tables.get(call.target.cluster)
    stored, now = {entry.key for entry in found}, core.clock.now()
    made = [_lease(node, now) for node in (nodes.entries.values() if nodes is not None else ())]
    more = [entry for entry in made if entry is not None and entry.key > after and entry.key not in stored]
    return sorted([*found, *more], key=lambda entry: entry.key) if more else found


def _lease(entry: Entry, now: float) -> Entry | None:
    node = entry.object()
    if not is_simulated(node):
        return None
    metadata: dict[str, Any] = node["metadata"]
    ready = get_condition(node, "Ready") or {}
    lost = parse_time(ready.get("lastTransitionTime")) if ready.get("status") == "Unknown" else None
    renewed = lost if lost is not None else now - now % RENEW_SECONDS
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
            "renewTime": rfc3339_micro(renewed),
        },
    }
    return Entry(NODE_LEASES, entry.name, entry.revision, splice(encode(lease), entry.revision), virtual=True)
