"""Creates the syncer controllers of the hub's process. They are the same in every mode, except where the syncers
run.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.manager import Runnable
from shoal.sync.cluster_status import ClusterStatusWriter
from shoal.sync.remote_cluster import NewClient
from shoal.sync.syncer.controller import HubComponents, SyncerManager
from shoal.sync.syncer.finalizer_cleanup import FinalizerCleanup
from shoal.sync.syncer.hub_informers import HubInformers
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.synced_resources import SyncedResourceTracker


class SyncerEventRecorder:
    """The event recorder as a runnable."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.name = "syncer-events"
        self.recorder = EventRecorder(lambda cluster: client, clock)
        self.run = self.recorder.run


def new_syncer_controllers(
    client: Client,
    clock: Clock,
    new_client: NewClient,
    resources: Sequence[str],
    status_writer: ClusterStatusWriter,
    mode: str,
) -> list[Runnable]:
    """`mode` is the sync mode of workload Clusters that set none."""
    events, hub = SyncerEventRecorder(client, clock), HubInformers(client, clock)
    hub_writer = HubWriter(client, events.recorder)
    components = HubComponents(
        hub,
        SyncedResourceTracker(client, clock, hub, list(resources)),
        FinalizerCleanup(client, clock, hub, hub_writer),
        hub_writer,
    )
    return [
        components.resources,
        components.finalizer_cleanup.controller,
        events,
        SyncerManager(client, clock, new_client, components, status_writer, mode),
    ]
