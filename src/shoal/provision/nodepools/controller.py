"""Reconciles conditions of NodePools, node classes and NodeOverlays, and the usage of NodePools."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import (
    HASH_VERSION,
    POOL_HASH_VERSION,
    annotation,
    class_ref,
    is_going,
    is_managed,
    pool_of,
    template_spec,
)
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider, InstanceType, ProviderError
from shoal.provision.homes import Homes
from shoal.provision.nodepools.decide import (
    claim_hash_patch,
    class_with_condition,
    hash_patch,
    overlay_with_conditions,
    with_conditions,
)
from shoal.provision.overlays import judged
from shoal.provision.provisioning.places import used
from shoal.provision.shelf import Shelf
from shoal.provision.view import CLAIMS, CLASSES, OVERLAYS, POOLS, View
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
        if pool is None or is_going(pool) or not is_managed(template_spec(pool)):
            return
        patch = hash_patch(pool)
        client = self._homes.client(cluster)
        try:
            if patch is not None:
                await self._rehash(cluster, pool)
                pool = self._view.pools.learn(cluster, await client.merge(POOLS, name, patch))
            node_class = self._view.classes.get(cluster, class_ref(template_spec(pool)).get("name", ""))
            has = used(self._view.claims.of(cluster), name, {})
            new = with_conditions(pool, node_class, has, rfc3339(self._clock.now()))
            await _write_status(client, self._view.pools, POOLS, cluster, pool, new)
        except NotFound:
            return  # the pool or its cluster was deleted

    async def _rehash(self, cluster: str, pool: Object) -> None:
        """Updates the hashes of the pool's NodeClaims before the pool announces the new hash version. An interrupted
        update is repeated.
        """
        if annotation(pool, POOL_HASH_VERSION) == HASH_VERSION:
            return
        for claim in self._view.claims.of(cluster):
            patch = claim_hash_patch(pool, claim) if pool_of(claim) == pool["metadata"]["name"] else None
            if patch is not None:
                with suppress(NotFound):
                    written = await self._homes.client(cluster).merge(CLAIMS, claim["metadata"]["name"], patch)
                    self._view.claims.learn(cluster, written)


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


class NodeOverlays:
    """Keys are logical clusters, because overlays are validated together."""

    def __init__(self, homes: Homes, view: View, provider: CloudProvider, clock: Clock) -> None:
        self._homes, self._view, self._provider, self._clock = homes, view, provider, clock
        self.loop: Loop[str] = Loop("nodeoverlays", clock, self.reconcile)
        view.overlays.listen(self._spec)
        view.pools.listen(self._spec)
        view.classes.listen(self._spec)
        provider.listen(self._told)

    def _spec(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _generation(old) != _generation(new):
            self._look(key[0])

    def _told(self, cluster: str, claim: str) -> None:
        if not claim:
            self._look(cluster)

    def _look(self, cluster: str) -> None:
        if self._view.overlays.of(cluster):
            self.loop.queue.add(cluster)

    async def reconcile(self, cluster: str) -> None:
        view = self._view
        if not (view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        overlays = [each for each in view.overlays.of(cluster) if not is_going(each)]
        said, now = judged(overlays, self._offers(cluster)), rfc3339(self._clock.now())
        for overlay in overlays:
            new = overlay_with_conditions(overlay, said[overlay["metadata"]["name"]], now)
            try:
                await _write_status(self._homes.client(cluster), view.overlays, OVERLAYS, cluster, overlay, new)
            except NotFound:
                continue  # the overlay or its cluster was deleted

    def _offers(self, cluster: str) -> list[tuple[Object, list[InstanceType]]]:
        """A NodePool whose types are unknown does not keep overlays from the other pools."""
        found = []
        for pool in self._view.pools.of(cluster):
            spec = template_spec(pool)
            node_class = self._view.classes.get(cluster, class_ref(spec).get("name", ""))
            if node_class is None or is_going(pool) or not is_managed(spec):
                continue
            try:
                found.append((pool, self._provider.instance_types(cluster, node_class)))
            except ProviderError:
                continue
        return found


async def _write_status(client: Client, shelf: Shelf, kind: Kind, cluster: str, old: Object, new: Object) -> None:
    if new is not old:
        shelf.learn(cluster, await client.update(kind, new, "status"))


def _generation(obj: Object) -> object:
    return obj["metadata"].get("generation"), is_going(obj)


def _capacity(claim: Object) -> object:
    return (claim.get("status") or {}).get("capacity")
