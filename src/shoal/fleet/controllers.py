"""Assembles the fleet's controllers: those of a hub and those of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus
from shoal.fleet.bus.link_metrics import LinkMetrics
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.bus.subjects import HUB_CONSUMER, worker_consumer
from shoal.fleet.bus.watch_bus import WatchBus
from shoal.fleet.endpoints.controller import EndpointReconciler
from shoal.fleet.health.controller import new_health_controllers
from shoal.fleet.join.controller import new_join_controllers
from shoal.fleet.metrics import FleetMetrics
from shoal.fleet.migration.eviction_controller import EvictionReconciler
from shoal.fleet.migration.log_gc import LogGarbageCollector
from shoal.fleet.migration.relocation_controller import RelocationReconciler
from shoal.fleet.rebalance.controller import Rebalancer
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scaledown.controller import ScaleDownReconciler
from shoal.fleet.scheduler.controller import FleetScheduler
from shoal.fleet.worker.access.controller import AccessReconciler
from shoal.fleet.worker.deps import WorkerDeps
from shoal.fleet.worker.hosting.controller import HostingReconciler
from shoal.fleet.worker.informers import WorkerInformers
from shoal.fleet.worker.kind.controller import KindAccessReconciler
from shoal.fleet.worker.kind.offer import KindOfferProbe
from shoal.fleet.worker.migration import MigrationSupport, new_migration_controllers
from shoal.fleet.worker.registration.controller import WorkerRegistration
from shoal.fleet.worker.reporter.controller import StatusReporter
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.controller import HubSubscriber, message_loader
from shoal.fleet.worker.subscriber.last_message import CALM_SECONDS
from shoal.fleet.workerprocesses.controller import WorkerProcessSupervisor
from shoal.fleet.workerprocesses.interface import WorkerProcesses
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.endpoint import DEFAULT_RANGE, ENDPOINT_READY, PortRange
from shoal.runtime.event_recorder import EventSource
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule

COMPONENT = "shoal-fleet"
MANAGED_CLUSTER_EVENTS = EventRule(
    on_true=frozenset({infrav1.READY}),
    on_change=frozenset({infrav1.SCHEDULED, infrav1.MOVING, infrav1.MOVABLE, ENDPOINT_READY}),
    success_reasons=frozenset({infrav1.MOVED}),
    phases=frozenset({infrav1.UPGRADING, infrav1.TERMINATING}),
    warning_phases=frozenset({infrav1.FAILED}),
    assignment_field="assignedWorker",
)
WORKER_EVENTS = EventRule(
    on_true=frozenset({infrav1.READY}),
    on_change=frozenset({infrav1.BUS_CONNECTED}),
    phases=frozenset({infrav1.TERMINATING}),
    warning_phases=frozenset({infrav1.LOST}),
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """Returns the event controller. `client` is for the hub's root."""
    event_rules = [
        (
            MANAGED_CLUSTERS,
            EventSource(COMPONENT, infrav1.API_VERSION, infrav1.MANAGED_CLUSTER),
            MANAGED_CLUSTER_EVENTS,
        ),
        (WORKERS, EventSource(COMPONENT, infrav1.API_VERSION, infrav1.WORKER), WORKER_EVENTS),
    ]
    return StatusEventController("fleet-events", client, clock, event_rules)


class FleetRunnable(Protocol):
    name: str

    async def run(self) -> None: ...


WATCH_BUS = BusSettings()


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """The addresses that a hub gives to clusters."""

    host: str = "127.0.0.1"
    """The address at which clients reach the hub."""
    ports: PortRange = DEFAULT_RANGE


DEFAULT_ENDPOINTS = EndpointSettings()


