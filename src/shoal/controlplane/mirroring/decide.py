"""Computes EndpointSlices that mirror Endpoints written by users. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from shoal.controlplane.endpoints.slices import Slices, identity, ports_key, reused
from shoal.controlplane.endpoints.subsets import packed
from shoal.kinds import discovery, endpoints
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

CONTROLLER = "endpointslicemirroring-controller.k8s.io"
MOST = 1000
"""Maximum number of addresses of one subset."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_MIRRORED = (endpoints.LAST_CHANGE, LAST_APPLIED)


@dataclass(frozen=True, slots=True)
class Plan:
    slices: Slices
    skipped: int = 0
    """Number of addresses that exceed a slice."""


def is_mirrored(written: Object, service: Object | None) -> bool:
    """Only Endpoints of a Service without a selector are mirrored."""
    metadata = written["metadata"]
    if (metadata.get("labels") or {}).get(discovery.SKIP_MIRROR) == "true":
        return False
    if endpoints.LEADER in (metadata.get("annotations") or {}):
        return False
    return service is not None and not (service.get("spec") or {}).get("selector")


def plan(written: Object, existing: Iterable[Object]) -> Plan:
    """`existing` are the slices that already mirror these Endpoints."""
    by_key: dict[Any, list[Object]] = {}
    for one in existing:
        by_key.setdefault((one.get("addressType"), ports_key(one.get("ports"))), []).append(one)
    result, skipped = Slices(), 0
    for subset in packed(_addresses(written)):
        ports = [{"name": "", "protocol": "TCP", **port} for port in subset.get("ports") or ()]
        families: dict[str, dict[Any, Object]] = {}
        for address, ready in _in_order(subset):
            if sum(map(len, families.values())) >= MOST:
                skipped += 1
                continue
            family, endpoint = _endpoint(address, ready)
            families.setdefault(family, {})[identity(endpoint)] = endpoint
        for family, wanted in families.items():
            found = by_key.pop((family, ports_key(ports)), [])
            result.add(_repeated(written, family, ports, list(wanted.values()), found))
    for left in by_key.values():
        result.delete += left
    result = reused(result)
    if "deletionTimestamp" in written["metadata"]:
        result.create = []
    return Plan(result, skipped)


def _addresses(written: Object) -> Iterable[tuple[list[Object], Object, bool]]:
    for subset in written.get("subsets") or ():
        ports = subset.get("ports") or []
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(field) or ():
                yield ports, address, ready


def _in_order(subset: Object) -> Iterable[tuple[Object, bool]]:
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


def _repeated(written: Object, family: str, ports: list[Object], wanted: list[Object], found: list[Object]) -> Slices:
    new = _slice(written, family, ports, wanted)
    if not found:
        return Slices(create=[new])
    first, rest = found[0], found[1:]
    there = {identity(one): one for one in first.get("endpoints") or ()}
    same = there == {identity(one): one for one in wanted}
    metadata, meant = first["metadata"], new["metadata"]
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith("shoal.dev/")}
    if same and metadata.get("labels") == meant["labels"] and own == meant["annotations"]:
        return Slices(delete=rest)
    changed = {**new, "metadata": {**metadata, **{f: meant[f] for f in ("labels", "annotations")}}}
    return Slices(update=[changed], delete=rest)


def _slice(written: Object, family: str, ports: list[Object], wanted: list[Object]) -> Object:
    own = written["metadata"]
    labels = {**(own.get("labels") or {}), discovery.SERVICE_NAME: own["name"], discovery.MANAGED_BY: CONTROLLER}
    annotations = {
        key: value
        for key, value in (own.get("annotations") or {}).items()
        if key not in _NOT_MIRRORED and not key.startswith("shoal.dev/")
    }
    metadata = {
        "generateName": f"{own['name']}-",
        "namespace": own["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [controller_reference(written, "v1", "Endpoints")],
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "endpoints": wanted,
        "ports": ports,
    }
