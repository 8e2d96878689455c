"""Allocates cluster IPs and node ports of Services, unique in a logical cluster.

There is no allocation record: an address or port that no Service uses is free. Writes of Services are serialised
(`verbs.__init__`), so two writes never allocate the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.core.service.addresses import validate_cluster_ips
from shoal.kinds.core.service.services import NODE_PORT_TYPES, needs_health_check_node_port
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Cause, InternalError, invalid_object, invalid_value

Object = dict[str, Any]

RESOURCE = ("", "services")
SERVICE_CIDRS = ("networking.k8s.io", "servicecidrs")
MIN_STATIC_RESERVE, MAX_STATIC_RESERVE = 16, 256
"""A sixteenth of a network, within these bounds, is reserved for addresses that users choose themselves, as
upstream.
"""
NODE_PORT_RANGE = range(30000, 32768)
FIRST_DYNAMIC_PORT = 30086
_ALREADY_ALLOCATED = "provided IP is already allocated"
_OUT_OF_RANGE = "the provided network does not match the current range"
_RANGE_FULL = "Internal error occurred: failed to allocate a {}: range is full"


def allocate(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Checks the addresses and ports a Service requests and allocates the missing ones."""
    if ctx.cluster.profile == "hub":
        return  # a hub has no network: the cluster a Service is copied to allocates its address
    spec = new["spec"]
    causes = [] if old is None else validate_cluster_ips(spec)
    if causes:
        raise invalid_object("Service", "", new["metadata"].get("name") or "", causes)
    others = _other_services(ctx, new["metadata"])
    if spec.get("type") != "ExternalName":
        # A Service keeps its address: validation enforces that.
        if old is None or old["spec"].get("type") == "ExternalName" or not spec.get("clusterIP"):
            causes += _allocate_ip(server, ctx, spec, others)
        _set_ip_families(spec)
    if spec.get("type") in NODE_PORT_TYPES:
        causes += _allocate_node_ports(server, spec, others)
    if causes:
        raise invalid_object("Service", "", new["metadata"].get("name") or "", causes)


