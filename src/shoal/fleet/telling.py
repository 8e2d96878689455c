"""Events about ManagedClusters and Workers, derived from their status conditions and phases."""

from __future__ import annotations

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet
from shoal.runtime.recorder import Source
from shoal.runtime.transitions.controller import Transitions
from shoal.runtime.transitions.decide import Telling

COMPONENT = "shoal-fleet"
ABOUT_MANAGED = Telling(
    summary=frozenset({fleet.READY}),
    news=frozenset({fleet.SCHEDULED, fleet.MOVING, fleet.MOVABLE}),
    phases=frozenset({fleet.UPGRADING, fleet.TERMINATING}),
    bad_phases=frozenset({fleet.FAILED}),
    place="assignedWorker",
)
ABOUT_WORKERS = Telling(
    summary=frozenset({fleet.READY}),
    phases=frozenset({fleet.TERMINATING}),
    bad_phases=frozenset({fleet.LOST}),
)


def fleet_events(client: Client, clock: Clock) -> Transitions:
    """Returns the event controller. `client` is for the hub's root."""
    told = [
        (MANAGED_CLUSTERS, Source(COMPONENT, fleet.API_VERSION, fleet.MANAGED_CLUSTER), ABOUT_MANAGED),
        (WORKERS, Source(COMPONENT, fleet.API_VERSION, fleet.WORKER), ABOUT_WORKERS),
    ]
    return Transitions("fleet-events", client, clock, told)
