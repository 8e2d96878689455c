"""Creates the controllers of Cluster API and of the given providers, on shared informers."""

from __future__ import annotations

from collections.abc import Callable

from shoal.capi.clusters.controller import ClusterReconciler
from shoal.capi.informers import CLUSTERS, MACHINES, CAPIInformers
from shoal.capi.machinedeployments.controller import MachineDeploymentReconciler
from shoal.capi.machinehealthchecks.controller import MachineHealthCheckReconciler
from shoal.capi.machines.controller import MachineReconciler
from shoal.capi.machinesets.controller import MachineSetReconciler
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.clusterapi import capi
from shoal.runtime.event_recorder import EventSource
from shoal.runtime.manager import Runnable
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule

COMPONENT, API_VERSION = "shoal-capi", f"{capi.GROUP}/{capi.VERSION}"
CLUSTER_EVENT_RULE = EventRule(
    on_true=frozenset({"Available"}),
    phases=frozenset({"Provisioned", "Deleting"}),
    warning_phases=frozenset({"Failed"}),
)
MACHINE_EVENT_RULE = EventRule(
    phases=frozenset({"Running", "Deleting"}),
    warning_phases=frozenset({"Failed", "Unknown"}),
    on_change=frozenset({"Remediating"}),
    negative_polarity=frozenset({"Remediating", "Deleting", "Updating"}),
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """`client` is at the management cluster."""
    rules = [
        (CLUSTERS, EventSource(COMPONENT, API_VERSION, capi.CLUSTER), CLUSTER_EVENT_RULE),
        (MACHINES, EventSource(COMPONENT, API_VERSION, capi.MACHINE), MACHINE_EVENT_RULE),
    ]
    return StatusEventController("capi-events", client, clock, rules)


Provider = Callable[[CAPIInformers, Clock], list[Runnable]]
"""Registers its kinds (`CAPIInformers.register_kind`) and returns its controllers, if any run here."""


def new_capi_controllers(client: Client, clock: Clock, *providers: Provider) -> list[Runnable]:
    """`client` is at the management cluster: any API server that serves the kinds of Cluster API and of the
    providers.
    """
    informers = CAPIInformers(client, clock)
    provider_controllers = [loop for provider in providers for loop in provider(informers, clock)]
    reconcilers = (
        ClusterReconciler(informers, clock),
        MachineDeploymentReconciler(informers, clock),
        MachineSetReconciler(informers, clock),
        MachineReconciler(informers, clock),
        MachineHealthCheckReconciler(informers, clock),
    )
    events = new_event_controller(client, clock)
    return [
        *informers.all_informers,
        informers.external,
        *(each.controller for each in reconcilers),
        *provider_controllers,
        events,
    ]
