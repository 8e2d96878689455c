"""Records Events about Clusters and Machines from their phases and conditions."""

from __future__ import annotations

from shoal.capi.resources import CLUSTERS, MACHINES
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.kinds import capi
from shoal.runtime.recorder import Source
from shoal.runtime.transitions.controller import Transitions
from shoal.runtime.transitions.decide import Telling

COMPONENT, API_VERSION = "shoal-capi", f"{capi.GROUP}/{capi.VERSION}"
ABOUT_CLUSTERS = Telling(
    summary=frozenset({"Available"}),
    phases=frozenset({"Provisioned", "Deleting"}),
    bad_phases=frozenset({"Failed"}),
)
ABOUT_MACHINES = Telling(
    phases=frozenset({"Running", "Deleting"}),
    bad_phases=frozenset({"Failed", "Unknown"}),
    news=frozenset({"Remediating"}),
    alarming=frozenset({"Remediating", "Deleting", "Updating"}),
)


def capi_events(client: Client, clock: Clock) -> Transitions:
    """`client` is at the management cluster."""
    told = [
        (CLUSTERS, Source(COMPONENT, API_VERSION, capi.CLUSTER), ABOUT_CLUSTERS),
        (MACHINES, Source(COMPONENT, API_VERSION, capi.MACHINE), ABOUT_MACHINES),
    ]
    return Transitions("capi-events", client, clock, told)
