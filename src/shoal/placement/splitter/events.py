"""Events about Placements, derived from their conditions, and about placed objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.workload import placement, workloadcluster
from shoal.kinds.workload.served_apis import REFUSAL_REASONS
from shoal.placement.filter import AFFINITY_REASONS
from shoal.placement.policy import PlacementRule
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.placement.splitter.placement_status import AFFINITY_NOT_MET, PlacementMatch, named_list
from shoal.runtime.event_recorder import EventSource
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule

Object = dict[str, Any]

COMPONENT = "shoal-placement"
MAX_NAMED = 10
PLACEMENTS = GroupVersionResource(placement.GROUP, placement.VERSION, placement.PLURAL)
CLUSTER_PLACEMENTS = GroupVersionResource(
    placement.GROUP, placement.VERSION, placement.CLUSTER_PLURAL, namespaced=False
)
PLACEMENT_EVENTS = EventRule(
    on_true=frozenset({placement.VALID}),
    on_change=frozenset(
        {placement.VALID, placement.SUPERSEDED, placement.SERVED, placement.AFFINITY_MET, placement.LEFT_BEHIND}
    ),
    negative_polarity=frozenset({placement.SUPERSEDED, placement.LEFT_BEHIND}),
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """Returns the event controller. `client` is for the hub's root."""
    sources = [
        (resource, EventSource(COMPONENT, f"{placement.GROUP}/{placement.VERSION}", kind), PLACEMENT_EVENTS)
        for resource, kind in ((PLACEMENTS, placement.KIND), (CLUSTER_PLACEMENTS, placement.CLUSTER_KIND))
    ]
    return StatusEventController("placement-events", client, clock, sources)


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


def match_of(placement_rules: Sequence[PlacementRule], leaf_changes: LeafChanges) -> PlacementMatch:
    """Returns what the Placements of an object report of its placement: clusters that do not take the kind, clusters
    that have replicas against the workload affinity or would get some without it, and why.
    """
    decision = leaf_changes.decision
    refusals, unmet_affinities = [], []
    for name, failure in sorted(decision.filter_failures.items()):
        if failure.reason in REFUSAL_REASONS:
            refusals.append(f"{name} {failure.message}")
        elif failure.reason in AFFINITY_REASONS and (decision.unassigned or decision.shares.get(name)):
            unmet_affinities.append(f"{name} {failure.message}")
    names = tuple(one.name for one in placement_rules)
    return PlacementMatch(names, refusals=tuple(refusals), unmet_affinities=tuple(unmet_affinities))


def warnings_of(match: PlacementMatch, previous: PlacementMatch) -> Iterator[tuple[str, str]]:
    """Returns reason and message of Events about an object."""
    for reason, texts, previous_texts in (
        ("APINotServed", match.refusals, previous.refusals),
        (AFFINITY_NOT_MET, match.unmet_affinities, previous.unmet_affinities),
    ):
        if texts and texts != previous_texts:
            yield reason, named_list(texts)


def _cluster_name(leaf: Object) -> str:
    return workloadcluster.assigned_cluster(leaf)


def _replicas_text(leaf: Object) -> str:
    replicas = (leaf.get("spec") or {}).get("replicas")
    return f": {replicas}" if isinstance(replicas, int) else ""
