"""The address of its own that a ManagedCluster or LogicalCluster has: `spec.endpoint` and `status.endpoint`. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

Object = dict[str, Any]

PORT = "Port"
"""Value of `spec.endpoint.type`: the cluster gets a port of the hub."""
ENDPOINT_READY = "EndpointReady"
"""Condition: whether the cluster has the address it asks for."""
PORT_ALLOCATED, PORT_TAKEN = "PortAllocated", "PortTaken"
PORT_OUT_OF_RANGE, RANGE_FULL = "PortOutOfRange", "PortRangeFull"
"""Reasons of the condition."""


ENDPOINT_ANNOTATION = "shoal.dev/endpoint"
"""Annotation of a worker's copy of a ManagedCluster: the address that the hub has given it."""


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PortRange(NamedTuple):
    """Both ends belong to it."""

    first: int
    last: int

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.first <= port <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


DEFAULT_RANGE = PortRange(20_000, 24_999)
"""Below the node ports (30000-32767) and the ports that systems give to outgoing connections (from 32768)."""


def wants_port(obj: Object) -> bool:
    return _requested_endpoint(obj).get("type") == PORT


def requested_port(obj: Object) -> int:
    """0: any port of the range."""
    return int(_requested_endpoint(obj).get("port") or 0)


def endpoint_of(obj: Object) -> Endpoint | None:
    """Returns the address in the status."""
    return parse_endpoint((obj.get("status") or {}).get("endpoint"))


def parse_endpoint(value: object) -> Endpoint | None:
    """None for anything but a host and a port."""
    if not isinstance(value, dict):
        return None
    host, port = value.get("host"), value.get("port")
    return Endpoint(host, port) if isinstance(host, str) and host and isinstance(port, int) and port > 0 else None


def endpoint_object(endpoint: Endpoint) -> Object:
    return {"host": endpoint.host, "port": endpoint.port}


def endpoint_from_annotation(obj: Object) -> Endpoint | None:
    """Returns the address in the annotation of a copy."""
    text = str((obj["metadata"].get("annotations") or {}).get(ENDPOINT_ANNOTATION) or "")
    host, _, port = text.rpartition(":")
    return parse_endpoint({"host": host.strip("[]"), "port": int(port)}) if port.isdecimal() else None


def parse_port_range(text: str) -> PortRange | None:
    """Parses FIRST-LAST. Returns None for anything else."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        return None
    ports = PortRange(int(first), int(last))
    return ports if 1024 <= ports.first <= ports.last <= 65_535 else None


def _requested_endpoint(obj: Object) -> Object:
    requested: Object = (obj.get("spec") or {}).get("endpoint") or {}
    return requested
