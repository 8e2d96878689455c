"""Informers of the worker's own root: ManagedCluster copies and the objects that host them, shared by its
controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, ObjectHandler, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

INFRASTRUCTURE_GROUP = infrav1.GROUP
CAPI_GROUP = "cluster.x-k8s.io"
CLUSTERS = GroupVersionResource(CAPI_GROUP, "v1beta2", "clusters")
MACHINE_DEPLOYMENTS = GroupVersionResource(CAPI_GROUP, "v1beta2", "machinedeployments")
EMBEDDED_CLUSTERS = GroupVersionResource(INFRASTRUCTURE_GROUP, "v1alpha1", "embeddedclusters")
EMBEDDED_TEMPLATES = GroupVersionResource(INFRASTRUCTURE_GROUP, "v1alpha1", "embeddedmachinetemplates")
HOSTING_RESOURCES = {
    kind.resource: kind for kind in (CLUSTERS, EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, MACHINE_DEPLOYMENTS)
}
"""Resources that make up a hosted cluster, by plural."""


class WorkerInformers:
    name = "fleet-own-root"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._handlers: list[Callable[[Name], None]] = []
        self._hosting_objects: dict[Name, dict[tuple[str, str], Object]] = {}
        self._owners: dict[tuple[GroupVersionResource, Key], Name] = {}
        kinds = (MANAGED_CLUSTERS, SECRETS, *HOSTING_RESOURCES.values())
        self._reflectors = {kind: Reflector(client, kind, clock, self._handler_for(kind)) for kind in kinds}

    def _handler_for(self, kind: GroupVersionResource) -> ObjectHandler:
        def on_object(key: Key, obj: Object | None) -> None:
            previous, current = self._owners.pop((kind, key), None), managed_cluster_of(kind, key, obj)
            if obj is not None and current is not None:
                self._owners[kind, key] = current
            if kind in HOSTING_RESOURCES.values():
                self._index(kind.resource, key[2], obj, previous, current)
            for owner in {owner for owner in (previous, current) if owner is not None}:
                for handler in self._handlers:
                    handler(owner)

        return on_object

    def _index(self, plural: str, name: str, obj: Object | None, previous: Name | None, current: Name | None) -> None:
        if previous is not None and (obj is None or previous != current):
            remaining = self._hosting_objects.get(previous, {})
            remaining.pop((plural, name), None)
            if not remaining:
                self._hosting_objects.pop(previous, None)
        if current is not None and obj is not None:
            self._hosting_objects.setdefault(current, {})[plural, name] = obj

    def add_event_handler(self, handler: Callable[[Name], None]) -> None:
        self._handlers.append(handler)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    @property
    def has_synced(self) -> bool:
        return all(reflector.has_synced for reflector in self._reflectors.values())

    def get(self, kind: GroupVersionResource, namespace: str, name: str) -> Object | None:
        return self._reflectors[kind].objects.get(("", namespace, name))

    def copies(self) -> list[Object]:
        return list(self._reflectors[MANAGED_CLUSTERS].objects.values())

    def hosting_objects(self, owner: Name) -> dict[tuple[str, str], Object]:
        """Returns the objects that host a ManagedCluster, by plural and name."""
        return dict(self._hosting_objects.get(owner, {}))


def managed_cluster_of(kind: GroupVersionResource, key: Key, obj: Object | None) -> Name | None:
    """Returns the ManagedCluster that an object belongs to, by its name or label; it may be gone. None if it belongs to
    none.
    """
    _, namespace, name = key
    if kind in (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES):
        labels = (obj or {"metadata": {}})["metadata"].get("labels") or {}
        name = labels.get(infrav1.CLUSTER_NAME, "")
    elif kind == SECRETS:
        name = infrav1.cluster_of_kubeconfig_secret(name)
    return (namespace, name) if name else None
