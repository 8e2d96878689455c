"""The fleet's loops: those of a hub, and those of a worker."""

from __future__ import annotations

from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.watch import WatchBus
from shoal.fleet.health.controller import health_loop
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


def fleet_hub_loops(client: Client, clock: Clock) -> list[Runnable]:
    """`client` is of the hub's root."""
    return [*Scheduler(client, clock).loops, health_loop(client, clock), *joining_loops(client, clock)]


def worker_loops(hub: Client, own: Client, clock: Clock, settings: WorkerSettings) -> list[Runnable]:
    """`hub` is of the hub's root, `own` of the worker's."""
    bus = WatchBus(hub, settings.name, clock)
    root = OwnRoot(own, clock)
    registration = Registration(hub, own, clock, settings, bus)
    subscriber = Subscriber(own, clock, bus, root, registration)
    hosting = Hosting(own, clock, root, settings)
    reporter = Reporter(clock, bus, root, registration, settings)
    return [registration.loop, subscriber.loop, hosting.loop, reporter.loop, root]
