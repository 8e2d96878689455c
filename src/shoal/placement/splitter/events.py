"""Events about Placements, derived from their conditions, and about placed objects."""

from __future__ import annotations

from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.workload import placement, workloadcluster
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.runtime.event_recorder import EventSource
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule

Object = dict[str, Any]

COMPONENT = "shoal-placement"
MAX_NAMED = 10
PLACEMENTS = GroupVersionResource(placement.GROUP, placement.VERSION, placement.PLURAL)
PLACEMENT_EVENTS = EventRule(
    on_true=frozenset({placement.VALID}),
    on_change=frozenset({placement.VALID, placement.SUPERSEDED}),
    negative_polarity=frozenset({placement.SUPERSEDED}),
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """Returns the event controller. `client` is for the hub's root."""
    source = EventSource(COMPONENT, f"{placement.GROUP}/{placement.VERSION}", placement.KIND)
    return StatusEventController("placement-events", client, clock, [(PLACEMENTS, source, PLACEMENT_EVENTS)])


def event_source(root: Object) -> EventSource:
    return EventSource(COMPONENT, root["apiVersion"], root["kind"])


def placed_message(leaf_changes: LeafChanges) -> str:
    """Returns the changes by cluster; empty if there are none."""
    changes = [f"{_cluster_name(leaf)}{_replicas_text(leaf)}" for leaf in (*leaf_changes.create, *leaf_changes.update)]
    changes += [
        f"removed from {_cluster_name(leaf)}"
        for leaf in leaf_changes.delete
        if "deletionTimestamp" not in leaf["metadata"]
    ]
    more = [f"and {len(changes) - MAX_NAMED} more"] if len(changes) > MAX_NAMED else []
    return ", ".join([*changes[:MAX_NAMED], *more])


def _cluster_name(leaf: Object) -> str:
    return workloadcluster.assigned_cluster(leaf)


def _replicas_text(leaf: Object) -> str:
    replicas = (leaf.get("spec") or {}).get("replicas")
    return f": {replicas}" if isinstance(replicas, int) else ""
