"""Creates the controllers of the embedded provider."""

from __future__ import annotations

from collections.abc import Callable

from shoal.capi.controllers import Provider
from shoal.capi.informers import CAPIInformers
from shoal.capi.providers.embedded.clusters.controller import EmbeddedClusterReconciler
from shoal.capi.providers.embedded.clusters.decide import HostingServer
from shoal.capi.providers.embedded.informers import EmbeddedInformers
from shoal.capi.providers.embedded.machines.controller import EmbeddedMachineReconciler
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.runtime.manager import Runnable


def embedded_provider(host: Client, url: Callable[[], str] | str, ca_pem: str) -> Provider:
    """`host` is a client at the root of the hosting server. `url` is the address for clients, `ca_pem` the CA
    certificate they trust.
    """

    def server() -> HostingServer:
        return HostingServer(url if isinstance(url, str) else url(), ca_pem)

    def provider(core: CAPIInformers, clock: Clock) -> list[Runnable]:
        informers = EmbeddedInformers(core, host, clock)
        return [
            EmbeddedClusterReconciler(informers, clock, server).controller,
            EmbeddedMachineReconciler(informers, clock).controller,
        ]

    return provider
