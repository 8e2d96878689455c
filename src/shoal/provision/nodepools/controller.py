"""Reconciles conditions of NodePools, node classes and NodeOverlays, and the usage of NodePools."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import (
    HASH_VERSION,
    NODE_POOL_HASH_VERSION,
    annotation_of,
    is_deleting,
    is_managed_node_class,
    node_class_ref,
    nodepool_of,
    nodepool_template_spec,
)
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.nodeoverlays import validate_overlays
from shoal.provision.cloudprovider.types import CloudProvider, InstanceType, ProviderError
from shoal.provision.management import ManagementResolver
from shoal.provision.nodepools.decide import (
    claim_hash_patch,
    hash_patch,
    node_class_with_condition,
    node_pool_with_status,
    overlay_with_conditions,
)
from shoal.provision.provisioning.existing_nodes import pool_usage
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS, ClusterState, ObjectKey
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]


class NodePoolReconciler:
    def __init__(self, resolver: ManagementResolver, state: ClusterState, clock: Clock) -> None:
        self._resolver, self._state, self._clock = resolver, state, clock
        self.controller: Controller[ObjectKey] = Controller("nodepools", clock, self.reconcile)
        state.node_pools.add_event_handler(self._on_pool)
        state.node_classes.add_event_handler(self._on_class)
        state.node_claims.add_event_handler(self._on_claim)

    def _on_pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.controller.queue.add((key[0], key[2]))

    def _on_class(self, key: Key, old: Object | None, new: Object | None) -> None:
        for pool in self._state.node_pools.by_index(by_cluster, key[0]):
            if node_class_ref(nodepool_template_spec(pool)).get("name") == key[2]:
                self.controller.queue.add((key[0], pool["metadata"]["name"]))

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        node_claim = new or old
        if (
            node_claim is not None
            and nodepool_of(node_claim)
            and (old is None or new is None or _capacity(old) != _capacity(new))
        ):
            self.controller.queue.add((key[0], nodepool_of(node_claim)))

    async def reconcile(self, key: ObjectKey) -> None:
        if not self._state.has_synced:
            raise RequeueError("informers have not synced yet")
        cluster, name = key
        pool = self._state.node_pools.get((cluster, "", name))
        if pool is None or is_deleting(pool) or not is_managed_node_class(nodepool_template_spec(pool)):
            return
        patch = hash_patch(pool)
        client = self._resolver.client(cluster)
        try:
            if patch is not None:
                await self._rehash_claims(cluster, pool)
                pool = self._state.node_pools.observe_write(await client.merge_patch(NODE_POOLS, name, patch), cluster)
            node_class = self._state.node_classes.get(
                (cluster, "", node_class_ref(nodepool_template_spec(pool)).get("name", ""))
            )
            usage = pool_usage(self._state.node_claims.by_index(by_cluster, cluster), name, {})
            new = node_pool_with_status(pool, node_class, usage, rfc3339(self._clock.now()))
            await _write_status(client, self._state.node_pools, NODE_POOLS, cluster, pool, new)
        except NotFound:
            return  # the pool or its cluster was deleted

    async def _rehash_claims(self, cluster: str, pool: Object) -> None:
        """Updates the hashes of the pool's NodeClaims before the pool announces the new hash version. An interrupted
        update is repeated.
        """
        if annotation_of(pool, NODE_POOL_HASH_VERSION) == HASH_VERSION:
            return
        for claim in self._state.node_claims.by_index(by_cluster, cluster):
            patch = claim_hash_patch(pool, claim) if nodepool_of(claim) == pool["metadata"]["name"] else None
            if patch is not None:
                with suppress(NotFound):
                    written = await self._resolver.client(cluster).merge_patch(
                        NODE_CLAIMS, claim["metadata"]["name"], patch
                    )
                    self._state.node_claims.observe_write(written, cluster)


class NodeClassReconciler:
    def __init__(
        self, resolver: ManagementResolver, state: ClusterState, provider: CloudProvider, clock: Clock
    ) -> None:
        self._resolver, self._state, self._provider, self._clock = resolver, state, provider, clock
        self.controller: Controller[ObjectKey] = Controller("nodeclasses", clock, self.reconcile)
        state.node_classes.add_event_handler(self._on_class)
        provider.add_event_handler(self._on_provider_change)

    def _on_class(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.controller.queue.add((key[0], key[2]))

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        if not claim:
            for node_class in self._state.node_classes.by_index(by_cluster, cluster):
                self.controller.queue.add((cluster, node_class["metadata"]["name"]))

    async def reconcile(self, key: ObjectKey) -> None:
        if not self._provider.has_synced:
            raise RequeueError("informers have not synced yet")
        cluster, name = key
        node_class = self._state.node_classes.get((cluster, "", name))
        if node_class is None or is_deleting(node_class):
            return
        error = self._provider.node_class_error(cluster, node_class)
        new = node_class_with_condition(node_class, error, rfc3339(self._clock.now()))
        try:
            await _write_status(
                self._resolver.client(cluster), self._state.node_classes, NODE_CLASSES, cluster, node_class, new
            )
        except NotFound:
            return


class NodeOverlayReconciler:
    """Keys are logical clusters, because overlays are validated together."""

    def __init__(
        self, resolver: ManagementResolver, state: ClusterState, provider: CloudProvider, clock: Clock
    ) -> None:
        self._resolver, self._state, self._provider, self._clock = resolver, state, provider, clock
        self.controller: Controller[str] = Controller("nodeoverlays", clock, self.reconcile)
        state.node_overlays.add_event_handler(self._on_spec)
        state.node_pools.add_event_handler(self._on_spec)
        state.node_classes.add_event_handler(self._on_spec)
        provider.add_event_handler(self._on_provider_change)

    def _on_spec(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _generation(old) != _generation(new):
            self._enqueue(key[0])

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        if not claim:
            self._enqueue(cluster)

    def _enqueue(self, cluster: str) -> None:
        if self._state.node_overlays.by_index(by_cluster, cluster):
            self.controller.queue.add(cluster)

    async def reconcile(self, cluster: str) -> None:
        state = self._state
        if not (state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        overlays = [each for each in state.node_overlays.by_index(by_cluster, cluster) if not is_deleting(each)]
        verdicts, now = validate_overlays(overlays, self._types_by_pool(cluster)), rfc3339(self._clock.now())
        for overlay in overlays:
            new = overlay_with_conditions(overlay, verdicts[overlay["metadata"]["name"]], now)
            try:
                await _write_status(
                    self._resolver.client(cluster), state.node_overlays, NODE_OVERLAYS, cluster, overlay, new
                )
            except NotFound:
                continue  # the overlay or its cluster was deleted

    def _types_by_pool(self, cluster: str) -> list[tuple[Object, list[InstanceType]]]:
        """A NodePool whose types are unknown does not keep overlays from the other pools."""
        types_by_pool = []
        for pool in self._state.node_pools.by_index(by_cluster, cluster):
            spec = nodepool_template_spec(pool)
            node_class = self._state.node_classes.get((cluster, "", node_class_ref(spec).get("name", "")))
            if node_class is None or is_deleting(pool) or not is_managed_node_class(spec):
                continue
            try:
                types_by_pool.append((pool, self._provider.instance_types(cluster, node_class)))
            except ProviderError:
                continue
        return types_by_pool


async def _write_status(
    client: Client, informer: Informer, kind: GroupVersionResource, cluster: str, old: Object, new: Object
) -> None:
    if new is not old:
        informer.observe_write(await client.update(kind, new, "status"), cluster)


def _generation(obj: Object) -> object:
    return obj["metadata"].get("generation"), is_deleting(obj)


def _capacity(claim: Object) -> object:
    return (claim.get("status") or {}).get("capacity")
