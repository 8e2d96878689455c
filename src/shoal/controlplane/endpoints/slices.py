"""Distributes endpoints over EndpointSlices so that a change of few endpoints rewrites few slices. Pure.

The order of preference is upstream's: endpoints stay in their slice; new ones go into slices that change anyway, then
into the one slice that has room for all of them, and only then into new slices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.endpoints.members import Ports

Object = dict[str, Any]
Endpoints = dict[tuple[Any, ...], Object]
"""Endpoints by identity."""

MOST = 100
"""Maximum number of endpoints in a slice."""


@dataclass(slots=True)
class Slices:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)

    def add(self, other: Slices) -> None:
        self.create += other.create
        self.update += other.update
        self.delete += other.delete


def identity(endpoint: Object) -> tuple[Any, ...]:
    target = endpoint.get("targetRef") or {}
    addresses = tuple(endpoint.get("addresses") or ())
    return addresses, endpoint.get("hostname"), target.get("namespace"), target.get("name")


def ports_key(ports: Iterable[Object] | None) -> tuple[Any, ...]:
    found = [
        (each.get("name") or "", each.get("protocol") or "TCP", each.get("port") or 0, each.get("appProtocol") or "")
        for each in ports or ()
    ]
    return tuple(sorted(found))


def wire_ports(ports: Ports) -> list[Object]:
    found = []
    for port in ports:
        one: Object = {"name": port.name, "protocol": port.protocol, "port": port.port}
        if port.app is not None:
            one["appProtocol"] = port.app
        found.append(one)
    return found


def spread(new: Object, labels: dict[str, str], wanted: Endpoints, existing: list[Object]) -> Slices:
    """Assigns endpoints of one set of ports. `new` is a slice without endpoints, `existing` are those with the same
    ports.
    """
    left, result = dict(wanted), Slices()
    changing: list[Object] = []
    same: list[Object] = []
    for found in existing:
        before = found.get("endpoints") or []
        kept = [left.pop(key) for key in map(identity, before) if key in left]
        if kept == before and found["metadata"].get("labels") == labels:
            same.append(found)
        elif kept or not before:
            changing.append(_changed(found, labels, kept))
        else:
            result.delete.append(found)
    rest = list(left.values())
    for found in sorted(changing, key=lambda one: -len(one["endpoints"])):
        room = MOST - len(found["endpoints"])
        found["endpoints"] += rest[:room]
        rest = rest[room:]
    result.update = changing
    while rest:
        target = _with_room(same, len(rest)) if len(rest) < MOST else None
        if target is not None:
            same.remove(target)
            result.update.append(_changed(target, labels, [*(target.get("endpoints") or ()), *rest]))
            break
        result.create.append({**new, "endpoints": rest[:MOST]})
        rest = rest[MOST:]
    return result


def _changed(found: Object, labels: dict[str, str], endpoints: list[Object]) -> Object:
    return {**found, "metadata": {**found["metadata"], "labels": labels}, "endpoints": endpoints}


def _with_room(slices: list[Object], count: int) -> Object | None:
    """Returns the slice that would be closest to full."""
    fitting = [one for one in slices if len(one.get("endpoints") or ()) + count <= MOST]
    return max(fitting, key=lambda one: len(one.get("endpoints") or ()), default=None)


def reused(slices: Slices) -> Slices:
    """Turns slices to be deleted into updates that replace slices to be created."""
    result = Slices([], list(slices.update), [])
    spare = list(slices.delete)
    for made in slices.create:
        index = next((i for i, one in enumerate(spare) if one.get("addressType") == made["addressType"]), None)
        if index is None:
            result.create.append(made)
        else:
            old = spare.pop(index)
            metadata = {**old["metadata"], **{f: made["metadata"][f] for f in ("labels", "ownerReferences")}}
            result.update.append({**made, "metadata": metadata})
    result.delete = spare
    return result
