"""Reconciles Endpoints and EndpointSlices of every Service with a selector."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.cost_throttle import CostThrottle
from shoal.controlplane.endpoints.decide import ENDPOINTS_CONTROLLER, EndpointsPlan, is_slice_of, plan
from shoal.controlplane.endpoints.members import endpoint_facts, has_selector, selects_labels
from shoal.controlplane.endpoints.slices import SliceChanges
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.kinds.core.endpoints import MANAGED_BY_LABEL
from shoal.kinds.discovery.endpointslice import SERVICE_NAME_LABEL
from shoal.objects.errors import Forbidden, NotFound
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.indexed_informer import IndexedInformer

Object = dict[str, Any]

SERVICES = GroupVersionResource("", "v1", "services")
ENDPOINTS = GroupVersionResource("", "v1", "endpoints")
SLICES = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
NAMESPACE_TERMINATING = "NamespaceTerminating"
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 8


class EndpointsReconciler:
    """Keys are Services. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusterFilter,
        services: IndexedInformer,
        pods: IndexedInformer,
        nodes: IndexedInformer,
        endpoints: IndexedInformer,
        slices: IndexedInformer,
    ) -> None:
        self._client, self._hosted_filter = client, hosted
        self._services, self._pods, self._nodes = services, pods, nodes
        self._endpoints, self._slices = endpoints, slices
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
        services.event_handlers.append(self._on_service)
        pods.event_handlers.append(self._on_pod)
        nodes.event_handlers.append(self._on_node)
        endpoints.event_handlers.append(self._on_endpoints)
        slices.event_handlers.append(self._on_slice)

    def _on_service(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._deleted_services.add(key)
        self.controller.queue.add(key)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        services = self._services.by_namespace(key)
        if not services or endpoint_facts(old) == endpoint_facts(new):
            return
        labels = [pod["metadata"].get("labels") for pod in (old, new) if pod is not None]
        for owner, service in services:
            if has_selector(service) and any(selects_labels(service, one) for one in labels):
                self._throttle.enqueue(owner)

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
        namespace_pods = self._pods.by_namespace(key)
        self._throttle.record_cost(key, len(namespace_pods))
        pods = [pod for _, pod in namespace_pods if selects_labels(service, pod["metadata"].get("labels"))]
        owned = self._slices.by_controller(key, service["metadata"]["uid"])
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
