"""Maintains the NodeRegistrationHealthy condition of NodePools."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import class_ref, is_going, is_managed, pool_of, template_spec
from shoal.objects.errors import NotFound
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.health.decide import (
    Outcome,
    Ring,
    after,
    is_of,
    is_outdated,
    remembered,
    with_health,
)
from shoal.provision.lifecycle.pairs import Place
from shoal.provision.view import POOLS, View
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class RegistrationHealth:
    def __init__(self, homes: Homes, view: View, clock: Clock) -> None:
        self._homes, self._view, self._clock = homes, view, clock
        self.loop: Loop[Place] = Loop("nodepool-health", clock, self.reconcile, workers=2)
        self._rings: dict[str, Ring] = {}
        """By uid of the NodePool."""
        self._classes: dict[str, int] = {}
        """Generation of the node class that the outcomes refer to."""
        view.pools.listen(self._pool)
        view.classes.listen(self._class)

    def record(self, cluster: str, claim: Object, outcome: Outcome) -> None:
        """Records that a NodeClaim registered or failed."""
        pool = self._view.pools.get(cluster, pool_of(claim))
        if pool is not None and is_of(claim, pool):
            uid = pool["metadata"]["uid"]
            self._rings[uid] = after(self._ring(pool), outcome)
            self.loop.queue.add((cluster, pool["metadata"]["name"]))

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.loop.queue.add((key[0], key[2]))
        elif old is not None:
            self._rings.pop(old["metadata"]["uid"], None)
            self._classes.pop(old["metadata"]["uid"], None)

    def _class(self, key: Key, old: Object | None, new: Object | None) -> None:
        for pool in self._view.pools.of(key[0]):
            if class_ref(template_spec(pool)).get("name") == key[2]:
                self.loop.queue.add((key[0], pool["metadata"]["name"]))

    def _ring(self, pool: Object) -> Ring:
        found = self._rings.get(pool["metadata"]["uid"])
        return remembered(pool) if found is None else found

    async def reconcile(self, key: Place) -> None:
        cluster, name = key
        if not self._view.synced:
            raise Later("not everything has been listed yet")
        pool = self._view.pools.get(cluster, name)
        if pool is None or is_going(pool) or not is_managed(template_spec(pool)):
            return
        node_class = self._view.classes.get(cluster, class_ref(template_spec(pool)).get("name", ""))
        if node_class is None:
            return
        uid, generation = pool["metadata"]["uid"], node_class["metadata"].get("generation", 0)
        if is_outdated(pool) or self._classes.get(uid, generation) != generation:
            self._rings[uid] = ()
        self._classes[uid] = generation
        new = with_health(pool, self._ring(pool), rfc3339(self._clock.now()))
        if new is not pool:
            try:
                written = await self._homes.client(cluster).update(POOLS, new, "status")
            except NotFound:
                return  # the pool or its cluster was deleted
            self._view.pools.learn(cluster, written)
