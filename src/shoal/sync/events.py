"""Records Events about workload Clusters from the conditions that the importer and syncers set."""

from __future__ import annotations

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.runtime.recorder import Source
from shoal.runtime.transitions.controller import Transitions
from shoal.runtime.transitions.decide import Telling
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.telling import DELETIONS_HELD, HUB_CHANGED, NOT_SHOWN, NOT_SYNCED, ORPHANS

NEWS = frozenset({ORPHANS, HUB_CHANGED, DELETIONS_HELD, NOT_SYNCED, NOT_SHOWN})
ABOUT_CLUSTERS = Telling(summary=frozenset({workload.READY}), news=NEWS, alarming=NEWS)


def cluster_events(client: Client, clock: Clock) -> Transitions:
    """`client` is at the hub's root."""
    source = Source("shoal-sync", f"{workload.GROUP}/{workload.VERSION}", workload.KIND)
    return Transitions("sync-events", client, clock, [(CLUSTERS, source, ABOUT_CLUSTERS)])
