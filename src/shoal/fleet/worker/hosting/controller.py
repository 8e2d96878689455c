"""Creates the Cluster API objects of every copy in the worker's own root, and deletes them again.

It needs no hub: hosted clusters continue, and are reconciled, while the hub is unreachable.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.hosting.decide import Plan, plan
from shoal.fleet.worker.own import (
    CLUSTERS,
    EMBEDDED_CLUSTERS,
    EMBEDDED_TEMPLATES,
    HOSTING,
    MACHINE_DEPLOYMENTS,
    OwnRoot,
)
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds import fleet, nodepools
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class Hosting:
    def __init__(self, own: Client, clock: Clock, root: OwnRoot, settings: WorkerSettings) -> None:
        self._own, self._root, self._provides = own, root, settings.provides
        self.loop: Loop[Name] = Loop("fleet-hosting", clock, self.reconcile)
        root.listen(self.loop.queue.add)

    async def reconcile(self, name: Name) -> None:
        if not self._root.synced:
            raise Later("the worker's own root has not been listed yet")
        copy = self._root.get(MANAGED_CLUSTERS, *name)
        if copy is None:
            return
        known = self._root.of(name)
        found = plan(copy, known, self._provides)
        made = await self._carry_out(name[0], found)
        if ("clusters", name[1]) in made:
            # Objects of the Cluster name its uid, which is known now.
            await self._carry_out(name[0], plan(copy, {**known, **made}, self._provides))
        if found.release and fleet.has_finalizer(copy):
            await self._check_gone(name)
            await self._own.update(MANAGED_CLUSTERS, fleet.without_finalizer(copy))

    async def _carry_out(self, namespace: str, found: Plan) -> dict[tuple[str, str], Object]:
        """Returns the created objects, by plural and name."""
        created = await asyncio.gather(*(self._create(plural, obj, namespace) for plural, obj in found.create))
        for plural, one, patch in found.patch:
            await self._own.merge(HOSTING[plural], one, patch, namespace)
        for plural, one, uid in found.delete:
            try:
                await self._own.delete(HOSTING[plural], one, namespace, uid=uid)
            except NotFound:
                continue  # The watch will report it.
        return {(plural, obj["metadata"]["name"]): obj for (plural, _), obj in zip(found.create, created, strict=True)}

    async def _create(self, plural: str, wanted: Object, namespace: str) -> Object:
        try:
            return await self._own.create(HOSTING[plural], wanted, namespace)
        except AlreadyExists:
            return await self._own.get(HOSTING[plural], wanted["metadata"]["name"], namespace)

    async def _check_gone(self, name: Name) -> None:
        """Reads from the API, not from the cache: the hub's finalizer waits for this fact."""
        for kind in (EMBEDDED_CLUSTERS, CLUSTERS):
            try:
                await self._own.get(kind, name[1], name[0])
            except NotFound:
                continue
            raise Later(f"{kind.plural} {name[1]} is still there")
        for kind in (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES):
            labels = f"{fleet.CLUSTER_NAME}={name[1]},{nodepools.LABEL}"
            left, _ = await self._own.list_all(kind, name[0], labels=labels)
            if left:
                raise Later(f"{kind.plural} {left[0]['metadata']['name']} is still there")
