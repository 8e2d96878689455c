"""Allocates cluster IPs and node ports of Services, unique in a logical cluster.

There is no allocation record: an address or port that no Service uses is free. Writes of Services are serialised
(`verbs.services`), so two writes never allocate the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any

import orjson

from shoal.apiserver.cache import Entry
from shoal.apiserver.core import Call, Core
from shoal.kinds.service_addresses import validate_addresses
from shoal.kinds.services import WITH_NODE_PORTS, needs_health_check
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Cause, InternalError, invalid_object, invalid_value

Object = dict[str, Any]

RESOURCE = ("", "services")
CIDRS = ("networking.k8s.io", "servicecidrs")
FEWEST_LEFT, MOST_LEFT = 16, 256
"""A sixteenth of a network, within these bounds, is reserved for addresses that users choose themselves, as
upstream.
"""
PORTS = range(30000, 32768)
FIRST_CHOSEN_PORT = 30086
_TAKEN = "provided IP is already allocated"
_ELSEWHERE = "the provided network does not match the current range"
_FULL = "Internal error occurred: failed to allocate a {}: range is full"


def allocate(core: Core, call: Call, new: Object, old: Object | None = None) -> None:
    """Checks the addresses and ports a Service requests and allocates the missing ones."""
    if call.cluster.profile == "hub":
        return  # a hub has no network: the cluster a Service is copied to allocates its address
    spec = new["spec"]
    causes = [] if old is None else validate_addresses(spec)
    if causes:
        raise invalid_object("Service", "", new["metadata"].get("name") or "", causes)
    others = _others(call, new["metadata"])
    if spec.get("type") != "ExternalName":
        # A Service keeps its address: validation enforces that.
        if old is None or old["spec"].get("type") == "ExternalName" or not spec.get("clusterIP"):
            causes += _address(core, call, spec, others)
        _families(spec)
    if spec.get("type") in WITH_NODE_PORTS:
        causes += _node_ports(core, spec, others)
    if causes:
        raise invalid_object("Service", "", new["metadata"].get("name") or "", causes)


def _others(call: Call, metadata: Object) -> list[Entry]:
    own = (call.namespace, metadata.get("name"))
    return [e for e in call.kind.table(call.target.cluster).select("") if (e.namespace, e.name) != own]


def _networks(core: Core, call: Call) -> list[IPv4Network]:
    """The networks of ServiceCIDRs that are ready and not being deleted."""
    table = core.cache.kind(*CIDRS).table(call.target.cluster)
    return [network for entry in table.select("") for network in _of_cidr(entry.data)]


@lru_cache(maxsize=256)
def _of_cidr(data: bytes) -> tuple[IPv4Network, ...]:
    obj = orjson.loads(data)
    if "deletionTimestamp" in obj["metadata"] or not condition_is(obj, "Ready"):
        return ()
    return tuple(IPv4Network(text) for text in obj["spec"].get("cidrs") or () if ":" not in text)


def _address(core: Core, call: Call, spec: Object, others: list[Entry]) -> list[Cause]:
    asked = spec.get("clusterIP")
    if not asked:
        spec["clusterIP"] = _free_address(core, _networks(core, call), others)
        spec["clusterIPs"] = [spec["clusterIP"]]
        return []
    try:
        address = ip_address(asked)
    except ValueError:
        return []  # "None", or an invalid address that validation reports
    if not isinstance(address, IPv4Address) or not any(_holds(one, address) for one in _networks(core, call)):
        return [_refused(spec, asked, _ELSEWHERE)]
    return [_refused(spec, asked, _TAKEN)] if _has_address(others, asked) else []


def _refused(spec: Object, asked: str, why: str) -> Cause:
    return invalid_value("spec.clusterIPs", spec.get("clusterIPs"), f"failed to allocate IP {asked}: {why}")


def _holds(network: IPv4Network, address: IPv4Address) -> bool:
    return address in network and address not in (network.network_address, network.broadcast_address)


def _free_address(core: Core, networks: list[IPv4Network], others: list[Entry]) -> str:
    for network in networks:
        last = network.num_addresses - 2
        first = 1 + (min(max(last // 16, FEWEST_LEFT), MOST_LEFT) if last > FEWEST_LEFT else 0)
        for offset in _from_anywhere(core, range(first, last + 1), range(1, first)):
            found = str(network[offset])
            if not _has_address(others, found):
                return found
    raise InternalError(_FULL.format("serviceIP"))


def _has_address(entries: list[Entry], address: str) -> bool:
    # Searching the bytes first avoids decoding every Service. Annotations can contain the text too, hence the second
    # check.
    text = f'"{address}"'.encode()
    return any(text in e.data and address in (e.object()["spec"].get("clusterIPs") or ()) for e in entries)


def _families(spec: Object) -> None:
    """The network is IPv4 only. A headless Service without selector may have endpoints of both families."""
    loose = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if loose else "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if loose and policy != "SingleStack" else ["IPv4"]


def _node_ports(core: Core, spec: Object, others: list[Entry]) -> list[Cause]:
    causes: list[Cause] = []
    chosen: dict[int, str] = {}
    wanted = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    for i, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort")
        if number:
            causes += _port(number, others, f"spec.ports[{i}].nodePort")
            chosen[number] = port.get("protocol", "")
    # Ports that differ only in protocol, as for DNS, share one node port.
    numbers = {port["port"]: port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    for port in spec.get("ports") or ():
        if wanted and not port.get("nodePort"):
            port["nodePort"] = numbers.get(port["port"]) or _free_port(core, others, chosen)
            numbers[port["port"]] = port["nodePort"]
            chosen[port["nodePort"]] = port.get("protocol", "")
    if needs_health_check(spec):
        if spec.get("healthCheckNodePort"):
            causes += _port(spec["healthCheckNodePort"], others, "spec.healthCheckNodePort")
        else:
            spec["healthCheckNodePort"] = _free_port(core, others, chosen)
    return causes


def _port(number: int, others: list[Entry], path: str) -> list[Cause]:
    if number not in PORTS:
        why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
        return [invalid_value(path, number, why)]
    if _has_port(others, number):
        return [invalid_value(path, number, "provided port is already allocated")]
    return []


def _free_port(core: Core, others: list[Entry], chosen: Iterable[int]) -> int:
    late, early = range(FIRST_CHOSEN_PORT, PORTS.stop), range(PORTS.start, FIRST_CHOSEN_PORT)
    for number in _from_anywhere(core, late, early):
        if number not in chosen and not _has_port(others, number):
            return number
    raise InternalError(_FULL.format("nodePort"))


def _has_port(entries: list[Entry], number: int) -> bool:
    text = str(number).encode()
    return any(text in e.data and number in _ports_of(e.object()["spec"]) for e in entries)


def _ports_of(spec: Object) -> list[object]:
    return [spec.get("healthCheckNodePort"), *(port.get("nodePort") for port in spec.get("ports") or ())]


def _from_anywhere(core: Core, first: range, then: range) -> Iterable[int]:
    """Starts at a random position of the first range and goes round it once. The fallback range follows when that is
    full.
    """
    start = int(core.dice.fraction() * len(first))
    yield from first[start:]
    yield from first[:start]
    yield from then
