"""The loops: named sets of controllers, each of which runs beside the API server or in `shoal controllers`.

Both build them here, of the same context, so a loop does the same wherever it runs. What a loop needs of the process of
the hub, it gets through the API of the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shoal.capi import informers as capi
from shoal.capi.controllers import Provider, new_capi_controllers
from shoal.capi.providers.embedded.controllers import embedded_provider, unhosted_provider
from shoal.capi.providers.embedded.informers import EMBEDDED_CLUSTERS, EMBEDDED_MACHINES, EMBEDDED_TEMPLATES
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from shoal.capi.providers.kind.controllers import KindSettings, kind_provider, new_kind_controllers
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.fleet import resources as fleet
from shoal.fleet.bundle.controller import BundleSettings, new_bundle_controllers
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.controllers import DEFAULT_ENDPOINTS, WATCH_BUS, EndpointSettings, new_hub_controllers
from shoal.placement.revisions.controller import new_revision_controllers
from shoal.placement.splitter.controller import new_splitter_controllers
from shoal.placement.splitter.events import new_event_controller as new_placement_event_controller
from shoal.provision.controllers import new_provision_controllers
from shoal.runtime.manager import Runnable
from shoal.sync import resources as sync
from shoal.sync.controllers import SyncSettings, new_import_controllers, new_syncer_controllers
from shoal.sync.remote_cluster import NewClient

SYNCER_AGENT, BUNDLE_AGENT = "shoal-syncer", "shoal-bundle"
"""User agents, and so field managers, in the clusters that the loops connect to."""


@dataclass(frozen=True, slots=True)
class HostingServer:
    """The server that hosts the clusters of the embedded provider."""

    client: Client
    """A client of its root."""
    url: str
    """The address for clients."""
    authority: Callable[[], str] | str
    """PEM: the authority that clients trust."""
    server_name: Callable[[], str] = lambda: ""
    """The name in the serving certificate that clients ask for; empty: the host of the URL."""

    def ca_pem(self) -> str:
        return self.authority if isinstance(self.authority, str) else self.authority()


@dataclass(frozen=True, slots=True)
class LoopContext:
    """The dependencies of loops."""

    client: Client
    """For the root of the hub, or for another API server."""
    clock: Clock
    connect: Callable[[str], NewClient]
    """Returns, for a user agent, how kubeconfigs in the API are used."""
    hosting: HostingServer | None = None
    """At a Shoal server: that server."""
    sync: SyncSettings = field(default_factory=SyncSettings)
    bus: BusSettings = WATCH_BUS
    endpoints: EndpointSettings = DEFAULT_ENDPOINTS
    worker_image: str = ""
    """The image of bundles; empty: that of the release."""


@dataclass(frozen=True, slots=True)
class LoopDescriptor:
    required_kinds: tuple[GroupVersionResource, ...]
    """Kinds that must be served."""
    new_controllers: Callable[[LoopContext], Iterable[Runnable]]


def _new_capi_controllers(context: LoopContext) -> list[Runnable]:
    hosting = context.hosting
    embedded: Provider = unhosted_provider
    if hosting is not None:
        host = hosting.client.as_controller("embedded-provider")
        embedded = embedded_provider(host, hosting.url, hosting.authority)
    return [*new_capi_controllers(context.client.as_controller("cluster-api"), context.clock, embedded, kind_provider)]


def _new_kind_controllers(context: LoopContext) -> list[Runnable]:
    client = context.client.as_controller("kind-provider")
    return [*new_kind_controllers(client, context.clock, KindSettings(), KindCommand())]


def _new_provision_controllers(context: LoopContext) -> list[Runnable]:
    return new_provision_controllers(context.client.as_controller("karpenter"), context.clock)


def _new_fleet_controllers(context: LoopContext) -> list[Runnable]:
    return [*new_hub_controllers(context.client, context.clock, context.bus, context.endpoints)]


def _new_bundle_controllers(context: LoopContext) -> list[Runnable]:
    assert context.hosting is not None, "bundles are of a hub"
    hosting = context.hosting
    settings = BundleSettings(hosting.url, hosting.ca_pem(), context.worker_image, server_name=hosting.server_name)
    client = context.client.as_controller("worker-bundle")
    return [*new_bundle_controllers(client, context.clock, context.connect(BUNDLE_AGENT), settings)]


def _new_import_controllers(context: LoopContext) -> list[Runnable]:
    return new_import_controllers(context.client, context.clock, context.connect(SYNCER_AGENT), context.sync)


def _new_syncer_controllers(context: LoopContext) -> list[Runnable]:
    return new_syncer_controllers(context.client, context.clock, context.connect(SYNCER_AGENT), context.sync)


def _new_splitter_controllers(context: LoopContext) -> list[Runnable]:
    splitter = context.client.as_controller("splitter")
    return [
        *new_splitter_controllers(splitter, context.clock),
        *new_revision_controllers(splitter, context.clock),
        new_placement_event_controller(context.client.as_controller("event-recorder"), context.clock),
    ]


_WORKLOAD_KINDS = (sync.CLUSTERS, sync.IMPORTS, sync.NEGOTIATED)
DESCRIPTORS = {
    "capi": LoopDescriptor(
        (
            *(capi.CLUSTERS, capi.MACHINE_DEPLOYMENTS, capi.MACHINE_SETS, capi.MACHINES, capi.MACHINE_HEALTH_CHECKS),
            *(EMBEDDED_CLUSTERS, EMBEDDED_MACHINES, EMBEDDED_TEMPLATES, KIND_CLUSTERS),
        ),
        _new_capi_controllers,
    ),
    "kind": LoopDescriptor((KIND_CLUSTERS, capi.CLUSTERS), _new_kind_controllers),
    "importer": LoopDescriptor((*_WORKLOAD_KINDS, sync.SCHEMAS, sync.MANAGED_CLUSTERS), _new_import_controllers),
    "fleet": LoopDescriptor((fleet.MANAGED_CLUSTERS, fleet.WORKERS), _new_fleet_controllers),
    "bundle": LoopDescriptor((fleet.WORKERS,), _new_bundle_controllers),
    "syncer": LoopDescriptor(_WORKLOAD_KINDS, _new_syncer_controllers),
    "splitter": LoopDescriptor(_WORKLOAD_KINDS, _new_splitter_controllers),
    "provisioner": LoopDescriptor((), _new_provision_controllers),
}
"""By the names in `kinds.rbac.loop_accounts`."""


def new_loop_controllers(names: Iterable[str], context: LoopContext) -> list[Runnable]:
    return [controller for name in names for controller in DESCRIPTORS[name].new_controllers(context)]
