"""Creates the controllers of this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.objects.errors import ShoalError
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.manager import Runnable
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule
from shoal.sync.cluster_status import ClusterStatusWriter
from shoal.sync.importer.controller import ImportReconciler
from shoal.sync.negotiation.controller import NegotiationReconciler
from shoal.sync.registration.capacity_controller import CapacityReconciler
from shoal.sync.registration.controller import new_registration_controller
from shoal.sync.remote_cluster import NewClient, Object, RemoteCluster, connect_by_kubeconfig
from shoal.sync.resources import CLUSTERS
from shoal.sync.syncer.assignment_check import AssignmentCheck
from shoal.sync.syncer.controller import HubComponents, SyncerManager
from shoal.sync.syncer.finalizer_cleanup import FinalizerCleanup
from shoal.sync.syncer.hub_informers import HubInformers
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.pull_syncer import PullSyncer
from shoal.sync.syncer.status import DELETIONS_HELD, HUB_CHANGED, NOT_MIRRORED, NOT_SYNCED, ORPHANS
from shoal.sync.syncer.synced_resources import SyncedResourceTracker


class SyncerEventRecorder:
    """The event recorder as a runnable."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.name = "syncer-events"
        self.recorder = EventRecorder(lambda cluster: client, clock)
        self.run = self.recorder.run


REPORTED_CONDITIONS = frozenset({ORPHANS, HUB_CHANGED, DELETIONS_HELD, NOT_SYNCED, NOT_MIRRORED})
CLUSTER_EVENT_RULE = EventRule(
    on_true=frozenset({workloadcluster.READY}), on_change=REPORTED_CONDITIONS, negative_polarity=REPORTED_CONDITIONS
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """`client` is at the hub's root."""
    source = EventSource("shoal-sync", f"{workloadcluster.GROUP}/{workloadcluster.VERSION}", workloadcluster.KIND)
    return StatusEventController("sync-events", client, clock, [(CLUSTERS, source, CLUSTER_EVENT_RULE)])


@dataclass(frozen=True, slots=True)
class SyncSettings:
    resources_to_sync: tuple[str, ...] = DEFAULT_RESOURCES
    auto_publish: bool = True
    """Whether a negotiated API is published by default."""
    mode: str = "push"

    def __post_init__(self) -> None:
        if self.mode not in workloadcluster.SYNC_MODES:
            raise ShoalError(f"unknown sync mode {self.mode!r}: must be one of {', '.join(workloadcluster.SYNC_MODES)}")


def new_import_controllers(
    client: Client, clock: Clock, new_client: NewClient, settings: SyncSettings
) -> list[Runnable]:
    """`client` is at the hub's root; `new_client` builds a client from a parsed kubeconfig."""
    importer = client.as_controller("api-importer")
    status_writer = ClusterStatusWriter(importer, clock, settings.mode)
    connect_cluster = connect_by_kubeconfig(importer, new_client)
    return [
        new_registration_controller(client.as_controller("cluster-registration"), clock),
        ImportReconciler(
            importer, clock, connect_cluster, settings.resources_to_sync, status_writer, mode=settings.mode
        ).controller,
        NegotiationReconciler(client.as_controller("api-negotiation"), clock, settings.auto_publish).controller,
        CapacityReconciler(
            client.as_controller("cluster-capacity"), clock, connect_cluster, mode=settings.mode
        ).controller,
        new_event_controller(client.as_controller("event-recorder"), clock),
    ]


def new_syncer_controllers(
    client: Client, clock: Clock, new_client: NewClient, settings: SyncSettings
) -> list[Runnable]:
    """`client` and `new_client` are as for the importer."""
    syncer = client.as_controller("syncer")
    events, hub = SyncerEventRecorder(syncer, clock), HubInformers(syncer, clock)
    hub_writer = HubWriter(syncer, events.recorder)
    components = HubComponents(
        hub,
        SyncedResourceTracker(syncer, clock, hub, list(settings.resources_to_sync)),
        FinalizerCleanup(syncer, clock, hub, hub_writer),
        hub_writer,
    )
    status_writer = ClusterStatusWriter(syncer, clock, settings.mode)
    return [
        components.resources,
        components.finalizer_cleanup.controller,
        AssignmentCheck(syncer, clock, hub, hub_writer).controller,
        events,
        SyncerManager(syncer, clock, new_client, components, status_writer, settings.mode),
    ]


def new_pull_controllers(
    name: str, hub: Client, new_local_client: Callable[[], Client], clock: Clock, resources: tuple[str, ...]
) -> list[Runnable]:
    """Controllers of a process that syncs the single workload Cluster `name`. `hub` is a client with its own identity
    at the hub; `new_local_client` creates clients of the cluster.
    """

    async def connect(cluster: Object) -> RemoteCluster:
        return RemoteCluster(new_local_client())

    importer = ImportReconciler(
        hub, clock, connect, resources, ClusterStatusWriter(hub, clock, workloadcluster.PULL), only=name
    )
    capacities = CapacityReconciler(hub, clock, connect, only=name)
    return [PullSyncer(name, hub, new_local_client, clock), importer.controller, capacities.controller]
