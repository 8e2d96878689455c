"""Orders Machines for deletion when there are too many. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.kinds.clusterapi.capi import DELETE_MACHINE, annotations_of, is_deleting
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


def machines_to_delete(machines: Sequence[Object], count: int, order: str) -> list[Object]:
    """Deleting first, then annotated for deletion, then unhealthy, then by `order`; Random is by name."""
    if count <= 0:
        return []
    by_name = sorted(machines, key=lambda machine: str(machine["metadata"]["name"]))
    if order != "Random":
        by_name.sort(key=_creation_time, reverse=order == "Newest")
    return sorted(by_name, key=_delete_priority)[:count]


def _creation_time(machine: Mapping[str, Any]) -> str:
    return str(machine["metadata"].get("creationTimestamp", ""))


def _delete_priority(machine: Mapping[str, Any]) -> int:
    if is_deleting(machine):
        return 0
    if DELETE_MACHINE in annotations_of(machine):
        return 1
    return 3 if is_healthy(machine) else 2


def is_healthy(machine: Mapping[str, Any]) -> bool:
    """Unknown conditions do not count as unhealthy."""
    if not (machine.get("status") or {}).get("nodeRef"):
        return False
    return not condition_is(machine, "NodeHealthy", "False") and not condition_is(
        machine, "HealthCheckSucceeded", "False"
    )
