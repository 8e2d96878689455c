"""Computes Endpoints and EndpointSlices of a Service with a selector. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.endpoints.members import (
    Ports,
    addresses,
    family_of,
    hostname_of,
    is_member,
    port_finder,
    target_of,
)
from shoal.controlplane.endpoints.slices import Endpoints, Slices, identity, ports_key, reused, spread, wire_ports
from shoal.controlplane.endpoints.subsets import packed, truncated
from shoal.kinds import discovery, endpoints
from shoal.kinds.pod_state import is_ready
from shoal.kinds.services import HEADLESS, has_address, is_headless
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]
NodeOf = Callable[[str], Object | None]

ENDPOINTS_CONTROLLER = "endpoint-controller"
SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"
NEAR = ("PreferClose", "PreferSameZone", "PreferSameNode")
_RESERVED = (discovery.SERVICE_NAME, discovery.MANAGED_BY, HEADLESS)


@dataclass(frozen=True, slots=True)
class Plan:
    endpoints: Object | None
    """To be written; new if it has no resourceVersion."""
    slices: Slices
    without_node: bool
    """Pods were left out because their nodes are unknown. The Service is reconciled again when a node arrives."""


def plan(
    service: Object, pods: list[Object], node_of: NodeOf, current: Object | None, slices: Iterable[Object]
) -> Plan:
    """`pods` are those the Service selects, `slices` those it owns."""
    ports_of = port_finder(service)
    made, without_node = _slices(service, pods, ports_of, node_of, list(slices))
    return Plan(_endpoints(service, pods, ports_of, current), made, without_node)


def _endpoints(
    service: Object, pods: list[Object], ports_of: Callable[[Object], Ports], current: Object | None
) -> Object | None:
    subsets = packed(_addresses(service, pods, ports_of))
    fewer = truncated(subsets)
    subsets = subsets if fewer is None else fewer
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(HEADLESS, None)
    if not has_address(service["spec"]):
        labels[HEADLESS] = ""
    labels[endpoints.MANAGED_BY] = ENDPOINTS_CONTROLLER
    before = (current or {}).get("metadata") or {}
    annotations = dict(before.get("annotations") or {})
    annotations.pop(endpoints.OVER_CAPACITY, None)
    annotations.pop(endpoints.LAST_CHANGE, None)
    if fewer is not None:
        annotations[endpoints.OVER_CAPACITY] = "truncated"
    same = before.get("labels") == labels and (before.get("annotations") or {}) == annotations
    if current is not None and same and (current.get("subsets") or []) == subsets:
        return None
    own = service["metadata"]
    metadata = {**before, "name": own["name"], "namespace": own["namespace"], "labels": labels}
    metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}


def _addresses(
    service: Object, pods: list[Object], ports_of: Callable[[Object], Ports]
) -> Iterable[tuple[list[Object], Object, bool]]:
    spec = service["spec"]
    unready, family = bool(spec.get("publishNotReadyAddresses")), (spec.get("ipFamilies") or ["IPv4"])[0]
    portless = not spec.get("ports") and is_headless(spec)
    for pod in pods:
        if not is_member(pod, terminating=unready):
            continue
        ip = next((one for one in addresses(pod) if family_of(one) == family), None)
        ports = wire_endpoint_ports(ports_of(pod))
        if ip is None or not (ports or portless):
            continue
        address: Object = {"ip": ip}
        hostname, node = hostname_of(pod, service), pod["spec"].get("nodeName")
        if hostname:
            address["hostname"] = hostname
        if node:
            address["nodeName"] = node
        address["targetRef"] = target_of(pod)
        yield ports, address, unready or is_ready(pod)


def wire_endpoint_ports(ports: Ports) -> list[Object]:
    """In the form of Endpoints: an empty name is omitted."""
    found = []
    for port in wire_ports(ports):
        found.append(port if port["name"] else {name: value for name, value in port.items() if name != "name"})
    return found


def slice_labels(service: Object) -> dict[str, str]:
    own = service["metadata"]
    labels = {key: value for key, value in (own.get("labels") or {}).items() if key not in _RESERVED}
    if not has_address(service["spec"]):
        labels[HEADLESS] = ""
    return labels | {discovery.SERVICE_NAME: own["name"], discovery.MANAGED_BY: SLICE_CONTROLLER}


def is_slice_of(found: Object, service_name: str, controller: str = SLICE_CONTROLLER) -> bool:
    """Returns whether the labels name the Service and the controller. A slice with other labels belongs to another
    writer; a deleting slice to none.
    """
    labels = found["metadata"].get("labels") or {}
    if "deletionTimestamp" in found["metadata"]:
        return False
    return labels.get(discovery.SERVICE_NAME) == service_name and labels.get(discovery.MANAGED_BY) == controller


def _slices(
    service: Object,
    pods: list[Object],
    ports_of: Callable[[Object], Ports],
    node_of: NodeOf,
    existing: list[Object],
) -> tuple[Slices, bool]:
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    result = Slices(delete=[one for one in existing if one.get("addressType") not in families])
    without_node = False
    for family in families:
        groups, ports, lacking = _groups(service, pods, ports_of, node_of, family)
        without_node = without_node or lacking
        here = [one for one in existing if one.get("addressType") == family]
        result.add(_of_family(service, family, groups, ports, here))
    if "deletionTimestamp" in service["metadata"]:
        result.create = []
    return result, without_node


def _groups(
    service: Object, pods: list[Object], ports_of: Callable[[Object], Ports], node_of: NodeOf, family: str
) -> tuple[dict[Any, Endpoints], dict[Any, Ports], bool]:
    groups: dict[Any, Endpoints] = {}
    kinds: dict[Any, Ports] = {}
    keys: dict[Ports, Any] = {}
    lacking = False
    for pod in pods:
        if not is_member(pod, terminating=True):
            continue
        ports = ports_of(pod)
        key = keys.get(ports)
        if key is None:
            key = keys[ports] = ports_key(wire_ports(ports))
            kinds[key] = ports
            groups.setdefault(key, {})
        node = node_of(pod["spec"].get("nodeName") or "")
        if node is None and not service["spec"].get("publishNotReadyAddresses"):
            lacking = True
            continue
        endpoint = _endpoint(pod, node, service, family)
        if endpoint is not None:
            groups[key][identity(endpoint)] = endpoint
    return groups, kinds, lacking


def _endpoint(pod: Object, node: Object | None, service: Object, family: str) -> Object | None:
    found = [one for one in addresses(pod) if family_of(one) == family]
    if not found:
        return None
    spec = service["spec"]
    serving, terminating = is_ready(pod), "deletionTimestamp" in pod["metadata"]
    ready = bool(spec.get("publishNotReadyAddresses")) or (serving and not terminating)
    conditions = {"ready": ready, "serving": serving, "terminating": terminating}
    endpoint: Object = {"addresses": found, "conditions": conditions}
    hostname, name = hostname_of(pod, service), pod["spec"].get("nodeName")
    zone = ((node or {"metadata": {}})["metadata"].get("labels") or {}).get(ZONE)
    if hostname:
        endpoint["hostname"] = hostname
    endpoint["targetRef"] = target_of(pod)
    if name:
        endpoint["nodeName"] = name
    if zone:
        endpoint["zone"] = zone
    hints = _hints(spec.get("trafficDistribution"), zone, name) if ready else {}
    return endpoint | ({"hints": hints} if hints else {})


def _hints(preference: object, zone: str | None, node: str | None) -> Object:
    hints: Object = {}
    if preference in NEAR and zone:
        hints["forZones"] = [{"name": zone}]
    if preference == "PreferSameNode" and node:
        hints["forNodes"] = [{"name": node}]
    return hints


def _of_family(
    service: Object, family: str, groups: dict[Any, Endpoints], ports: dict[Any, Ports], existing: list[Object]
) -> Slices:
    labels, result = slice_labels(service), Slices()
    by_ports: dict[Any, list[Object]] = {}
    for one in existing:
        by_ports.setdefault(ports_key(one.get("ports")), []).append(one)
    for key, wanted in groups.items():
        result.add(spread(_new(service, family, labels, ports[key]), labels, wanted, by_ports.pop(key, [])))
    for left in by_ports.values():
        result.delete += left
    if len(existing) != len(result.delete) or result.create:
        return reused(result)
    # A Service without endpoints gets one empty slice.
    placeholder = _new(service, family, labels, ())
    if len(existing) == 1 and _is_empty(existing[0], labels):
        return Slices()
    result.create.append(placeholder)
    return reused(result)


def _is_empty(found: Object, labels: dict[str, str]) -> bool:
    return not found.get("ports") and not found.get("endpoints") and found["metadata"].get("labels") == labels


def _new(service: Object, family: str, labels: dict[str, str], ports: Ports) -> Object:
    own = service["metadata"]
    metadata = {
        "generateName": f"{own['name']}-",
        "namespace": own["namespace"],
        "labels": labels,
        "ownerReferences": [controller_reference(service, "v1", "Service")],
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": [],
        "ports": wire_ports(ports),
    }
