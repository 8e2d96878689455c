"""Records Events about workload Clusters from the conditions that the importer and syncers set."""

from __future__ import annotations

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.runtime.event_recorder import EventSource
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.status import DELETIONS_HELD, HUB_CHANGED, NOT_MIRRORED, NOT_SYNCED, ORPHANS

REPORTED_CONDITIONS = frozenset({ORPHANS, HUB_CHANGED, DELETIONS_HELD, NOT_SYNCED, NOT_MIRRORED})
CLUSTER_EVENT_RULE = EventRule(
    on_true=frozenset({workloadcluster.READY}), on_change=REPORTED_CONDITIONS, negative_polarity=REPORTED_CONDITIONS
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """`client` is at the hub's root."""
    source = EventSource("shoal-sync", f"{workloadcluster.GROUP}/{workloadcluster.VERSION}", workloadcluster.KIND)
    return StatusEventController("sync-events", client, clock, [(CLUSTERS, source, CLUSTER_EVENT_RULE)])
