"""Creates the Cluster API objects of every copy in the worker's own root, and deletes them again.

It needs no hub: hosted clusters continue, and are reconciled, while the hub is unreachable.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.hosting.decide import HostingChanges, ObservedObjects, plan_changes
from shoal.fleet.worker.informers import (
    CLUSTERS,
    EMBEDDED_CLUSTERS,
    EMBEDDED_TEMPLATES,
    HOSTING_RESOURCES,
    KIND_CLUSTERS,
    MACHINE_DEPLOYMENTS,
    WorkerInformers,
)
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import infrav1, nodepools
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]


class HostingReconciler:
    def __init__(self, own: Client, clock: Clock, informers: WorkerInformers, settings: WorkerSettings) -> None:
        self._own, self._informers, self._infrastructures = own, informers, settings.infrastructures
        self._images = settings.kind.images if settings.kind is not None else {}
        self.controller: Controller[Name] = Controller("fleet-hosting", clock, self.reconcile)
        informers.add_event_handler(self.controller.queue.add)

    async def reconcile(self, name: Name) -> None:
        if not self._informers.has_synced:
            raise RequeueError("informers of the worker's own API have not synced yet")
        copy = self._informers.get(MANAGED_CLUSTERS, *name)
        if copy is None:
            return
        observed = self._informers.hosting_objects(name)
        hosting_changes = self._plan(copy, observed)
        created = await self._apply_changes(name[0], hosting_changes)
        if ("clusters", name[1]) in created:
            # Objects of the Cluster name its uid, which is known now.
            await self._apply_changes(name[0], self._plan(copy, {**observed, **created}))
        if hosting_changes.release_copy and infrav1.has_finalizer(copy):
            await self._check_deleted(name)
            await self._own.update(MANAGED_CLUSTERS, infrav1.without_finalizer(copy))

    def _plan(self, copy: Object, observed: ObservedObjects) -> HostingChanges:
        return plan_changes(copy, observed, self._infrastructures, self._images)

    async def _apply_changes(self, namespace: str, hosting_changes: HostingChanges) -> dict[tuple[str, str], Object]:
        """Returns the created objects, by plural and name."""
        created = await asyncio.gather(
            *(self._create(plural, obj, namespace) for plural, obj in hosting_changes.create)
        )
        for plural, object_name, patch in hosting_changes.patch:
            await self._own.merge_patch(HOSTING_RESOURCES[plural], object_name, patch, namespace)
        for plural, object_name, uid in hosting_changes.delete:
            try:
                await self._own.delete(HOSTING_RESOURCES[plural], object_name, namespace, uid=uid)
            except NotFound:
                continue  # The watch will report it.
        return {
            (plural, obj["metadata"]["name"]): obj
            for (plural, _), obj in zip(hosting_changes.create, created, strict=True)
        }

    async def _create(self, plural: str, desired: Object, namespace: str) -> Object:
        try:
            return await self._own.create(HOSTING_RESOURCES[plural], desired, namespace)
        except AlreadyExists:
            return await self._own.get(HOSTING_RESOURCES[plural], desired["metadata"]["name"], namespace)

    async def _check_deleted(self, name: Name) -> None:
        """Reads from the API, not from the cache: the hub's finalizer waits for this fact."""
        for kind in (EMBEDDED_CLUSTERS, KIND_CLUSTERS, CLUSTERS):
            try:
                await self._own.get(kind, name[1], name[0])
            except NotFound:
                continue
            raise RequeueError(f"{kind.resource} {name[1]} still exists")
        for kind in (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES):
            labels = f"{infrav1.CLUSTER_NAME}={name[1]},{nodepools.NODE_POOL_LABEL}"
            remaining, _ = await self._own.list_all(kind, name[0], labels=labels)
            if remaining:
                raise RequeueError(f"{kind.resource} {remaining[0]['metadata']['name']} still exists")
