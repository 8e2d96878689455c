"""Keeps the ClusterRoleBindings of the hub's users in each hosted cluster, as `spec.access` of its copy says.

It needs no hub. The condition AccessGranted of the copy tells the reporter about bindings that it may not touch.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS
from shoal.fleet.worker.access.decide import plan_bindings, with_access_condition
from shoal.fleet.worker.informers import EMBEDDED_CLUSTERS, WorkerInformers
from shoal.kinds.clusterapi.embedded import logical_cluster_name, owner_of_logical_cluster
from shoal.kinds.fleet import access, infrav1
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]

TAKEN_NAME_POLL_SECONDS = 30.0
"""How often a name that somebody else's binding has is tried again. That binding is not watched."""


class AccessReconciler:
    def __init__(self, own: Client, clock: Clock, informers: WorkerInformers) -> None:
        self._own, self._clock, self._informers = own, clock, informers
        self.controller: Controller[Name] = Controller("fleet-access", clock, self.reconcile)
        self._bindings = Informer(
            own.in_cluster("*"), CLUSTER_ROLE_BINDINGS, clock, labels=access.ACCESS_LABEL, indexers=(by_cluster,)
        )
        self.controller.watch(self._bindings, self._on_binding)
        informers.add_event_handler(self.controller.queue.add)

    def _on_binding(self, key: Key, old: Object | None, new: Object | None) -> None:
        if "." in key[0]:
            self.controller.queue.add(owner_of_logical_cluster(key[0]))

    async def reconcile(self, name: Name) -> float | None:
        if not self._informers.has_synced or not self._bindings.has_synced:
            raise RequeueError("informers of the worker's own API have not synced yet")
        copy = self._informers.get(MANAGED_CLUSTERS, *name)
        if copy is None or infrav1.is_deleting(copy) or not _is_hosted(self._informers.get(EMBEDDED_CLUSTERS, *name)):
            return None
        hosted = logical_cluster_name(*name)
        observed = {each["metadata"]["name"]: each for each in self._bindings.by_index(by_cluster, hosted)}
        changes, client, taken = plan_bindings(copy, observed), self._own.in_cluster(hosted), []
        for binding_name, uid in changes.delete:
            try:
                await client.delete(CLUSTER_ROLE_BINDINGS, binding_name, uid=uid)
            except NotFound:
                continue  # The watch will report it.
        for binding in changes.update:
            await client.update(CLUSTER_ROLE_BINDINGS, binding)
        for binding in changes.create:
            if not await _create(client, binding):
                taken.append(binding["metadata"]["name"])
        updated = with_access_condition(copy, taken, rfc3339(self._clock.now()))
        if updated is not copy:
            await self._own.update(MANAGED_CLUSTERS, updated, "status")
        return TAKEN_NAME_POLL_SECONDS if taken else None


def by_cluster(key: Key, obj: Object) -> tuple[str, ...]:
    """Index by logical cluster."""
    return (key[0],)


def _is_hosted(control_plane: Object | None) -> bool:
    """Reports whether the logical cluster of the EmbeddedCluster exists."""
    if control_plane is None or infrav1.is_deleting(control_plane):
        return False
    return bool(infrav1.status_of(control_plane).get("logicalCluster"))


async def _create(client: Client, binding: Object) -> bool:
    """Returns False if somebody else has a binding of that name."""
    try:
        await client.create(CLUSTER_ROLE_BINDINGS, binding)
    except AlreadyExists:
        existing = await client.get(CLUSTER_ROLE_BINDINGS, binding["metadata"]["name"])
        return access.is_access_binding(existing)
    return True