def new_hub_controllers(
    client: Client,
    clock: Clock,
    bus_settings: BusSettings = WATCH_BUS,
    endpoints: EndpointSettings = DEFAULT_ENDPOINTS,
) -> list[FleetRunnable]:
    """Returns the controllers of a hub. `client` is for the hub's root."""
    scheduler = FleetScheduler(client.as_controller("fleet-scheduler"), clock)
    evictions = EvictionReconciler(client.as_controller("cluster-migration"), clock, scheduler)
    relocations = RelocationReconciler(
        client.as_controller("cluster-migration"), clock, evictions.migrations, evictions.is_evicted
    )
    rebalancer = Rebalancer(client.as_controller("cluster-rebalancer"), clock, evictions.migrations)
    migration_controllers: list[FleetRunnable] = [
        evictions.controller,
        evictions.migrations.controller,
        relocations.controller,
        rebalancer.controller,
        LogGarbageCollector(client.as_controller("cluster-log-gc"), clock).controller,
    ]
    controllers: list[FleetRunnable] = [
        *scheduler.controllers,
        *new_health_controllers(client.as_controller("worker-health"), clock),
        *new_join_controllers(client.as_controller("worker-join"), clock),
        *migration_controllers,
        EndpointReconciler(
            client.as_controller("cluster-endpoints"), clock, endpoints.ports, endpoints.host
        ).controller,
    ]
    controllers += [
        ScaleDownReconciler(client.as_controller("worker-autoscaler"), clock).controller,
        FleetMetrics(client, clock),
        new_event_controller(client.as_controller("event-recorder"), clock),
    ]
    return [*controllers, *_new_bus_controllers(client.as_controller("fleet-bus"), clock, bus_settings)]


def new_supervisor_controllers(client: Client, clock: Clock, processes: WorkerProcesses | None) -> list[FleetRunnable]:
    """Returns the controllers that every hub replica runs, whichever replica leads the other controllers. `processes`
    is None where a hub runs no worker processes; the supervisor then reports that on Workers that wait for one.
    """
    return [WorkerProcessSupervisor(client, clock, processes).controller]


def _new_bus_controllers(client: Client, clock: Clock, bus_settings: BusSettings) -> list[FleetRunnable]:
    if not bus_settings.is_nats:
        return []
    # Imported late, here and below: only a process that uses NATS waits for its client to load.
    from shoal.fleet.publisher.controller import Publisher  # noqa: PLC0415
    from shoal.fleet.receiver.controller import StatusReceiver  # noqa: PLC0415

    return [Publisher(client, clock, bus_settings).controller, StatusReceiver(client, clock, bus_settings).controller]


def _new_bus(
    hub: Client, own: Client, clock: Clock, worker: str, bus_settings: BusSettings, link_metrics: LinkMetrics | None
) -> Bus:
    if not bus_settings.is_nats:
        return WatchBus(hub, worker, clock, message_loader(own), link_metrics)
    from shoal.fleet.bus.nats_bus import NatsBus  # noqa: PLC0415

    return NatsBus(hub, worker, clock, bus_settings, link_metrics)


async def check_bus(bus_settings: BusSettings, worker: str = "") -> None:
    """Checks the bus before anything is started, for that worker, or for a hub without one. Raises a ShoalError if the
    server cannot be the bus.
    """
    if bus_settings.is_nats:
        from shoal.fleet.bus import jetstream  # noqa: PLC0415

        await jetstream.check_bus(bus_settings, worker_consumer(worker) if worker else HUB_CONSUMER)


def new_worker_controllers(
    hub: Client,
    own: Client,
    clock: Clock,
    settings: WorkerSettings,
    bus_settings: BusSettings = WATCH_BUS,
    link_metrics: LinkMetrics | None = None,
    migration_support: MigrationSupport | None = None,
) -> list[FleetRunnable]:
    """Returns the controllers of a worker. `hub` is for the hub's root, `own` for the worker's. Without
    `migration_support` no cluster is migrated from or to this worker.
    """
    fence = migration_support.fence if migration_support is not None else None
    bus = _new_bus(hub, own, clock, settings.name, bus_settings, link_metrics)
    informers = WorkerInformers(own, clock)
    kind_probe = KindOfferProbe(settings.kind, clock) if settings.kind is not None else None
    offer = None if kind_probe is None else lambda: kind_probe.offer
    registration = WorkerRegistration(hub, own, clock, settings, bus, fence, offer)
    subscriber = HubSubscriber(own, clock, bus, informers, registration, None if bus_settings.is_nats else CALM_SECONDS)
    hosting = HostingReconciler(own, clock, informers, settings)
    reporter = StatusReporter(clock, bus, informers, registration, settings)
    controllers: list[FleetRunnable] = [
        registration.controller,
        subscriber.controller,
        hosting.controller,
        AccessReconciler(own, clock, informers).controller,
        reporter.controller,
    ]
    if settings.kind is not None and kind_probe is not None:
        controllers += [kind_probe, KindAccessReconciler(own, clock, informers, settings.kind).controller]
    if migration_support is not None:
        deps = WorkerDeps(hub, own, clock, bus, informers, registration, settings.name)
        controllers += new_migration_controllers(deps, migration_support.storage, migration_support.fence)
    return [*controllers, informers]
