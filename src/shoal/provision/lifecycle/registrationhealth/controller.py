"""Maintains the NodeRegistrationHealthy condition of NodePools."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import (
    is_deleting,
    is_managed_node_class,
    node_class_ref,
    nodepool_of,
    nodepool_template_spec,
)
from shoal.objects.errors import NotFound
from shoal.provision.lifecycle.registrationhealth.decide import (
    LaunchOutcome,
    OutcomeBuffer,
    add_outcome,
    is_condition_outdated,
    is_owned_by,
    outcomes_from_status,
    with_registration_health,
)
from shoal.provision.management import ManagementResolver
from shoal.provision.state import NODE_POOLS, ClusterState, ObjectKey
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]


class RegistrationHealthReconciler:
    def __init__(self, resolver: ManagementResolver, state: ClusterState, clock: Clock) -> None:
        self._resolver, self._state, self._clock = resolver, state, clock
        self.controller: Controller[ObjectKey] = Controller("nodepool-health", clock, self.reconcile, workers=2)
        self._outcomes: dict[str, OutcomeBuffer] = {}
        """By uid of the NodePool."""
        self._class_generations: dict[str, int] = {}
        """Generation of the node class that the outcomes refer to."""
        state.node_pools.add_event_handler(self._on_pool)
        state.node_classes.add_event_handler(self._on_class)

    def record(self, cluster: str, claim: Object, outcome: LaunchOutcome) -> None:
        """Records that a NodeClaim registered or failed."""
        pool = self._state.node_pools.get((cluster, "", nodepool_of(claim)))
        if pool is not None and is_owned_by(claim, pool):
            uid = pool["metadata"]["uid"]
            self._outcomes[uid] = add_outcome(self._outcomes_of(pool), outcome)
            self.controller.queue.add((cluster, pool["metadata"]["name"]))

    def _on_pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.controller.queue.add((key[0], key[2]))
        elif old is not None:
            self._outcomes.pop(old["metadata"]["uid"], None)
            self._class_generations.pop(old["metadata"]["uid"], None)

    def _on_class(self, key: Key, old: Object | None, new: Object | None) -> None:
        for pool in self._state.node_pools.by_index(by_cluster, key[0]):
            if node_class_ref(nodepool_template_spec(pool)).get("name") == key[2]:
                self.controller.queue.add((key[0], pool["metadata"]["name"]))

    def _outcomes_of(self, pool: Object) -> OutcomeBuffer:
        outcomes = self._outcomes.get(pool["metadata"]["uid"])
        return outcomes_from_status(pool) if outcomes is None else outcomes

    async def reconcile(self, key: ObjectKey) -> None:
        cluster, name = key
        if not self._state.has_synced:
            raise RequeueError("informers have not synced yet")
        pool = self._state.node_pools.get((cluster, "", name))
        if pool is None or is_deleting(pool) or not is_managed_node_class(nodepool_template_spec(pool)):
            return
        node_class = self._state.node_classes.get(
            (cluster, "", node_class_ref(nodepool_template_spec(pool)).get("name", ""))
        )
        if node_class is None:
            return
        uid, generation = pool["metadata"]["uid"], node_class["metadata"].get("generation", 0)
        if is_condition_outdated(pool) or self._class_generations.get(uid, generation) != generation:
            self._outcomes[uid] = ()
        self._class_generations[uid] = generation
        new = with_registration_health(pool, self._outcomes_of(pool), rfc3339(self._clock.now()))
        if new is not pool:
            try:
                written = await self._resolver.client(cluster).update(NODE_POOLS, new, "status")
            except NotFound:
                return  # the pool or its cluster was deleted
            self._state.node_pools.observe_write(written, cluster)
