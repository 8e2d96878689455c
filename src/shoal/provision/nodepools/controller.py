"""The loops that say whether a NodePool and its node class can be bought with, and what the pool has."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import class_ref, is_going, pool_of, template_spec
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.homes import Homes
from shoal.provision.nodepools.decide import class_with_condition, hash_patch, with_conditions
from shoal.provision.provisioning.places import used
from shoal.provision.shelf import Shelf
from shoal.provision.view import CLASSES, POOLS, View
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster and name."""


class NodePools:
    def __init__(self, homes: Homes, view: View, clock: Clock) -> None:
        self._homes, self._view, self._clock = homes, view, clock
        self.loop: Loop[Place] = Loop("nodepools", clock, self.reconcile)
        view.pools.listen(self._pool)
        view.classes.listen(self._class)
        view.claims.listen(self._claim)

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.loop.queue.add((key[0], key[2]))

    def _class(self, key: Key, old: Object | None, new: Object | None) -> None:
        for pool in self._view.pools.of(key[0]):
            if class_ref(template_spec(pool)).get("name") == key[2]:
                self.loop.queue.add((key[0], pool["metadata"]["name"]))

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        seen = new or old
        if seen is not None and pool_of(seen) and (old is None or new is None or _capacity(old) != _capacity(new)):
            self.loop.queue.add((key[0], pool_of(seen)))

    async def reconcile(self, key: Place) -> None:
        if not self._view.synced:
            raise Later("not everything has been listed yet")
        cluster, name = key
        pool = self._view.pools.get(cluster, name)
        if pool is None or is_going(pool):
            return
        patch = hash_patch(pool)
        client = self._homes.client(cluster)
        try:
            if patch is not None:
                pool = self._view.pools.learn(cluster, await client.merge(POOLS, name, patch))
            node_class = self._view.classes.get(cluster, class_ref(template_spec(pool)).get("name", ""))
            has = used(self._view.claims.of(cluster), name, {})
            new = with_conditions(pool, node_class, has, rfc3339(self._clock.now()))
            await _write_status(client, self._view.pools, POOLS, cluster, pool, new)
        except NotFound:
            return  # the pool is gone, or its cluster


class NodeClasses:
    def __init__(self, homes: Homes, view: View, provider: CloudProvider, clock: Clock) -> None:
        self._homes, self._view, self._provider, self._clock = homes, view, provider, clock
        self.loop: Loop[Place] = Loop("nodeclasses", clock, self.reconcile)
        view.classes.listen(self._class)
        provider.listen(self._told)

    def _class(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.loop.queue.add((key[0], key[2]))

    def _told(self, cluster: str, claim: str) -> None:
        if not claim:
            for node_class in self._view.classes.of(cluster):
                self.loop.queue.add((cluster, node_class["metadata"]["name"]))

    async def reconcile(self, key: Place) -> None:
        if not self._provider.synced:
            raise Later("not everything has been listed yet")
        cluster, name = key
        node_class = self._view.classes.get(cluster, name)
        if node_class is None or is_going(node_class):
            return
        problem = self._provider.class_problem(cluster, node_class)
        new = class_with_condition(node_class, problem, rfc3339(self._clock.now()))
        try:
            await _write_status(self._homes.client(cluster), self._view.classes, CLASSES, cluster, node_class, new)
        except NotFound:
            return


async def _write_status(client: Client, shelf: Shelf, kind: Kind, cluster: str, old: Object, new: Object) -> None:
    if new is not old:
        shelf.learn(cluster, await client.update(kind, new, "status"))


def _capacity(claim: Object) -> object:
    return (claim.get("status") or {}).get("capacity")
