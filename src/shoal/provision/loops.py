"""All loops of the provisioner: for every hosted cluster of a store, or for one cluster of any server."""

from __future__ import annotations

from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.provision.clusterapi.provider import ClusterAPI
from shoal.provision.clusterapi.settling import Settling
from shoal.provision.emptiness.controller import Emptiness
from shoal.provision.homes import Homes, StoreHomes
from shoal.provision.lifecycle.controller import Lifecycle
from shoal.provision.nodepools.controller import NodeClasses, NodePools
from shoal.provision.provisioning.controller import IDLE_SECONDS, LONGEST_SECONDS, Provisioning
from shoal.provision.view import View
from shoal.runtime.recorder import Recorder


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


def provision_loops(
    client: Client,
    clock: Clock,
    homes: Homes | None = None,
    *,
    idle: float = IDLE_SECONDS,
    longest: float = LONGEST_SECONDS,
) -> list[Runnable]:
    """`homes` defaults to all hosted clusters of the client's store; `idle` and `longest` bound a batch of pods."""
    homes = homes or StoreHomes(client)
    view, recorder = View(homes, clock), Recorder(homes.client, clock)
    provider = ClusterAPI(homes, view, clock)
    provisioning = Provisioning(homes, view, provider, recorder, clock, idle, longest)
    provisioning.loop.sources.append(recorder.run)
    return [
        view,
        Settling(provider, homes, view, clock).loop,
        NodeClasses(homes, view, provider, clock).loop,
        NodePools(homes, view, clock).loop,
        provisioning.loop,
        Lifecycle(homes, view, provider, recorder, clock).loop,
        Emptiness(homes, view, provisioning, recorder, clock).loop,
    ]
