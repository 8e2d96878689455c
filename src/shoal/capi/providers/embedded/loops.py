"""Creates the controllers of the embedded provider."""

from __future__ import annotations

from collections.abc import Callable

from shoal.capi.loops import Provider, Runnable
from shoal.capi.providers.embedded.clusters.controller import EmbeddedClusterLoop
from shoal.capi.providers.embedded.clusters.decide import Server
from shoal.capi.providers.embedded.machines.controller import EmbeddedMachineLoop
from shoal.capi.providers.embedded.resources import EmbeddedResources
from shoal.capi.resources import Resources
from shoal.client.requests import Client
from shoal.clock import Clock


def embedded_provider(host: Client, url: Callable[[], str] | str, authority: str) -> Provider:
    """`host` is a client at the root of the hosting server. `url` is the address for clients, `ca_pem` the CA
    certificate they trust.
    """

    def server() -> Server:
        return Server(url if isinstance(url, str) else url(), authority)

    def provider(core: Resources, clock: Clock) -> list[Runnable]:
        resources = EmbeddedResources(core, host, clock)
        return [EmbeddedClusterLoop(resources, clock, server).loop, EmbeddedMachineLoop(resources, clock).loop]

    return provider
