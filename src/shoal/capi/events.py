"""Records Events about Clusters and Machines from their phases and conditions."""

from __future__ import annotations

from shoal.capi.informers import CLUSTERS, MACHINES
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.clusterapi import capi
from shoal.runtime.event_recorder import EventSource
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
