"""Resolves a Service of a logical cluster to a ready endpoint, from EndpointSlices or Endpoints.

A logical cluster has no network of its own, so an address is usable if this process can reach it. Pods on simulated
nodes have addresses where nothing, or an unrelated program, listens: those are never called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.apiserver.cache.cacher import WatchCache
from shoal.kinds.clusterapi.simulated_node import is_simulated

Object = dict[str, Any]

SERVICE_NAME = "kubernetes.io/service-name"
ROUTABLE = ("ClusterIP", "NodePort", "LoadBalancer")


class ResolveError(Exception):
    """Why a Service cannot be called."""


def resolve_service(cache: WatchCache, cluster: str, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Returns address and port of a ready endpoint."""
    table = cache.resource_cache("", "services").tables.get(cluster)
    entry = table.entries.get(f"{namespace}/{name}") if table is not None else None
    if entry is None:
        raise ResolveError(f'service "{name}" not found')
    spec = entry.object().get("spec") or {}
    if spec.get("type", "ClusterIP") not in ROUTABLE:
        raise ResolveError(f'unsupported service type "{spec["type"]}"')
    service_port = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
    if service_port is None:
        raise ResolveError(f'no service port {port} found for service "{name}"')
    simulated = False
    for address, number, node in _endpoints(cache, cluster, namespace, name, service_port.get("name") or ""):
        if not _is_simulated(cache, cluster, node):
            return address, number
        simulated = True
    if simulated:
        raise ResolveError(
            f'service "{name}" has pods on simulated nodes only, where nothing listens: use clientConfig.url, or a '
            "Service without a selector and an EndpointSlice with addresses that can be reached"
        )
    raise ResolveError(f'no endpoints available for service "{name}"')


def _endpoints(cache: WatchCache, cluster: str, namespace: str, name: str, port: str) -> Iterator[tuple[str, int, str]]:
    """Ready addresses with port and node."""
    slices = cache.resource_cache("discovery.k8s.io", "endpointslices").tables.get(cluster)
    candidates = slices.select(namespace) if slices is not None else []
    service_slices = [entry.object() for entry in candidates if entry.labels.get(SERVICE_NAME) == name]
    for each in service_slices:
        numbers = [one.get("port") for one in each.get("ports") or () if (one.get("name") or "") == port]
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False and numbers and numbers[0]:
                yield endpoint["addresses"][0], numbers[0], endpoint.get("nodeName") or ""
    if service_slices:
        return
    table = cache.resource_cache("", "endpoints").tables.get(cluster)
    entry = table.entries.get(f"{namespace}/{name}") if table is not None else None
    for subset in (entry.object().get("subsets") or ()) if entry is not None else ():
        numbers = [one.get("port") for one in subset.get("ports") or () if (one.get("name") or "") == port]
        for address in subset.get("addresses") or ():
            if numbers and numbers[0]:
                yield address["ip"], numbers[0], address.get("nodeName") or ""


def _is_simulated(cache: WatchCache, cluster: str, node: str) -> bool:
    table = cache.resource_cache("", "nodes").tables.get(cluster) if node else None
    entry = table.entries.get(f"/{node}") if table is not None else None
    return entry is not None and is_simulated(entry.object())
