"""Which port a cluster gets, keeps or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.endpoints.decide import EndpointSnapshot, decide
from shoal.kinds.fleet.endpoint import (
    Endpoint,
    PortRange,
    endpoint_from_annotation,
    endpoint_of,
    parse_port_range,
)

Object = dict[str, Any]

NOW = "2026-01-01T00:00:00Z"
RANGE = PortRange(20_000, 20_002)
HUB = "192.0.2.1"


def managed(name: str, *, port: int = 0, has: object = None, created: str = NOW, **endpoint: object) -> Object:
    spec: Object = {"endpoint": {"type": "Port", **endpoint}}
    if port:
        spec["endpoint"]["port"] = port
    status = {"phase": "Running"}
    if has is not None:
        status["endpoint"] = has  # type: ignore[assignment]
    metadata = {"name": name, "namespace": "default", "uid": name, "generation": 3, "creationTimestamp": created}
    return {"kind": "ManagedCluster", "metadata": metadata, "spec": spec, "status": status}


def at(port: int, host: str = HUB) -> Object:
    return {"host": host, "port": port}


def decided(obj: Object, *others: Object) -> Object | None:
    def others_at(port: int) -> list[Object]:
        return [other for other in others if (found := endpoint_of(other)) is not None and found.port == port]

    return decide(EndpointSnapshot(obj, others_at, RANGE, HUB), NOW)


def condition(obj: Object | None) -> tuple[str, str, str]:
    assert obj is not None
    (only,) = obj["status"]["conditions"]
    assert (only["type"], only["observedGeneration"]) == ("EndpointReady", 3)
    return only["status"], only["reason"], only["message"]


def test_the_first_free_port_is_taken() -> None:
    east = decided(managed("east"), managed("a", has=at(20_000)), managed("b", has=at(20_002)))
    assert east is not None
    assert endpoint_of(east) == Endpoint(HUB, 20_001)
    assert condition(east) == ("True", "PortAllocated", "its address is 192.0.2.1:20001")
    assert east["status"]["phase"] == "Running"
    assert decided(east, managed("a", has=at(20_000))) is None, "it is current"


def test_a_full_range() -> None:
    east = decided(managed("east"), *(managed(str(port), has=at(port)) for port in range(20_000, 20_003)))
    message = "all ports of the hub's range 20000-20002 are in use: widen --cluster-ports"
    assert condition(east) == ("False", "PortRangeFull", message)
    assert endpoint_of(east or {}) is None


def test_a_requested_port() -> None:
    assert endpoint_of(decided(managed("east", port=20_002)) or {}) == Endpoint(HUB, 20_002)
    taken = decided(managed("east", port=20_002), managed("west", has=at(20_002)))
    assert condition(taken) == ("False", "PortTaken", "port 20002 belongs to ManagedCluster default/west")
    outside = decided(managed("east", port=6443))
    assert condition(outside) == ("False", "PortOutOfRange", "port 6443 is not in the hub's range 20000-20002")


def test_another_requested_port_replaces_the_old_one() -> None:
    moved = decided(managed("east", port=20_002, has=at(20_000)))
    assert endpoint_of(moved or {}) == Endpoint(HUB, 20_002)


def test_a_port_is_kept() -> None:
    assert endpoint_of(decided(managed("east", has=at(20_001))) or {}) == Endpoint(HUB, 20_001)
    readdressed = decided(managed("east", has=at(20_001, "198.51.100.1")))
    assert endpoint_of(readdressed or {}) == Endpoint(HUB, 20_001)
    outside = decided(managed("east", has=at(25_000)))
    assert endpoint_of(outside or {}) == Endpoint(HUB, 25_000)
    assert condition(outside)[:2] == ("False", "PortOutOfRange")


def test_of_two_with_one_port_the_older_keeps_it() -> None:
    old, new = managed("old", has=at(20_000), created="2025-01-01T00:00:00Z"), managed("new", has=at(20_000))
    assert endpoint_of(decided(old, new) or {}) == Endpoint(HUB, 20_000)
    assert endpoint_of(decided(new, old) or {}) == Endpoint(HUB, 20_001)


@pytest.mark.parametrize("spec", [{}, {"endpoint": {}}, {"endpoint": {"type": "None", "port": 20_000}}])
def test_who_asks_for_none_has_none(spec: Object) -> None:
    east = decided(managed("east"))
    assert east is not None
    without = decided({**east, "spec": spec})
    assert without is not None
    assert without["status"] == {"phase": "Running", "conditions": []}
    assert decided({**without, "spec": spec}) is None


def test_a_cluster_that_is_being_deleted_keeps_its_port() -> None:
    leaving = managed("east", has=at(20_000))
    leaving["metadata"]["deletionTimestamp"] = NOW
    assert decided({**leaving, "spec": {}}) is None


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("20000-24999", PortRange(20_000, 24_999)),
        ("20000-20000", PortRange(20_000, 20_000)),
        ("20001-20000", None),
        ("80-90", None),
        ("20000-70000", None),
        ("20000", None),
        ("a-b", None),
        ("", None),
    ],
)
def test_a_range_of_ports(text: str, ports: PortRange | None) -> None:
    assert parse_port_range(text) == ports


@pytest.mark.parametrize("endpoint", [Endpoint("192.0.2.1", 20_000), Endpoint("2001:db8::1", 20_000), Endpoint("h", 1)])
def test_the_annotation_of_a_copy(endpoint: Endpoint) -> None:
    assert endpoint_from_annotation({"metadata": {"annotations": {"shoal.dev/endpoint": str(endpoint)}}}) == endpoint


def test_a_copy_without_an_address() -> None:
    assert endpoint_from_annotation({"metadata": {}}) is None
    for text in ("", "h", ":1", "h:", "h:0", "h:x"):
        assert endpoint_from_annotation({"metadata": {"annotations": {"shoal.dev/endpoint": text}}}) is None
