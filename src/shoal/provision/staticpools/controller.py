"""Keeps the NodeClaims of static NodePools at their replicas. Keys are NodePools."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.kinds.karpenter.karpenter import LAUNCHED, nodepool_of, provider_id, static_replicas
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.provision.events import NODE_CLAIM_EVENTS
from shoal.provision.evictability import is_reschedulable
from shoal.provision.lifecycle.deletion import delete_claim
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import NODECLAIMS_CREATED
from shoal.provision.state import NODE_CLAIMS, ClusterState, ObjectKey
from shoal.provision.staticpools.decide import decide
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, EventRecorder
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]

RETRY_SECONDS = 10.0
"""Pause after a NodeClaim that got no machine."""


class StaticNodePoolReconciler:
    def __init__(
        self, resolver: ManagementResolver, state: ClusterState, recorder: EventRecorder, clock: Clock
    ) -> None:
        self._resolver, self._state, self._recorder, self._clock = resolver, state, recorder, clock
        self._not_before: dict[ObjectKey, float] = {}
        self.controller: Controller[ObjectKey] = Controller("staticnodepools", clock, self.reconcile)
        state.node_pools.add_event_handler(self._on_pool)
        state.node_claims.add_event_handler(self._on_claim)

    def _on_pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._not_before.pop((key[0], key[2]), None)
        elif static_replicas(new) is not None:
            self.controller.queue.add((key[0], key[2]))

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        claim = new or old
        pool = self._state.node_pools.get((key[0], "", nodepool_of(claim))) if claim is not None else None
        if pool is None or static_replicas(pool) is None:
            return
        pool_key = key[0], pool["metadata"]["name"]
        if new is None and old is not None and not condition_is(old, LAUNCHED):
            self._not_before[pool_key] = self._clock.monotonic() + RETRY_SECONDS
        self.controller.queue.add(pool_key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        if not self._state.has_synced:
            raise RequeueError("informers have not synced yet")
        cluster, name = key
        pool = self._state.node_pools.get((cluster, "", name))
        if pool is None:
            return None
        claims = [each for each in self._state.node_claims.by_index(by_cluster, cluster) if nodepool_of(each) == name]
        decision = decide(pool, claims, lambda claim: self._pods_of(cluster, claim))
        for claim in decision.delete:
            try:
                await delete_claim(self._resolver, self._state, cluster, claim)
            except NotFound:
                continue
            message = f"Disrupting NodeClaim: the static NodePool {name} has fewer replicas"
            self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, NORMAL, "DisruptionTerminating", message)
        wait = self._not_before.get(key, 0.0) - self._clock.monotonic()
        if decision.create and wait > 0:
            return wait
        for claim in decision.create:
            await self._create(cluster, name, claim)
        return None

    async def _create(self, cluster: str, pool: str, claim: Object) -> None:
        try:
            created = await self._resolver.client(cluster).create(NODE_CLAIMS, claim)
        except AlreadyExists:
            return  # not in the cache yet
        self._state.node_claims.observe_write(created, cluster)
        NODECLAIMS_CREATED.inc(cluster, reason="static", nodepool=pool, min_values_relaxed="false")
        message = f"Created for the static NodePool {pool}"
        self._recorder.record(NODE_CLAIM_EVENTS, cluster, created, NORMAL, "Created", message)

    def _pods_of(self, cluster: str, claim: Object) -> int:
        node = self._state.node_by_provider_id(cluster, provider_id(claim)) if provider_id(claim) else None
        pods = self._state.pods_on(cluster, node["metadata"]["name"]) if node is not None else ()
        return sum(is_reschedulable(pod) for pod in pods)
