"""Readiness and deletion of ServiceCIDRs: one is kept while a Service has an address only it contains. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from shoal.kinds.core.service.services import KUBERNETES_SERVICE_IP
from shoal.objects.conditions import condition_is, set_condition

Object = dict[str, Any]
Network = IPv4Network | IPv6Network

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
IN_USE_MESSAGE = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)


def networks_of(obj: Object) -> list[Network]:
    return [ip_network(text) for text in (obj.get("spec") or {}).get("cidrs") or ()]


def service_addresses(services: Iterable[Object]) -> set[str]:
    """Returns the cluster IPs of the Services; always includes that of the API."""
    ips = {ip for service in services for ip in (service.get("spec") or {}).get("clusterIPs") or ()}
    return (ips - {"None"}) | {KUBERNETES_SERVICE_IP}


def can_delete(cidr: Object, others: Iterable[Object], used: Iterable[str]) -> bool:
    other_networks = [network for other in others for network in networks_of(other)]
    for text in used:
        address = ip_address(text)
        if any(address in network for network in networks_of(cidr)) and not any(
            address in one for one in other_networks
        ):
            return False
    return True


def is_initialized(cidr: Object) -> bool:
    """Returns whether it has the finalizer and is Ready."""
    protected = FINALIZER in (cidr["metadata"].get("finalizers") or ())
    return protected and condition_is(cidr, "Ready")


def with_ready_condition(cidr: Object, now: str) -> Object:
    return set_condition(cidr, "Ready", "True", reason="", message="Kubernetes Service CIDR is ready", now=now)


def with_terminating_condition(cidr: Object, now: str) -> Object:
    return set_condition(cidr, "Ready", "False", reason="Terminating", message=IN_USE_MESSAGE, now=now)
