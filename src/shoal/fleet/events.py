"""Events about ManagedClusters and Workers, derived from their status conditions and phases."""

from __future__ import annotations

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.runtime.event_recorder import EventSource
from shoal.runtime.status_events.controller import StatusEventController
from shoal.runtime.status_events.decide import EventRule

COMPONENT = "shoal-fleet"
MANAGED_CLUSTER_EVENTS = EventRule(
    on_true=frozenset({infrav1.READY}),
    on_change=frozenset({infrav1.SCHEDULED, infrav1.MOVING, infrav1.MOVABLE}),
    phases=frozenset({infrav1.UPGRADING, infrav1.TERMINATING}),
    warning_phases=frozenset({infrav1.FAILED}),
    assignment_field="assignedWorker",
)
WORKER_EVENTS = EventRule(
    on_true=frozenset({infrav1.READY}),
    phases=frozenset({infrav1.TERMINATING}),
    warning_phases=frozenset({infrav1.LOST}),
)


def new_event_controller(client: Client, clock: Clock) -> StatusEventController:
    """Returns the event controller. `client` is for the hub's root."""
    event_rules = [
        (
            MANAGED_CLUSTERS,
            EventSource(COMPONENT, infrav1.API_VERSION, infrav1.MANAGED_CLUSTER),
            MANAGED_CLUSTER_EVENTS,
        ),
        (WORKERS, EventSource(COMPONENT, infrav1.API_VERSION, infrav1.WORKER), WORKER_EVENTS),
    ]
    return StatusEventController("fleet-events", client, clock, event_rules)
