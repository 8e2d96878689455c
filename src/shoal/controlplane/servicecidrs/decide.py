"""Readiness and deletion of ServiceCIDRs: one is kept while a Service has an address only it contains. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from shoal.kinds.services import API_ADDRESS
from shoal.objects.conditions import condition_is, set_condition

Object = dict[str, Any]
Network = IPv4Network | IPv6Network

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
STUCK = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"


def networks(obj: Object) -> list[Network]:
    return [ip_network(text) for text in (obj.get("spec") or {}).get("cidrs") or ()]


def addresses(services: Iterable[Object]) -> set[str]:
    """Returns the cluster IPs of the Services; always includes that of the API."""
    found = {ip for service in services for ip in (service.get("spec") or {}).get("clusterIPs") or ()}
    return (found - {"None"}) | {API_ADDRESS}


def may_go(cidr: Object, others: Iterable[Object], used: Iterable[str]) -> bool:
    rest = [network for other in others for network in networks(other)]
    for text in used:
        address = ip_address(text)
        if any(address in network for network in networks(cidr)) and not any(address in one for one in rest):
            return False
    return True


def is_settled(cidr: Object) -> bool:
    """Returns whether it has the finalizer and is Ready."""
    protected = FINALIZER in (cidr["metadata"].get("finalizers") or ())
    return protected and condition_is(cidr, "Ready")


def ready(cidr: Object, now: str) -> Object:
    return set_condition(cidr, "Ready", "True", reason="", message="Kubernetes Service CIDR is ready", now=now)


def stuck(cidr: Object, now: str) -> Object:
    return set_condition(cidr, "Ready", "False", reason="Terminating", message=STUCK, now=now)
