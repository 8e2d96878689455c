"""Assembles the fleet's controllers: those of a hub and those of a worker."""

from __future__ import annotations

from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.bus.subjects import HUB, worker_consumer
from shoal.fleet.bus.traffic import Traffic
from shoal.fleet.bus.watch import WatchBus
from shoal.fleet.health.controller import health_loops
from shoal.fleet.joining.controller import joining_loops
from shoal.fleet.metrics import FleetMetrics
from shoal.fleet.moving.controller import Departures
from shoal.fleet.processes.controller import Supervisor
from shoal.fleet.processes.interface import Processes
from shoal.fleet.rebalance.controller import Rebalancer
from shoal.fleet.scheduler.controller import Scheduler
from shoal.fleet.shrinking.controller import Shrinking
from shoal.fleet.telling import fleet_events
from shoal.fleet.worker.hosting.controller import Hosting
from shoal.fleet.worker.moving import Moves, moving_loops
from shoal.fleet.worker.own import OwnRoot
from shoal.fleet.worker.parts import Parts
from shoal.fleet.worker.registration.controller import Registration
from shoal.fleet.worker.reporter.controller import Reporter
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.controller import Subscriber, recalling
from shoal.fleet.worker.subscriber.memory import CALM_SECONDS


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


WATCH = BusSettings()


def fleet_hub_loops(client: Client, clock: Clock, over: BusSettings = WATCH) -> list[Runnable]:
    """Returns the controllers of a hub. `client` is for the hub's root."""
    scheduler = Scheduler(client, clock)
    departures = Departures(client, clock, scheduler)
    rebalancer = Rebalancer(client, clock, departures.moves)
    moving: list[Runnable] = [departures.loop, departures.moves.loop, rebalancer.loop]
    loops: list[Runnable] = [*scheduler.loops, *health_loops(client, clock), *joining_loops(client, clock), *moving]
    loops += [Shrinking(client, clock).loop, FleetMetrics(client, clock), fleet_events(client, clock)]
    return [*loops, *_bus_loops(client, clock, over)]


def supervisor_loops(client: Client, clock: Clock, processes: Processes | None) -> list[Runnable]:
    """Returns the controllers that every hub replica runs, whichever replica leads the other controllers. `processes`
    is None where a hub runs no worker processes; the supervisor then reports that on Workers that wait for one.
    """
    return [Supervisor(client, clock, processes).loop]


def _bus_loops(client: Client, clock: Clock, over: BusSettings) -> list[Runnable]:
    if not over.is_nats:
        return []
    # Imported late, here and below: only a process that uses NATS waits for its client to load.
    from shoal.fleet.publisher.controller import Publisher  # noqa: PLC0415
    from shoal.fleet.receiver.controller import Receiver  # noqa: PLC0415

    return [Publisher(client, clock, over).loop, Receiver(client, clock, over).loop]


def _bus(hub: Client, own: Client, clock: Clock, worker: str, over: BusSettings, traffic: Traffic | None) -> Bus:
    if not over.is_nats:
        return WatchBus(hub, worker, clock, recalling(own), traffic)
    from shoal.fleet.bus.nats import NatsBus  # noqa: PLC0415

    return NatsBus(hub, worker, clock, over, traffic)


async def check_bus(over: BusSettings, worker: str = "") -> None:
    """Checks the bus before anything is started, for that worker, or for a hub without one. Raises a ShoalError if the
    server cannot be the bus.
    """
    if over.is_nats:
        from shoal.fleet.bus import jetstream  # noqa: PLC0415

        await jetstream.check_bus(over, worker_consumer(worker) if worker else HUB)


def worker_loops(
    hub: Client,
    own: Client,
    clock: Clock,
    settings: WorkerSettings,
    over: BusSettings = WATCH,
    traffic: Traffic | None = None,
    moves: Moves | None = None,
) -> list[Runnable]:
    """Returns the controllers of a worker. `hub` is for the hub's root, `own` for the worker's. Without
    `migration_support` no cluster is migrated from or to this worker.
    """
    fence = moves.fence if moves is not None else None
    bus = _bus(hub, own, clock, settings.name, over, traffic)
    root = OwnRoot(own, clock)
    registration = Registration(hub, own, clock, settings, bus, fence)
    subscriber = Subscriber(own, clock, bus, root, registration, None if over.is_nats else CALM_SECONDS)
    hosting = Hosting(own, clock, root, settings)
    reporter = Reporter(clock, bus, root, registration, settings)
    loops: list[Runnable] = [registration.loop, subscriber.loop, hosting.loop, reporter.loop]
    if moves is not None:
        parts = Parts(hub, own, clock, bus, root, registration, settings.name)
        loops += moving_loops(parts, moves.data, moves.fence)
    return [*loops, root]
