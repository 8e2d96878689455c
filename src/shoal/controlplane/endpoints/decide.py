"""Computes Endpoints and EndpointSlices of a Service with a selector. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.endpoints.members import (
    ServicePorts,
    belongs_to_endpoints,
    family_of,
    hostname_of,
    pod_addresses,
    pod_ports_func,
    target_of,
)
from shoal.controlplane.endpoints.slices import (
    EndpointsByKey,
    SliceChanges,
    assign_to_slices,
    endpoint_key,
    ports_key,
    reuse_deleted,
    slice_ports,
)
from shoal.controlplane.endpoints.subsets import repack_subsets, truncate_subsets
from shoal.kinds.core import endpoints
from shoal.kinds.core.pod.status import is_ready
from shoal.kinds.core.service.services import HEADLESS_LABEL, has_cluster_ip, is_headless
from shoal.kinds.discovery import endpointslice
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]
NodeGetter = Callable[[str], Object | None]

ENDPOINTS_CONTROLLER = "endpoint-controller"
SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"
PREFER_CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")
_RESERVED_LABELS = (endpointslice.SERVICE_NAME_LABEL, endpointslice.MANAGED_BY_LABEL, HEADLESS_LABEL)


@dataclass(frozen=True, slots=True)
class EndpointsPlan:
    endpoints: Object | None
    """To be written; new if it has no resourceVersion."""
    slices: SliceChanges
    missing_nodes: bool
    """Pods were left out because their nodes are unknown. The Service is reconciled again when a node arrives."""


def plan(
    service: Object, pods: list[Object], node_of: NodeGetter, current: Object | None, slices: Iterable[Object]
) -> EndpointsPlan:
    """`pods` are those the Service selects, `slices` those it owns."""
    ports_of = pod_ports_func(service)
    slice_changes, missing_nodes = _slice_changes(service, pods, ports_of, node_of, list(slices))
    return EndpointsPlan(_endpoints(service, pods, ports_of, current), slice_changes, missing_nodes)


def _endpoints(
    service: Object, pods: list[Object], ports_of: Callable[[Object], ServicePorts], current: Object | None
) -> Object | None:
    subsets = repack_subsets(_ready_addresses(service, pods, ports_of))
    truncated_subsets = truncate_subsets(subsets)
    subsets = subsets if truncated_subsets is None else truncated_subsets
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(HEADLESS_LABEL, None)
    if not has_cluster_ip(service["spec"]):
        labels[HEADLESS_LABEL] = ""
    labels[endpoints.MANAGED_BY_LABEL] = ENDPOINTS_CONTROLLER
    before = (current or {}).get("metadata") or {}
    annotations = dict(before.get("annotations") or {})
    annotations.pop(endpoints.OVER_CAPACITY_ANNOTATION, None)
    annotations.pop(endpoints.LAST_CHANGE_ANNOTATION, None)
    if truncated_subsets is not None:
        annotations[endpoints.OVER_CAPACITY_ANNOTATION] = "truncated"
    same = before.get("labels") == labels and (before.get("annotations") or {}) == annotations
    if current is not None and same and (current.get("subsets") or []) == subsets:
        return None
    service_metadata = service["metadata"]
    metadata = {
        **before,
        "name": service_metadata["name"],
        "namespace": service_metadata["namespace"],
        "labels": labels,
    }
    metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}


def _ready_addresses(
    service: Object, pods: list[Object], ports_of: Callable[[Object], ServicePorts]
) -> Iterable[tuple[list[Object], Object, bool]]:
    spec = service["spec"]
    publish_not_ready, family = bool(spec.get("publishNotReadyAddresses")), (spec.get("ipFamilies") or ["IPv4"])[0]
    allows_no_ports = not spec.get("ports") and is_headless(spec)
    for pod in pods:
        if not belongs_to_endpoints(pod, include_terminating=publish_not_ready):
            continue
        ip = next((one for one in pod_addresses(pod) if family_of(one) == family), None)
        ports = endpoints_ports(ports_of(pod))
        if ip is None or not (ports or allows_no_ports):
            continue
        address: Object = {"ip": ip}
        hostname, node = hostname_of(pod, service), pod["spec"].get("nodeName")
        if hostname:
            address["hostname"] = hostname
        if node:
            address["nodeName"] = node
        address["targetRef"] = target_of(pod)
        yield ports, address, publish_not_ready or is_ready(pod)


def endpoints_ports(ports: ServicePorts) -> list[Object]:
    """In the form of Endpoints: an empty name is omitted."""
    result = []
    for port in slice_ports(ports):
        result.append(port if port["name"] else {name: value for name, value in port.items() if name != "name"})
    return result


def slice_labels(service: Object) -> dict[str, str]:
    service_metadata = service["metadata"]
    labels = {
        key: value for key, value in (service_metadata.get("labels") or {}).items() if key not in _RESERVED_LABELS
    }
    if not has_cluster_ip(service["spec"]):
        labels[HEADLESS_LABEL] = ""
    return labels | {
        endpointslice.SERVICE_NAME_LABEL: service_metadata["name"],
        endpointslice.MANAGED_BY_LABEL: SLICE_CONTROLLER,
    }


def is_slice_of(endpoint_slice: Object, service_name: str, controller: str = SLICE_CONTROLLER) -> bool:
    """Returns whether the labels name the Service and the controller. A slice with other labels belongs to another
    writer; a deleting slice to none.
    """
    labels = endpoint_slice["metadata"].get("labels") or {}
    if "deletionTimestamp" in endpoint_slice["metadata"]:
        return False
    return (
        labels.get(endpointslice.SERVICE_NAME_LABEL) == service_name
        and labels.get(endpointslice.MANAGED_BY_LABEL) == controller
    )


def _slice_changes(
    service: Object,
    pods: list[Object],
    ports_of: Callable[[Object], ServicePorts],
    node_of: NodeGetter,
    existing: list[Object],
) -> tuple[SliceChanges, bool]:
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    result = SliceChanges(delete=[one for one in existing if one.get("addressType") not in families])
    missing_nodes = False
    for family in families:
        groups, ports, family_lacks_nodes = _group_by_ports(service, pods, ports_of, node_of, family)
        missing_nodes = missing_nodes or family_lacks_nodes
        family_slices = [one for one in existing if one.get("addressType") == family]
        result.add(_family_changes(service, family, groups, ports, family_slices))
    if "deletionTimestamp" in service["metadata"]:
        result.create = []
    return result, missing_nodes


def _group_by_ports(
    service: Object, pods: list[Object], ports_of: Callable[[Object], ServicePorts], node_of: NodeGetter, family: str
) -> tuple[dict[Any, EndpointsByKey], dict[Any, ServicePorts], bool]:
    groups: dict[Any, EndpointsByKey] = {}
    ports_by_key: dict[Any, ServicePorts] = {}
    keys: dict[ServicePorts, Any] = {}
    missing_nodes = False
    for pod in pods:
        if not belongs_to_endpoints(pod, include_terminating=True):
            continue
        ports = ports_of(pod)
        key = keys.get(ports)
        if key is None:
            key = keys[ports] = ports_key(slice_ports(ports))
            ports_by_key[key] = ports
            groups.setdefault(key, {})
        node = node_of(pod["spec"].get("nodeName") or "")
        if node is None and not service["spec"].get("publishNotReadyAddresses"):
            missing_nodes = True
            continue
        endpoint = _endpoint(pod, node, service, family)
        if endpoint is not None:
            groups[key][endpoint_key(endpoint)] = endpoint
    return groups, ports_by_key, missing_nodes


def _endpoint(pod: Object, node: Object | None, service: Object, family: str) -> Object | None:
    family_addresses = [one for one in pod_addresses(pod) if family_of(one) == family]
    if not family_addresses:
        return None
    spec = service["spec"]
    serving, terminating = is_ready(pod), "deletionTimestamp" in pod["metadata"]
    ready = bool(spec.get("publishNotReadyAddresses")) or (serving and not terminating)
    conditions = {"ready": ready, "serving": serving, "terminating": terminating}
    endpoint: Object = {"addresses": family_addresses, "conditions": conditions}
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
    if preference in PREFER_CLOSE and zone:
        hints["forZones"] = [{"name": zone}]
    if preference == "PreferSameNode" and node:
        hints["forNodes"] = [{"name": node}]
    return hints


def _family_changes(
    service: Object,
    family: str,
    groups: dict[Any, EndpointsByKey],
    ports: dict[Any, ServicePorts],
    existing: list[Object],
) -> SliceChanges:
    labels, result = slice_labels(service), SliceChanges()
    by_ports: dict[Any, list[Object]] = {}
    for one in existing:
        by_ports.setdefault(ports_key(one.get("ports")), []).append(one)
    for key, endpoints_by_key in groups.items():
        result.add(
            assign_to_slices(
                _new_slice(service, family, labels, ports[key]), labels, endpoints_by_key, by_ports.pop(key, [])
            )
        )
    for unused in by_ports.values():
        result.delete += unused
    if len(existing) != len(result.delete) or result.create:
        return reuse_deleted(result)
    # A Service without endpoints gets one empty slice.
    placeholder = _new_slice(service, family, labels, ())
    if len(existing) == 1 and _is_placeholder(existing[0], labels):
        return SliceChanges()
    result.create.append(placeholder)
    return reuse_deleted(result)


def _is_placeholder(endpoint_slice: Object, labels: dict[str, str]) -> bool:
    return (
        not endpoint_slice.get("ports")
        and not endpoint_slice.get("endpoints")
        and endpoint_slice["metadata"].get("labels") == labels
    )


def _new_slice(service: Object, family: str, labels: dict[str, str], ports: ServicePorts) -> Object:
    service_metadata = service["metadata"]
    metadata = {
        "generateName": f"{service_metadata['name']}-",
        "namespace": service_metadata["namespace"],
        "labels": labels,
        "ownerReferences": [controller_reference(service, "v1", "Service")],
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": [],
        "ports": slice_ports(ports),
    }
