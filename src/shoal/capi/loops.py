"""The loops of Cluster API and its providers, on shared views: one list says which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shoal.capi.clusters.controller import ClusterLoop
from shoal.capi.machinedeployments.controller import MachineDeploymentLoop
from shoal.capi.machines.controller import MachineLoop
from shoal.capi.machinesets.controller import MachineSetLoop
from shoal.capi.providers.embedded.clusters.controller import EmbeddedClusterLoop
from shoal.capi.providers.embedded.clusters.decide import Server
from shoal.capi.providers.embedded.machines.controller import EmbeddedMachineLoop
from shoal.capi.resources import Resources
from shoal.client.requests import Client
from shoal.clock import Clock


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


def capi_loops(client: Client, clock: Clock, url: Callable[[], str] | str, authority: str) -> list[Runnable]:
    """`client` is at the root; `url` is where clients reach this server, `authority` what they trust, as PEM."""
    resources = Resources(client, clock)

    def server() -> Server:
        return Server(url if isinstance(url, str) else url(), authority)

    loops = (
        ClusterLoop(resources, clock),
        MachineDeploymentLoop(resources, clock),
        MachineSetLoop(resources, clock),
        MachineLoop(resources, clock),
        EmbeddedClusterLoop(client, resources, clock, server),
        EmbeddedMachineLoop(resources, clock),
    )
    return [*resources.views, *(each.loop for each in loops)]
