"""Creates all controllers of the provisioner, for every hosted cluster of a store or for one cluster of any server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.provision.census import Census
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.clusterapi.provider import ClusterAPI
from shoal.provision.clusterapi.settling import Settling
from shoal.provision.disruption.loops import disruption_loops
from shoal.provision.homes import Homes, StoreHomes
from shoal.provision.lifecycle.loops import lifecycle_loops
from shoal.provision.measured import Measured
from shoal.provision.nodepools.controller import NodeClasses, NodeOverlays, NodePools
from shoal.provision.overlaying import Overlaying, Overlays
from shoal.provision.provisioning.controller import Provisioning
from shoal.provision.settings import DEFAULT, Settings
from shoal.provision.solver.pool import SolverPool
from shoal.provision.view import View
from shoal.runtime.recorder import Recorder


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


Vendor = Callable[[Homes, View, Clock], tuple[CloudProvider, list[Runnable]]]
"""Creates a cloud provider and the controllers that the provider itself runs."""


def cluster_api(homes: Homes, view: View, clock: Clock) -> tuple[CloudProvider, list[Runnable]]:
    overlays = Overlays(view)
    provider = ClusterAPI(homes, view, clock, overlays.types)
    return Overlaying(provider, overlays), [Settling(provider, homes, view, clock).loop]


def provision_loops(
    client: Client,
    clock: Clock,
    homes: Homes | None = None,
    settings: Settings = DEFAULT,
    vendor: Vendor = cluster_api,
) -> list[Runnable]:
    """Creates the controllers. `resolver` defaults to all hosted clusters of the client's store."""
    homes = homes or StoreHomes(client)
    view, recorder = View(homes, clock), Recorder(homes.client, clock)
    provider, own = vendor(homes, view, clock)
    measured = Measured(provider, "provisioner", clock)
    solver, looks = SolverPool(), SolverPool()  # separate processes: provisioning does not wait for disruption
    provisioning = Provisioning(homes, view, measured, recorder, clock, settings, solver)
    provisioning.loop.sources.append(recorder.run)
    return [
        view,
        Census(view, provider, clock),
        solver,
        looks,
        *own,
        NodeClasses(homes, view, provider, clock).loop,
        NodePools(homes, view, clock).loop,
        NodeOverlays(homes, view, provider, clock).loop,
        provisioning.loop,
        *lifecycle_loops(homes, view, provider, recorder, clock, repair=settings.node_repair),
        *disruption_loops(
            homes, view, Measured(provider, "disruption", clock), provisioning, recorder, clock, looks, settings
        ),
    ]
