"""Creates the controllers of Cluster API and of the given providers, on shared informers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shoal.capi.clusters.controller import ClusterLoop
from shoal.capi.machinedeployments.controller import MachineDeploymentLoop
from shoal.capi.machinehealthchecks.controller import MachineHealthCheckLoop
from shoal.capi.machines.controller import MachineLoop
from shoal.capi.machinesets.controller import MachineSetLoop
from shoal.capi.resources import Resources
from shoal.capi.telling import capi_events
from shoal.client.requests import Client
from shoal.clock import Clock


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


Provider = Callable[[Resources, Clock], list[Runnable]]
"""Registers its kinds (`CAPIInformers.register_kind`) and returns its controllers, if any run here."""


def capi_loops(client: Client, clock: Clock, *providers: Provider) -> list[Runnable]:
    """`client` is at the management cluster: any API server that serves the kinds of Cluster API and of the
    providers.
    """
    resources = Resources(client, clock)
    provided = [loop for provider in providers for loop in provider(resources, clock)]
    core = (
        ClusterLoop(resources, clock),
        MachineDeploymentLoop(resources, clock),
        MachineSetLoop(resources, clock),
        MachineLoop(resources, clock),
        MachineHealthCheckLoop(resources, clock),
    )
    events = capi_events(client, clock)
    return [*resources.views, resources.foreign, *(each.loop for each in core), *provided, events]
