"""The fleet's loops: those of a hub, and those of a worker."""

from __future__ import annotations

from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.bus.subjects import HUB, worker_consumer
from shoal.fleet.bus.watch import WatchBus
from shoal.fleet.health.controller import health_loops
from shoal.fleet.joining.controller import joining_loops
from shoal.fleet.scheduler.controller import Scheduler
from shoal.fleet.worker.hosting.controller import Hosting
from shoal.fleet.worker.own import OwnRoot
from shoal.fleet.worker.registration.controller import Registration
from shoal.fleet.worker.reporter.controller import Reporter
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.controller import Subscriber


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


WATCH = BusSettings()


def fleet_hub_loops(client: Client, clock: Clock, over: BusSettings = WATCH) -> list[Runnable]:
    """`client` is of the hub's root."""
    loops = [*Scheduler(client, clock).loops, *health_loops(client, clock), *joining_loops(client, clock)]
    return [*loops, *_bus_loops(client, clock, over)]


def _bus_loops(client: Client, clock: Clock, over: BusSettings) -> list[Runnable]:
    if not over.is_nats:
        return []
    # Late, here and below: only who asks for NATS waits for its client to be loaded.
    from shoal.fleet.publisher.controller import Publisher  # noqa: PLC0415
    from shoal.fleet.receiver.controller import Receiver  # noqa: PLC0415

    return [Publisher(client, clock, over).loop, Receiver(client, clock, over).loop]


def _bus(hub: Client, clock: Clock, worker: str, over: BusSettings) -> Bus:
    if not over.is_nats:
        return WatchBus(hub, worker, clock)
    from shoal.fleet.bus.nats import NatsBus  # noqa: PLC0415

    return NatsBus(hub, worker, clock, over)


async def check_bus(over: BusSettings, worker: str = "") -> None:
    """For that worker, else for a hub, before anything is begun: raises a ShoalError where it cannot be."""
    if over.is_nats:
        from shoal.fleet.bus import jetstream  # noqa: PLC0415

        await jetstream.check_bus(over, worker_consumer(worker) if worker else HUB)


def worker_loops(
    hub: Client, own: Client, clock: Clock, settings: WorkerSettings, over: BusSettings = WATCH
) -> list[Runnable]:
    """`hub` is of the hub's root, `own` of the worker's."""
    bus = _bus(hub, clock, settings.name, over)
    root = OwnRoot(own, clock)
    registration = Registration(hub, own, clock, settings, bus)
    subscriber = Subscriber(own, clock, bus, root, registration)
    hosting = Hosting(own, clock, root, settings)
    reporter = Reporter(clock, bus, root, registration, settings)
    return [registration.loop, subscriber.loop, hosting.loop, reporter.loop, root]