def reallocate(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Allocates for an update that changes the spec."""
    if old is not None and new.get("spec") != old.get("spec"):
        allocate(server, ctx, new, old)


def _other_services(ctx: RequestContext, metadata: Object) -> list[CachedObject]:
    own = (ctx.namespace, metadata.get("name"))
    return [e for e in ctx.resource_cache.table(ctx.info.cluster).select("") if (e.namespace, e.name) != own]


def _ready_networks(server: ServerComponents, ctx: RequestContext) -> list[IPv4Network]:
    """The networks of ServiceCIDRs that are ready and not being deleted."""
    table = server.cache.resource_cache(*SERVICE_CIDRS).table(ctx.info.cluster)
    return [network for entry in table.select("") for network in _networks_of_cidr(entry.data)]


@lru_cache(maxsize=256)
def _networks_of_cidr(data: bytes) -> tuple[IPv4Network, ...]:
    obj = orjson.loads(data)
    if "deletionTimestamp" in obj["metadata"] or not condition_is(obj, "Ready"):
        return ()
    return tuple(IPv4Network(text) for text in obj["spec"].get("cidrs") or () if ":" not in text)


def _allocate_ip(
    server: ServerComponents, ctx: RequestContext, spec: Object, others: list[CachedObject]
) -> list[Cause]:
    requested = spec.get("clusterIP")
    if not requested:
        spec["clusterIP"] = _free_address(server, _ready_networks(server, ctx), others)
        spec["clusterIPs"] = [spec["clusterIP"]]
        return []
    try:
        address = ip_address(requested)
    except ValueError:
        return []  # "None", or an invalid address that validation reports
    if not isinstance(address, IPv4Address) or not any(
        _is_usable(one, address) for one in _ready_networks(server, ctx)
    ):
        return [_allocation_cause(spec, requested, _OUT_OF_RANGE)]
    return [_allocation_cause(spec, requested, _ALREADY_ALLOCATED)] if _has_address(others, requested) else []


def _allocation_cause(spec: Object, requested: str, reason: str) -> Cause:
    return invalid_value("spec.clusterIPs", spec.get("clusterIPs"), f"failed to allocate IP {requested}: {reason}")


def _is_usable(network: IPv4Network, address: IPv4Address) -> bool:
    return address in network and address not in (network.network_address, network.broadcast_address)


def _free_address(server: ServerComponents, networks: list[IPv4Network], others: list[CachedObject]) -> str:
    for network in networks:
        last = network.num_addresses - 2
        first = 1 + (min(max(last // 16, MIN_STATIC_RESERVE), MAX_STATIC_RESERVE) if last > MIN_STATIC_RESERVE else 0)
        for offset in _random_rotation(server, range(first, last + 1), range(1, first)):
            candidate = str(network[offset])
            if not _has_address(others, candidate):
                return candidate
    raise InternalError(_RANGE_FULL.format("serviceIP"))


def _has_address(entries: list[CachedObject], address: str) -> bool:
    # Searching the bytes first avoids decoding every Service. Annotations can contain the text too, hence the second
    # check.
    text = f'"{address}"'.encode()
    return any(text in e.data and address in (e.object()["spec"].get("clusterIPs") or ()) for e in entries)


def _set_ip_families(spec: Object) -> None:
    """The network is IPv4 only. A headless Service without selector may have endpoints of both families."""
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if selectorless else "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if selectorless and policy != "SingleStack" else ["IPv4"]


def _allocate_node_ports(server: ServerComponents, spec: Object, others: list[CachedObject]) -> list[Cause]:
    causes: list[Cause] = []
    chosen: dict[int, str] = {}
    allocates = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    for i, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort")
        if number:
            causes += _check_node_port(number, others, f"spec.ports[{i}].nodePort")
            chosen[number] = port.get("protocol", "")
    # Ports that differ only in protocol, as for DNS, share one node port.
    numbers = {port["port"]: port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    for port in spec.get("ports") or ():
        if allocates and not port.get("nodePort"):
            port["nodePort"] = numbers.get(port["port"]) or _free_port(server, others, chosen)
            numbers[port["port"]] = port["nodePort"]
            chosen[port["nodePort"]] = port.get("protocol", "")
    if needs_health_check_node_port(spec):
        if spec.get("healthCheckNodePort"):
            causes += _check_node_port(spec["healthCheckNodePort"], others, "spec.healthCheckNodePort")
        else:
            spec["healthCheckNodePort"] = _free_port(server, others, chosen)
    return causes


def _check_node_port(number: int, others: list[CachedObject], path: str) -> list[Cause]:
    if number not in NODE_PORT_RANGE:
        reason = "provided port is not in the valid range. The range of valid ports is 30000-32767"
        return [invalid_value(path, number, reason)]
    if _has_port(others, number):
        return [invalid_value(path, number, "provided port is already allocated")]
    return []


def _free_port(server: ServerComponents, others: list[CachedObject], chosen: Iterable[int]) -> int:
    late, early = range(FIRST_DYNAMIC_PORT, NODE_PORT_RANGE.stop), range(NODE_PORT_RANGE.start, FIRST_DYNAMIC_PORT)
    for number in _random_rotation(server, late, early):
        if number not in chosen and not _has_port(others, number):
            return number
    raise InternalError(_RANGE_FULL.format("nodePort"))


def _has_port(entries: list[CachedObject], number: int) -> bool:
    text = str(number).encode()
    return any(text in e.data and number in _ports_of(e.object()["spec"]) for e in entries)


def _ports_of(spec: Object) -> list[object]:
    return [spec.get("healthCheckNodePort"), *(port.get("nodePort") for port in spec.get("ports") or ())]


def _random_rotation(server: ServerComponents, first: range, fallback: range) -> Iterable[int]:
    """Starts at a random position of the first range and goes round it once. The fallback range follows when that is
    full.
    """
    start = int(server.name_generator.fraction() * len(first))
    yield from first[start:]
    yield from first[:start]
    yield from fallback
