"""Creates the controllers of this package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.workload import DEFAULT_RESOURCES as DEFAULT_RESOURCES
from shoal.objects.errors import ShoalError
from shoal.sync.connecting import Connect, Object, Reached, reach_by
from shoal.sync.events import cluster_events
from shoal.sync.importer.controller import Importer
from shoal.sync.negotiation.controller import Negotiation
from shoal.sync.registration.capacities import Capacities
from shoal.sync.registration.controller import registration_loop
from shoal.sync.reporting import Reporter
from shoal.sync.syncer.loops import syncer_loops
from shoal.sync.syncer.pulling import PullSyncer


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SyncSettings:
    resources_to_sync: tuple[str, ...] = DEFAULT_RESOURCES
    auto_publish: bool = True
    """Whether a negotiated API is published by default."""
    mode: str = "push"

    def __post_init__(self) -> None:
        if self.mode not in workload.SYNC_MODES:
            raise ShoalError(f"no sync mode {self.mode!r}: there are {', '.join(workload.SYNC_MODES)}")


def sync_loops(client: Client, clock: Clock, connect: Connect, settings: SyncSettings) -> list[Runnable]:
    """`client` is at the hub's root; `new_client` builds a client from a parsed kubeconfig."""
    reporter = Reporter(client, clock, settings.mode)
    reach = reach_by(client, connect)
    loops: list[Runnable] = [
        registration_loop(client, clock),
        Importer(client, clock, reach, settings.resources_to_sync, reporter, mode=settings.mode).loop,
        Negotiation(client, clock, settings.auto_publish).loop,
        Capacities(client, clock, reach, mode=settings.mode).loop,
        cluster_events(client, clock),
    ]
    loops += syncer_loops(client, clock, connect, settings.resources_to_sync, reporter, settings.mode)
    return loops


def pull_loops(
    name: str, hub: Client, local: Callable[[], Client], clock: Clock, resources: tuple[str, ...]
) -> list[Runnable]:
    """Controllers of a process that syncs the single workload Cluster `name`. `hub` is a client with its own identity
    at the hub; `new_local_client` creates clients of the cluster.
    """

    async def reach(cluster: Object) -> Reached:
        return Reached(local())

    importer = Importer(hub, clock, reach, resources, Reporter(hub, clock, workload.PULL), only=name)
    capacities = Capacities(hub, clock, reach, only=name)
    return [PullSyncer(name, hub, local, clock), importer.loop, capacities.loop]
