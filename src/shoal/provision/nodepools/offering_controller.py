"""Lists the Offerings of each cluster that has NodePools. Keys are logical clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.karpenter.karpenter import (
    is_deleting,
    is_managed_node_class,
    node_class_ref,
    nodepool_template_spec,
)
from shoal.objects.errors import AlreadyExists, Conflict, NotFound
from shoal.provision.cloudprovider.nodeoverlays import apply_overlays
from shoal.provision.cloudprovider.types import CloudProvider, ProviderError
from shoal.provision.management import ManagementResolver
from shoal.provision.nodepools.offering_list import OFFERINGS, offerings_of_pool, plan_offerings
from shoal.provision.state import ClusterState
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]

DELAY_SECONDS = 1.0
"""Delay after a change: changes come in groups, and nobody waits for the list."""
POLL_SECONDS = 300.0
"""A cluster of another server may serve Offerings later, or never."""
MAX_PARALLEL_WRITES = 8


class OfferingReconciler:
    def __init__(
        self, resolver: ManagementResolver, state: ClusterState, provider: CloudProvider, clock: Clock
    ) -> None:
        self._resolver, self._state, self._provider = resolver, state, provider
        self._offerings = Informer(
            resolver.hosted_client, OFFERINGS, clock, indexers=(by_cluster,), poll_until_served=POLL_SECONDS
        )
        self.controller: Controller[str] = Controller("offerings", clock, self.reconcile)
        self.controller.sources.append(self._offerings.run)
        for informer in (state.node_pools, state.node_classes, state.node_overlays):
            informer.add_event_handler(self._on_spec)
        self._offerings.add_event_handler(self._on_offering)
        provider.add_event_handler(self._on_provider_change)

    def _on_spec(self, key: Key, old: Object | None, new: Object | None) -> None:
        if (
            old is None
            or new is None
            or _generation(old) != _generation(new)
            or _is_evaluated(old) != _is_evaluated(new)
        ):
            self.controller.queue.add_after(key[0], DELAY_SECONDS)

    def _on_offering(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None:  # Somebody may have changed or deleted it.
            self.controller.queue.add_after(key[0], DELAY_SECONDS)

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        if self._state.node_pools.by_index(by_cluster, cluster):
            self.controller.queue.add_after(cluster, DELAY_SECONDS)

    async def reconcile(self, cluster: str) -> None:
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        if not self._offerings.has_synced:
            return  # the server does not serve them
        if self._resolver.capi_cluster_of(cluster) is None:
            return  # a `shoal provisioner` may serve it and write them
        existing = {each["metadata"]["name"]: each for each in self._offerings.by_index(by_cluster, cluster)}
        pools = self._state.node_pools.by_index(by_cluster, cluster)
        if not existing and not pools:
            return
        try:
            desired = [each for pool in pools for each in self._offerings_of(cluster, pool)]
        except ProviderError:
            return  # prices are not known yet; a change of the provider follows
        changes, client = plan_offerings(desired, existing), self._resolver.client(cluster)
        semaphore = asyncio.Semaphore(MAX_PARALLEL_WRITES)

        async def write(request: Callable[[GroupVersionResource, Object], Awaitable[Object]], obj: Object) -> None:
            async with semaphore:
                with suppress(AlreadyExists, Conflict, NotFound):  # a watch event leads to another reconcile
                    self._offerings.observe_write(await request(OFFERINGS, obj), cluster)

        async def delete(obj: Object) -> None:
            async with semaphore:
                with suppress(NotFound):
                    await client.delete(OFFERINGS, obj["metadata"]["name"], uid=obj["metadata"]["uid"])

        await asyncio.gather(
            *(write(client.create, obj) for obj in changes.create),
            *(write(client.update, obj) for obj in changes.update),
            *map(delete, changes.delete),
        )

    def _offerings_of(self, cluster: str, pool: Object) -> list[Object]:
        spec = nodepool_template_spec(pool)
        node_class = self._state.node_classes.get((cluster, "", node_class_ref(spec).get("name", "")))
        if node_class is None or is_deleting(pool) or not is_managed_node_class(spec):
            return []
        types = self._provider.instance_types(cluster, node_class)
        overlays = self._state.node_overlays.by_index(by_cluster, cluster)
        return offerings_of_pool(pool, apply_overlays(types, overlays, pool))


def _generation(obj: Object) -> object:
    return obj["metadata"].get("generation"), is_deleting(obj)


def _is_evaluated(obj: Object) -> object:
    """Of a NodeOverlay, which takes effect when its condition says so."""
    return (obj.get("status") or {}).get("conditions") if obj.get("kind") == "NodeOverlay" else None
