"""Creates the controllers of the kind provider. They need its kind, Clusters and Secrets from any API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from shoal.capi.providers.kind.command import Kind
from shoal.capi.providers.kind.controller import KIND_CLUSTERS, KindClusterLoop
from shoal.capi.providers.kind.steps import Pauses
from shoal.capi.resources import Resources
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import kindcluster


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KindSettings:
    creates: int = 2
    """Clusters created concurrently."""
    resync: float = 60.0
    """Seconds between lists of the existing clusters."""
    pauses: Pauses = field(default_factory=Pauses)


def kind_loops(client: Client, clock: Clock, settings: KindSettings, command: Kind) -> list[Runnable]:
    """`client` is at the management cluster; `command` creates the clusters on this machine."""
    loop = KindClusterLoop(
        client, clock, command, creates=settings.creates, resync=settings.resync, pauses=settings.pauses
    )
    return [loop.objects, loop.clusters, loop.secrets, loop.works, loop.loop]


def kind_provider(resources: Resources, clock: Clock) -> list[Runnable]:
    """Registers KINDClusters with the core of Cluster API. `new_kind_controllers` reconciles them, wherever kind
    runs.
    """
    resources.provide(KIND_CLUSTERS, kindcluster.KIND)
    return []
