"""Decides the address of one ManagedCluster or LogicalCluster: the port it keeps or gets, or why it gets none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.kinds.fleet.endpoint import (
    ENDPOINT_READY,
    PORT_ALLOCATED,
    PORT_OUT_OF_RANGE,
    PORT_TAKEN,
    RANGE_FULL,
    Endpoint,
    PortRange,
    endpoint_object,
    endpoint_of,
    requested_port,
    wants_port,
)
from shoal.objects.conditions import remove_condition, set_condition

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EndpointSnapshot:
    obj: Object
    """The ManagedCluster or LogicalCluster."""
    others_at: Callable[[int], Iterable[Object]]
    """Returns the other clusters whose status has that port."""
    ports: PortRange
    host: str
    """The address of the hub."""


def decide(snapshot: EndpointSnapshot, now: str) -> Object | None:
    """Returns the object with its new status; None if the status is current.

    A port is kept for the life of the cluster, also while the cluster is being deleted. Only another `spec.endpoint`
    changes it.
    """
    obj = snapshot.obj
    if "deletionTimestamp" in obj["metadata"]:
        return None
    updated = _with_port(snapshot, now) if wants_port(obj) else _without_endpoint(remove_condition(obj, ENDPOINT_READY))
    return None if updated is obj else updated


def _with_port(snapshot: EndpointSnapshot, now: str) -> Object:
    obj, requested = snapshot.obj, requested_port(snapshot.obj)
    current = endpoint_of(obj)
    port: int | None
    if current is not None and requested in (0, current.port) and _owner_at(snapshot, current.port) is None:
        port, reason, message = _check_range(snapshot, current.port)
    elif requested:
        port, reason, message = _requested_port(snapshot, requested)
    else:
        port, reason, message = _free_port(snapshot)
    if port is None:
        return _with_condition(_without_endpoint(obj), "False", reason, message, now)
    endpoint = Endpoint(snapshot.host, port)
    if current != endpoint:
        obj = {**obj, "status": {**(obj.get("status") or {}), "endpoint": endpoint_object(endpoint)}}
    status = "True" if reason == PORT_ALLOCATED else "False"
    return _with_condition(obj, status, reason, message or f"its address is {endpoint}", now)


def _check_range(snapshot: EndpointSnapshot, port: int) -> tuple[int, str, str]:
    """The range of the hub may have changed. The port stays the cluster's."""
    if port in snapshot.ports:
        return port, PORT_ALLOCATED, ""
    return port, PORT_OUT_OF_RANGE, _range_message(snapshot, port)


def _requested_port(snapshot: EndpointSnapshot, port: int) -> tuple[int | None, str, str]:
    if port not in snapshot.ports:
        return None, PORT_OUT_OF_RANGE, _range_message(snapshot, port)
    owner = next(iter(snapshot.others_at(port)), None)
    if owner is not None:
        return None, PORT_TAKEN, f"port {port} belongs to {_describe(owner)}"
    return port, PORT_ALLOCATED, ""


def _free_port(snapshot: EndpointSnapshot) -> tuple[int | None, str, str]:
    for port in range(snapshot.ports.first, snapshot.ports.last + 1):
        if not any(True for _ in snapshot.others_at(port)):
            return port, PORT_ALLOCATED, ""
    return None, RANGE_FULL, f"all ports of the hub's range {snapshot.ports} are in use: widen --cluster-ports"


def _owner_at(snapshot: EndpointSnapshot, port: int) -> Object | None:
    """Two clusters can have one port if somebody has written their status: the older one keeps it."""
    own_age = _age(snapshot.obj)
    return next((other for other in snapshot.others_at(port) if _age(other) < own_age), None)


def _age(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return str(metadata.get("creationTimestamp", "")), str(metadata.get("uid", ""))


def _range_message(snapshot: EndpointSnapshot, port: int) -> str:
    return f"port {port} is not in the hub's range {snapshot.ports}"


def _describe(obj: Object) -> str:
    metadata = obj["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
    return f"{obj['kind']} {name}"


def _without_endpoint(obj: Object) -> Object:
    status = obj.get("status") or {}
    if "endpoint" not in status:
        return obj
    return {**obj, "status": {key: value for key, value in status.items() if key != "endpoint"}}


def _with_condition(obj: Object, status: str, reason: str, message: str, now: str) -> Object:
    generation = obj["metadata"].get("generation")
    is_managed = bool(obj["metadata"].get("namespace"))
    return set_condition(
        obj,
        ENDPOINT_READY,
        status,
        reason=reason,
        message=message,
        observed_generation=generation if is_managed else None,
        now=now,
    )
