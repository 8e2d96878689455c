"""Subsets of Endpoints: addresses grouped by shared ports, in a stable order. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]
SubsetAddress = tuple[Object, bool]
"""Address in wire form, and whether it is ready."""
_Key = tuple[str, str]
_Group = dict[_Key, SubsetAddress]

MAX_ADDRESSES = 1000
"""Maximum number of addresses in an Endpoints object."""
_NO_PORT = ""


def repack_subsets(addresses: Iterable[tuple[Iterable[Object], Object, bool]]) -> list[Object]:
    """Groups (ports, address, ready). Each address appears once per set of ports. An address that is not ready in one
    entry of a port is not ready for that port.
    """
    ports: dict[Any, Object] = {}
    groups: dict[Any, _Group] = {}
    for endpoint_ports, address, ready in addresses:
        key = address["ip"], (address.get("targetRef") or {}).get("uid") or ""
        names: list[Any] = []
        for port in endpoint_ports:
            name = port.get("name") or "", port.get("protocol") or "TCP", port["port"], port.get("appProtocol")
            ports[name] = port
            names.append(name)
        for name in names or [_NO_PORT]:
            group = groups.setdefault(name, {})
            before = group.get(key)
            if before is None:
                group[key] = address, ready
            elif before[1] and not ready:
                group[key] = before[0], False
    shared: dict[Any, tuple[_Group, list[Object]]] = {}
    for name, group in groups.items():
        members = frozenset((key, ready) for key, (_, ready) in group.items())
        group_ports = shared.setdefault(members, (group, []))[1]
        if name != _NO_PORT:
            group_ports.append(ports[name])
    return sorted((_subset(group, endpoint_ports) for group, endpoint_ports in shared.values()), key=_subset_key)


def _subset(group: _Group, ports: list[Object]) -> Object:
    subset: Object = {}
    for field, state in (("addresses", True), ("notReadyAddresses", False)):
        chosen = sorted(key for key, (_, ready) in group.items() if ready is state)
        if chosen:
            subset[field] = [group[key][0] for key in chosen]
    if ports:
        subset["ports"] = sorted(ports, key=_port_key)
    return subset


def _port_key(port: Object) -> tuple[str, str, int]:
    return port.get("name") or "", port.get("protocol") or "", port["port"]


def _subset_key(subset: Object) -> tuple[Any, ...]:
    first = (subset.get("addresses") or subset.get("notReadyAddresses"))[0]  # type: ignore[index]
    return [_port_key(port) for port in subset.get("ports") or ()], first["ip"]


def truncate_subsets(subsets: list[Object]) -> list[Object] | None:
    """Keeps at most MAX_ADDRESSES, of each subset in proportion and ready ones first; None if all fit."""
    ready = sum(len(subset.get("addresses") or ()) for subset in subsets)
    others = sum(len(subset.get("notReadyAddresses") or ()) for subset in subsets)
    if ready + others <= MAX_ADDRESSES:
        return None
    field, room, total = (
        ("addresses", MAX_ADDRESSES, ready)
        if ready > MAX_ADDRESSES
        else ("notReadyAddresses", MAX_ADDRESSES - ready, others)
    )
    remaining, result = room, []
    for subset in subsets:
        kept = {name: value for name, value in subset.items() if name not in (field, "notReadyAddresses")}
        subset_addresses = subset.get(field) or []
        share = min(math.ceil(len(subset_addresses) / total * room), remaining)
        remaining -= min(share, len(subset_addresses))
        if subset_addresses[:share]:
            kept[field] = subset_addresses[:share]
        if kept.get("addresses") or kept.get("notReadyAddresses"):
            result.append(kept)
    return result
