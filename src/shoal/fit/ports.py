"""Host ports: one pod per address, protocol and number; 0.0.0.0 is every address. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from shoal.kinds.core.pod.resource_totals import non_null_items

Object = dict[str, Any]
ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str


def host_ports(pod: Object) -> frozenset[HostPort]:
    """Returns the host ports of the containers and sidecars."""
    spec = pod.get("spec") or {}
    sidecars = (each for each in non_null_items(spec, "initContainers") if each.get("restartPolicy") == "Always")
    return frozenset(
        HostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or ANY_ADDRESS)
        for container in (*non_null_items(spec, "containers"), *sidecars)
        for port in non_null_items(container, "ports")
        if port.get("hostPort")
    )


def ports_conflict(requested: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    return any(
        one[:2] == other[:2] and (one.address == other.address or ANY_ADDRESS in (one.address, other.address))
        for one in requested
        for other in used
    )
