"""Marks new ServiceCIDRs ready, and finalizes deleted ones once no Service uses them."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.kinds.core.service.services import KUBERNETES_SERVICE_IP
from shoal.objects.conditions import condition_is, set_condition
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer

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


Object = dict[str, Any]

SERVICES = GroupVersionResource("", "v1", "services")
SERVICE_CIDRS = GroupVersionResource("networking.k8s.io", "v1", "servicecidrs", namespaced=False)


def terminating_by_cluster(key: Key, cidr: Object) -> tuple[str, ...]:
    """Index of deleted ServiceCIDRs by logical cluster."""
    return (key[0],) if "deletionTimestamp" in cidr["metadata"] else ()


class ServiceCIDRReconciler:
    """Keys are ServiceCIDRs."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter) -> None:
        self._client, self._clock, self._hosted_filter, wildcard = client, clock, hosted, client.in_cluster("*")
        self._cidrs = Informer(wildcard, SERVICE_CIDRS, clock, indexers=(terminating_by_cluster,))
        self.controller: Controller[Key] = Controller("servicecidrs", clock, self.reconcile, 1)
        self.controller.watch(self._cidrs, self._on_cidr)
        self.controller.watch(Informer(wildcard, SERVICES, clock), self._on_service)

    def _on_cidr(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._enqueue_terminating(key[0])
        if new is not None and not ("deletionTimestamp" not in new["metadata"] and is_initialized(new)):
            self.controller.queue.add(key)

    def _on_service(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._enqueue_terminating(key[0])

    def _enqueue_terminating(self, cluster: str) -> None:
        """Enqueues deleted ServiceCIDRs: they may wait for Services."""
        for cidr in self._cidrs.by_index(terminating_by_cluster, cluster):
            self.controller.queue.add(key_of(cidr))

    async def reconcile(self, key: Key) -> None:
        cidr = self._cidrs.get(key)
        if cidr is None or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return
        client = self._client.in_cluster(key[0])
        try:
            if "deletionTimestamp" in cidr["metadata"]:
                await self._finalize(client, key, cidr)
            else:
                await self._initialize(client, cidr)
        except NotFound:
            return

    async def _initialize(self, client: Client, cidr: Object) -> None:
        finalizers = cidr["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            cidr = await client.update(
                SERVICE_CIDRS, {**cidr, "metadata": {**cidr["metadata"], "finalizers": [*finalizers, FINALIZER]}}
            )
        updated = cidr if is_initialized(cidr) else with_ready_condition(cidr, rfc3339(self._clock.now()))
        if updated is not cidr:
            await client.update(SERVICE_CIDRS, updated, "status")

    async def _finalize(self, client: Client, key: Key, cidr: Object) -> None:
        """Lists from the server: it also has the default Services and networks that were never written."""
        finalizers = cidr["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        services, _ = await client.list_all(SERVICES)
        others, _ = await client.list_all(SERVICE_CIDRS)
        alive = [
            one for one in others if one["metadata"]["name"] != key[2] and "deletionTimestamp" not in one["metadata"]
        ]
        if can_delete(cidr, alive, service_addresses(services)):
            kept = [one for one in finalizers if one != FINALIZER]
            await client.update(SERVICE_CIDRS, {**cidr, "metadata": {**cidr["metadata"], "finalizers": kept}})
            return
        updated = with_terminating_condition(cidr, rfc3339(self._clock.now()))
        if updated is not cidr:
            await client.update(SERVICE_CIDRS, updated, "status")
