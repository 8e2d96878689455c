"""Reconciles Endpoints and EndpointSlices of every Service with a selector."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.cost_throttle import CostThrottle
from shoal.controlplane.endpoints.decide import ENDPOINTS_CONTROLLER, EndpointsPlan, is_slice_of, plan
from shoal.controlplane.endpoints.members import endpoint_facts, has_selector, selects_labels
from shoal.controlplane.endpoints.slices import SliceChanges
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.control import PODS
from shoal.kinds.core.endpoints import MANAGED_BY_LABEL
from shoal.kinds.discovery.endpointslice import SERVICE_NAME_LABEL
from shoal.objects.errors import Forbidden, NotFound
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller, by_namespace

Object = dict[str, Any]

SERVICES = GroupVersionResource("", "v1", "services")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
ENDPOINTS = GroupVersionResource("", "v1", "endpoints")
SLICES = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
NAMESPACE_TERMINATING = "NamespaceTerminating"
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 8


class EndpointsReconciler:
    """Keys are Services."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter) -> None:
        self._client, self._hosted_filter, wildcard = client, hosted, client.in_cluster("*")
        self._services = services = Informer(wildcard, SERVICES, clock, indexers=(by_namespace,))
        self._pods = pods = Informer(wildcard, PODS, clock, indexers=(by_namespace,))
        self._nodes = nodes = Informer(wildcard, NODES, clock)
        self._endpoints = endpoints = Informer(wildcard, ENDPOINTS, clock)
        self._slices = slices = Informer(wildcard, SLICES, clock, indexers=(by_controller,))
        self.controller: Controller[Key] = Controller("endpoints", clock, self.reconcile, WORKERS)
        self._throttle = CostThrottle(clock, self.controller.queue)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(
            self.controller.queue.add, services, pods, nodes, endpoints, slices
        )
        self._endpoints_expectations: WriteExpectations[Key] = WriteExpectations(endpoints)
        self._slice_expectations: WriteExpectations[Key] = WriteExpectations(slices)
        self._deleted_services: set[Key] = set()
        """Services whose deletion was observed and whose Endpoints may remain."""
        self._waiting_for_nodes: dict[str, set[Key]] = {}
        """By cluster: Services that left out pods because their nodes are unknown."""
        self.controller.watch(services, self._on_service)
        self.controller.watch(pods, self._on_pod)
        self.controller.watch(nodes, self._on_node)
        self.controller.watch(endpoints, self._on_endpoints)
        self.controller.watch(slices, self._on_slice)

    def _on_service(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._deleted_services.add(key)
        self.controller.queue.add(key)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        services = self._services.by_index(by_namespace, key[:2])
        if not services or endpoint_facts(old) == endpoint_facts(new):
            return
        labels = [pod["metadata"].get("labels") for pod in (old, new) if pod is not None]
        for service in services:
            if has_selector(service) and any(selects_labels(service, one) for one in labels):
                self._throttle.enqueue(key_of(service))

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None and key[0] in self._waiting_for_nodes:
            for owner in self._waiting_for_nodes.pop(key[0]):
                self.controller.queue.add(owner)

    def _on_endpoints(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._throttle.enqueue(key)

    def _on_slice(self, key: Key, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            name = (one["metadata"].get("labels") or {}).get(SERVICE_NAME_LABEL) if one is not None else None
            if name:
                self._throttle.enqueue((key[0], key[1], name))

    async def reconcile(self, key: Key) -> float | None:
        if not self._cache_sync.allow(key) or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        service = self._services.get(key)
        if service is None:
            await self._delete_endpoints(key)
            return None
        self._deleted_services.discard(key)
        if not has_selector(service):
            return None
        if not self._endpoints_expectations.satisfied(key) or not self._slice_expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        namespace_pods = self._pods.by_index(by_namespace, key[:2])
        self._throttle.record_cost(key, len(namespace_pods))
        pods = [pod for pod in namespace_pods if selects_labels(service, pod["metadata"].get("labels"))]
        owned = self._slices.by_index(by_controller, (*key[:2], service["metadata"]["uid"]))
        service_slices = [one for one in owned if is_slice_of(one, key[2])]
        changes = plan(
            service, pods, lambda name: self._nodes.get((key[0], "", name)), self._endpoints.get(key), service_slices
        )
        if changes.missing_nodes:
            self._waiting_for_nodes.setdefault(key[0], set()).add(key)
        try:
            await self._execute(key, changes)
        except Forbidden as error:
            if not any(cause.reason == NAMESPACE_TERMINATING for cause in error.causes):
                raise
        return None

    async def _execute(self, key: Key, changes: EndpointsPlan) -> None:
        client = self._client.in_cluster(key[0])
        if changes.endpoints is not None:
            is_new = "resourceVersion" not in changes.endpoints["metadata"]
            write = (
                client.create(ENDPOINTS, changes.endpoints, key[1])
                if is_new
                else client.update(ENDPOINTS, changes.endpoints)
            )
            self._endpoints_expectations.expect(key, await write)
        await write_slices(client, key, changes.slices, self._slice_expectations)

    async def _delete_endpoints(self, key: Key) -> None:
        """Deletes the Endpoints of a deleted Service. Confirms with the server: a Service missing in the informer
        proves nothing.
        """
        self._throttle.forget(key)
        self._endpoints_expectations.forget(key)
        self._slice_expectations.forget(key)
        deletion_observed, leftover = key in self._deleted_services, self._endpoints.get(key)
        if leftover is None or not (deletion_observed or is_managed(leftover)):
            self._deleted_services.discard(key)
            return
        client = self._client.in_cluster(key[0])
        try:
            await client.get(SERVICES, key[2], key[1])
            return
        except NotFound:
            pass
        with suppress(NotFound):
            await client.delete(ENDPOINTS, key[2], key[1], uid=leftover["metadata"]["uid"])
        self._deleted_services.discard(key)


def is_managed(endpoints: Object) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == ENDPOINTS_CONTROLLER


async def write_slices(client: Client, key: Key, changes: SliceChanges, expectations: WriteExpectations[Key]) -> None:
    for new_slice in changes.create:
        expectations.expect(key, await client.create(SLICES, new_slice, key[1]))
    for updated_slice in changes.update:
        expectations.expect(key, await client.update(SLICES, updated_slice))
    for deleted_slice in changes.delete:
        with suppress(NotFound):
            await client.delete(SLICES, deleted_slice["metadata"]["name"], key[1], uid=deleted_slice["metadata"]["uid"])
