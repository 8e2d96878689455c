"""Distributes endpoints over EndpointSlices so that a change of few endpoints rewrites few slices. Pure.

The order of preference is upstream's: endpoints stay in their slice; new ones go into slices that change anyway, then
into the one slice that has room for all of them, and only then into new slices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.endpoints.members import ServicePorts

Object = dict[str, Any]
EndpointsByKey = dict[tuple[Any, ...], Object]
"""Endpoints by identity."""

MAX_ENDPOINTS_PER_SLICE = 100
"""Maximum number of endpoints in a slice."""


@dataclass(slots=True)
class SliceChanges:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)

    def add(self, other: SliceChanges) -> None:
        self.create += other.create
        self.update += other.update
        self.delete += other.delete


def endpoint_key(endpoint: Object) -> tuple[Any, ...]:
    target = endpoint.get("targetRef") or {}
    addresses = tuple(endpoint.get("addresses") or ())
    return addresses, endpoint.get("hostname"), target.get("namespace"), target.get("name")


def ports_key(ports: Iterable[Object] | None) -> tuple[Any, ...]:
    keys = [
        (each.get("name") or "", each.get("protocol") or "TCP", each.get("port") or 0, each.get("appProtocol") or "")
        for each in ports or ()
    ]
    return tuple(sorted(keys))


def slice_ports(ports: ServicePorts) -> list[Object]:
    result = []
    for port in ports:
        item: Object = {"name": port.name, "protocol": port.protocol, "port": port.port}
        if port.app_protocol is not None:
            item["appProtocol"] = port.app_protocol
        result.append(item)
    return result


def assign_to_slices(
    new: Object, labels: dict[str, str], desired: EndpointsByKey, existing: list[Object]
) -> SliceChanges:
    """Assigns endpoints of one set of ports. `new` is a slice without endpoints, `existing` are those with the same
    ports.
    """
    unassigned, result = dict(desired), SliceChanges()
    changing: list[Object] = []
    unchanged: list[Object] = []
    for endpoint_slice in existing:
        before = endpoint_slice.get("endpoints") or []
        kept = [unassigned.pop(key) for key in map(endpoint_key, before) if key in unassigned]
        if kept == before and endpoint_slice["metadata"].get("labels") == labels:
            unchanged.append(endpoint_slice)
        elif kept or not before:
            changing.append(_with_endpoints(endpoint_slice, labels, kept))
        else:
            result.delete.append(endpoint_slice)
    remaining = list(unassigned.values())
    for endpoint_slice in sorted(changing, key=lambda one: -len(one["endpoints"])):
        room = MAX_ENDPOINTS_PER_SLICE - len(endpoint_slice["endpoints"])
        endpoint_slice["endpoints"] += remaining[:room]
        remaining = remaining[room:]
    result.update = changing
    while remaining:
        target = _fullest_with_room(unchanged, len(remaining)) if len(remaining) < MAX_ENDPOINTS_PER_SLICE else None
        if target is not None:
            unchanged.remove(target)
            result.update.append(_with_endpoints(target, labels, [*(target.get("endpoints") or ()), *remaining]))
            break
        result.create.append({**new, "endpoints": remaining[:MAX_ENDPOINTS_PER_SLICE]})
        remaining = remaining[MAX_ENDPOINTS_PER_SLICE:]
    return result


def _with_endpoints(endpoint_slice: Object, labels: dict[str, str], endpoints: list[Object]) -> Object:
    return {**endpoint_slice, "metadata": {**endpoint_slice["metadata"], "labels": labels}, "endpoints": endpoints}


def _fullest_with_room(slices: list[Object], count: int) -> Object | None:
    """Returns the slice that would be closest to full."""
    fitting = [one for one in slices if len(one.get("endpoints") or ()) + count <= MAX_ENDPOINTS_PER_SLICE]
    return max(fitting, key=lambda one: len(one.get("endpoints") or ()), default=None)


def reuse_deleted(changes: SliceChanges) -> SliceChanges:
    """Turns slices to be deleted into updates that replace slices to be created."""
    result = SliceChanges([], list(changes.update), [])
    reusable = list(changes.delete)
    for new_slice in changes.create:
        index = next((i for i, one in enumerate(reusable) if one.get("addressType") == new_slice["addressType"]), None)
        if index is None:
            result.create.append(new_slice)
        else:
            old = reusable.pop(index)
            metadata = {**old["metadata"], **{f: new_slice["metadata"][f] for f in ("labels", "ownerReferences")}}
            result.update.append({**new_slice, "metadata": metadata})
    result.delete = reusable
    return result
