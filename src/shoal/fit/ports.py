"""Host ports: one pod per address, protocol and number; 0.0.0.0 is every address. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from shoal.kinds.pod_totals import listed

Object = dict[str, Any]
ANY = "0.0.0.0"


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str


def host_ports(pod: Object) -> frozenset[HostPort]:
    """Returns the host ports of the containers and sidecars."""
    spec = pod.get("spec") or {}
    sidecars = (each for each in listed(spec, "initContainers") if each.get("restartPolicy") == "Always")
    return frozenset(
        HostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or ANY)
        for container in (*listed(spec, "containers"), *sidecars)
        for port in listed(container, "ports")
        if port.get("hostPort")
    )


def clash(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    return any(
        one[:2] == other[:2] and (one.address == other.address or ANY in (one.address, other.address))
        for one in wanted
        for other in used
    )
