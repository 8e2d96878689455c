"""Builds what a worker observes of a kind cluster into the status of its copy. Pure.

The copy is in the worker's own root. The reporter sends its status to the hub, together with that of the KINDCluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fleet.worker.access.decide import GRANTED, NAME_TAKEN
from shoal.kinds.fleet import infrav1
from shoal.objects.conditions import condition_is, set_condition

Object = dict[str, Any]

RUNNING, UNREACHABLE = "Running", "APIUnreachable"
"""Reasons of the condition Ready of a copy."""


@dataclass(frozen=True, slots=True)
class KindObservation:
    """What the API of a kind cluster has answered."""

    version: str
    ready_nodes: int
    taken_bindings: Sequence[str] = ()
    """ClusterRoleBindings of somebody else that have the names of ours."""


def ready_node_count(nodes: Iterable[Object]) -> int:
    return sum(condition_is(node, "Ready") for node in nodes)


def observed_status(copy: Object, observation: KindObservation, now: str) -> Object:
    """Returns the copy with its new status; the same copy if nothing changes."""
    granted = "True", GRANTED, ""
    if observation.taken_bindings:
        names = ", ".join(sorted(observation.taken_bindings))
        granted = "False", NAME_TAKEN, f"ClusterRoleBindings {names} exist and are not Shoal's"
    updated = _with_condition(copy, infrav1.ACCESS_GRANTED, granted, now)
    updated = _with_condition(updated, infrav1.READY, ("True", RUNNING, "the API server answers"), now)
    fields = {"version": observation.version, "nodes": observation.ready_nodes}
    if fields.items() <= infrav1.status_of(updated).items():
        return updated
    return {**updated, "status": {**infrav1.status_of(updated), **fields}}


def unreachable_status(copy: Object, message: str, now: str) -> Object:
    """Returns the copy with its new status; the same copy if nothing changes."""
    return _with_condition(copy, infrav1.READY, ("False", UNREACHABLE, message), now)


def _with_condition(copy: Object, type_: str, values: tuple[str, str, str], now: str) -> Object:
    generation, (status, reason, message) = copy["metadata"].get("generation"), values
    return set_condition(copy, type_, status, reason=reason, message=message, observed_generation=generation, now=now)
