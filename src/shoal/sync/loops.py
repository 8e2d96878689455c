"""The loops of this package, for whoever puts a process together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.objects.errors import ShoalError
from shoal.sync.connecting import Connect
from shoal.sync.importer.controller import Importer
from shoal.sync.negotiation.controller import Negotiation
from shoal.sync.registration.controller import registration_loop
from shoal.sync.reporting import Reporter
from shoal.sync.syncer.controller import Syncers
from shoal.sync.syncer.hub import Hub

MODES = ("push", "none")


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SyncSettings:
    resources_to_sync: tuple[str, ...] = ("deployments.apps",)
    auto_publish: bool = True
    """Whether an API that was negotiated is served without anybody saying so."""
    mode: str = "push"

    def __post_init__(self) -> None:
        if self.mode == "pull":
            raise ShoalError("sync mode pull is not supported yet: use push or none")
        if self.mode not in MODES:
            raise ShoalError(f"no sync mode {self.mode!r}: there are {' and '.join(MODES)}")


def sync_loops(client: Client, clock: Clock, connect: Connect, settings: SyncSettings) -> list[Runnable]:
    """`client` is of the hub's root; `connect` makes a client of a parsed kubeconfig."""
    push = settings.mode == "push"
    reporter = Reporter(client, clock, workload.PARTS if push else (workload.IMPORTER_READY,))
    loops: list[Runnable] = [
        registration_loop(client, clock),
        Importer(client, clock, connect, settings.resources_to_sync, reporter).loop,
        Negotiation(client, clock, settings.auto_publish).loop,
    ]
    if push:
        hub = Hub(client, clock, list(settings.resources_to_sync))
        loops += [hub.loop, Syncers(client, clock, connect, hub, reporter)]
    return loops
