"""Computes EndpointSlices that mirror Endpoints written by users. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from shoal.controlplane.endpoints.slices import SliceChanges, endpoint_key, ports_key, reuse_deleted
from shoal.controlplane.endpoints.subsets import repack_subsets
from shoal.kinds.core import endpoints
from shoal.kinds.discovery import endpointslice
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

CONTROLLER = "endpointslicemirroring-controller.k8s.io"
MAX_ADDRESSES_PER_SUBSET = 1000
"""Maximum number of addresses of one subset."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ANNOTATIONS_NOT_MIRRORED = (endpoints.LAST_CHANGE_ANNOTATION, LAST_APPLIED)


@dataclass(frozen=True, slots=True)
class MirroringPlan:
    slices: SliceChanges
    skipped: int = 0
    """Number of addresses that exceed a slice."""


def should_mirror(endpoints_object: Object, service: Object | None) -> bool:
    """Only Endpoints of a Service without a selector are mirrored."""
    metadata = endpoints_object["metadata"]
    if (metadata.get("labels") or {}).get(endpointslice.SKIP_MIRROR_LABEL) == "true":
        return False
    if endpoints.LEADER_ANNOTATION in (metadata.get("annotations") or {}):
        return False
    return service is not None and not (service.get("spec") or {}).get("selector")


def plan(endpoints_object: Object, existing: Iterable[Object]) -> MirroringPlan:
    """`existing` are the slices that already mirror these Endpoints."""
    by_key: dict[Any, list[Object]] = {}
    for one in existing:
        by_key.setdefault((one.get("addressType"), ports_key(one.get("ports"))), []).append(one)
    result, skipped = SliceChanges(), 0
    for subset in repack_subsets(_addresses(endpoints_object)):
        ports = [{"name": "", "protocol": "TCP", **port} for port in subset.get("ports") or ()]
        families: dict[str, dict[Any, Object]] = {}
        for address, ready in _subset_addresses(subset):
            if sum(map(len, families.values())) >= MAX_ADDRESSES_PER_SUBSET:
                skipped += 1
                continue
            family, endpoint = _endpoint(address, ready)
            families.setdefault(family, {})[endpoint_key(endpoint)] = endpoint
        for family, endpoints_by_key in families.items():
            current = by_key.pop((family, ports_key(ports)), [])
            result.add(_mirror_group(endpoints_object, family, ports, list(endpoints_by_key.values()), current))
    for unused in by_key.values():
        result.delete += unused
    result = reuse_deleted(result)
    if "deletionTimestamp" in endpoints_object["metadata"]:
        result.create = []
    return MirroringPlan(result, skipped)


def _addresses(endpoints_object: Object) -> Iterable[tuple[list[Object], Object, bool]]:
    for subset in endpoints_object.get("subsets") or ():
        ports = subset.get("ports") or []
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(field) or ():
                yield ports, address, ready


def _subset_addresses(subset: Object) -> Iterable[tuple[Object, bool]]:
    for field, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(field) or ():
            yield address, ready


def _endpoint(address: Object, ready: bool) -> tuple[str, Object]:
    ip = ip_address(address["ip"])
    endpoint: Object = {"addresses": [str(ip)], "conditions": {"ready": ready}}
    for field in ("hostname", "nodeName", "targetRef"):
        if address.get(field):
            endpoint[field] = address[field]
    return f"IPv{ip.version}", endpoint


def _mirror_group(
    endpoints_object: Object, family: str, ports: list[Object], desired: list[Object], current: list[Object]
) -> SliceChanges:
    new = _new_slice(endpoints_object, family, ports, desired)
    if not current:
        return SliceChanges(create=[new])
    first, rest = current[0], current[1:]
    current_by_key = {endpoint_key(one): one for one in first.get("endpoints") or ()}
    same = current_by_key == {endpoint_key(one): one for one in desired}
    metadata, new_metadata = first["metadata"], new["metadata"]
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith("shoal.dev/")
    }
    if same and metadata.get("labels") == new_metadata["labels"] and annotations == new_metadata["annotations"]:
        return SliceChanges(delete=rest)
    updated = {**new, "metadata": {**metadata, **{f: new_metadata[f] for f in ("labels", "annotations")}}}
    return SliceChanges(update=[updated], delete=rest)


def _new_slice(endpoints_object: Object, family: str, ports: list[Object], slice_endpoints: list[Object]) -> Object:
    endpoints_metadata = endpoints_object["metadata"]
    labels = {
        **(endpoints_metadata.get("labels") or {}),
        endpointslice.SERVICE_NAME_LABEL: endpoints_metadata["name"],
        endpointslice.MANAGED_BY_LABEL: CONTROLLER,
    }
    annotations = {
        key: value
        for key, value in (endpoints_metadata.get("annotations") or {}).items()
        if key not in _ANNOTATIONS_NOT_MIRRORED and not key.startswith("shoal.dev/")
    }
    metadata = {
        "generateName": f"{endpoints_metadata['name']}-",
        "namespace": endpoints_metadata["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [controller_reference(endpoints_object, "v1", "Endpoints")],
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": slice_endpoints,
        "ports": ports,
    }
