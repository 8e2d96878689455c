"""Events about Placements, derived from their conditions, and about placed objects."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.kinds import placement, workload
from shoal.placement.splitter.outcome import Split
from shoal.runtime.recorder import Source
from shoal.runtime.transitions.controller import Transitions
from shoal.runtime.transitions.decide import Telling

Object = dict[str, Any]

COMPONENT = "shoal-placement"
MOST_NAMED = 10
PLACEMENTS = Kind(placement.GROUP, placement.VERSION, placement.PLURAL)
ABOUT = Telling(
    summary=frozenset({placement.VALID}),
    news=frozenset({placement.VALID, placement.SUPERSEDED}),
    alarming=frozenset({placement.SUPERSEDED}),
)


def placement_events(client: Client, clock: Clock) -> Transitions:
    """Returns the event controller. `client` is for the hub's root."""
    source = Source(COMPONENT, f"{placement.GROUP}/{placement.VERSION}", placement.KIND)
    return Transitions("placement-events", client, clock, [(PLACEMENTS, source, ABOUT)])


def about(root: Object) -> Source:
    return Source(COMPONENT, root["apiVersion"], root["kind"])


def placed(found: Split) -> str:
    """Returns the changes by cluster; empty if there are none."""
    said = [f"{_where(leaf)}{_many(leaf)}" for leaf in (*found.create, *found.update)]
    said += [f"gone from {_where(leaf)}" for leaf in found.delete if "deletionTimestamp" not in leaf["metadata"]]
    more = [f"and {len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
    return ", ".join([*said[:MOST_NAMED], *more])


def _where(leaf: Object) -> str:
    return workload.assigned_to(leaf)


def _many(leaf: Object) -> str:
    replicas = (leaf.get("spec") or {}).get("replicas")
    return f": {replicas}" if isinstance(replicas, int) else ""
