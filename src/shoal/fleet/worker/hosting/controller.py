"""Makes a hosted cluster of every copy: Cluster API objects in the worker's own root, and takes them away again.

It needs no hub: what is hosted goes on, and is put right, while the hub is away.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.hosting.decide import Plan, plan
from shoal.fleet.worker.hosting.objects import names
from shoal.fleet.worker.own import HOSTING, OwnRoot
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds import fleet
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

        made: dict[tuple[str, str], Object] = {}

        def known(plural: str, one: str) -> Object | None:
            return made.get((plural, one)) or self._root.get(HOSTING[plural], name[0], one)

        found = plan(copy, known, self._provides)
        made.update(await self._carry_out(name[0], found))
        if ("clusters", name[1]) in made:
            # What belongs to the Cluster names its uid, which is known now.
            await self._carry_out(name[0], plan(copy, known, self._provides))
        if found.release and fleet.has_finalizer(copy):
            await self._check_gone(name)
            await self._own.update(MANAGED_CLUSTERS, fleet.without_finalizer(copy))

    async def _carry_out(self, namespace: str, found: Plan) -> dict[tuple[str, str], Object]:
        """Answers what was created, by plural and name."""
        created = await asyncio.gather(*(self._create(plural, obj, namespace) for plural, obj in found.create))
        for plural, one, patch in found.patch:
            await self._own.merge(HOSTING[plural], one, patch, namespace)
        for plural, one, uid in found.delete:
            try:
                await self._own.delete(HOSTING[plural], one, namespace, uid=uid)
            except NotFound:
                continue  # the watch says so soon
        return {(plural, obj["metadata"]["name"]): obj for (plural, _), obj in zip(found.create, created, strict=True)}

    async def _create(self, plural: str, wanted: Object, namespace: str) -> Object:
        try:
            return await self._own.create(HOSTING[plural], wanted, namespace)
        except AlreadyExists:
            return await self._own.get(HOSTING[plural], wanted["metadata"]["name"], namespace)

    async def _check_gone(self, name: Name) -> None:
        """Asked of the API, not of what was seen: this is the fact the hub's finalizer waits for."""
        for plural, one in names(name[1]):
            try:
                await self._own.get(HOSTING[plural], one, name[0])
            except NotFound:
                continue
            raise Later(f"{HOSTING[plural].plural} {one} is still there")
