"""Informers of the worker's own root: ManagedCluster copies and the objects that host them, shared by its
controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.kinds.clusterapi import kindcluster
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.kindhosting import cluster_of_access_secret
from shoal.runtime.informer import EventHandler, Informer

Object = dict[str, Any]

INFRASTRUCTURE_GROUP = infrav1.GROUP
CAPI_GROUP = "cluster.x-k8s.io"
CLUSTERS = GroupVersionResource(CAPI_GROUP, "v1beta2", "clusters")
MACHINE_DEPLOYMENTS = GroupVersionResource(CAPI_GROUP, "v1beta2", "machinedeployments")
EMBEDDED_CLUSTERS = GroupVersionResource(INFRASTRUCTURE_GROUP, "v1alpha1", "embeddedclusters")
EMBEDDED_TEMPLATES = GroupVersionResource(INFRASTRUCTURE_GROUP, "v1alpha1", "embeddedmachinetemplates")
KIND_CLUSTERS = GroupVersionResource(kindcluster.GROUP, kindcluster.VERSION, kindcluster.PLURAL)
HOSTING_RESOURCES = {
    kind.resource: kind
    for kind in (CLUSTERS, EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, MACHINE_DEPLOYMENTS, KIND_CLUSTERS)
}
"""Resources that make up a hosted cluster, by plural."""


LABELLED_RESOURCES = (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES)
"""Those of which a hosted cluster has several. The others have its name."""


def by_cluster_label(key: Key, obj: Object) -> tuple[Name, ...]:
    """Index by the hosted cluster that the label names."""
    name = (obj["metadata"].get("labels") or {}).get(infrav1.CLUSTER_NAME, "")
    return ((key[1], name),) if name else ()


class WorkerInformers:
    name = "fleet-own-root"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._handlers: list[Callable[[Name], None]] = []
        self._informers: dict[GroupVersionResource, Informer] = {}
        for kind in (MANAGED_CLUSTERS, SECRETS, *HOSTING_RESOURCES.values()):
            indexers = (by_cluster_label,) if kind in LABELLED_RESOURCES else ()
            informer = self._informers[kind] = Informer(client, kind, clock, indexers=indexers)
            informer.add_event_handler(self._handler_for(kind))

    def _handler_for(self, kind: GroupVersionResource) -> EventHandler:
        def on_object(key: Key, old: Object | None, new: Object | None) -> None:
            owners = (managed_cluster_of(kind, key, obj) for obj in (old, new))
            for owner in {owner for owner in owners if owner is not None}:
                for handler in self._handlers:
                    handler(owner)

        return on_object

    def add_event_handler(self, handler: Callable[[Name], None]) -> None:
        self._handlers.append(handler)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    def get(self, kind: GroupVersionResource, namespace: str, name: str) -> Object | None:
        return self._informers[kind].get(("", namespace, name))

    def copies(self) -> list[Object]:
        return list(self._informers[MANAGED_CLUSTERS].objects.values())

    def hosting_objects(self, owner: Name) -> dict[tuple[str, str], Object]:
        """Returns the objects that host a ManagedCluster, by plural and name."""
        objects: dict[tuple[str, str], Object] = {}
        for plural, kind in HOSTING_RESOURCES.items():
            if kind in LABELLED_RESOURCES:
                for obj in self._informers[kind].by_index(by_cluster_label, owner):
                    objects[plural, obj["metadata"]["name"]] = obj
            elif (found := self.get(kind, *owner)) is not None:
                objects[plural, owner[1]] = found
        return objects


def managed_cluster_of(kind: GroupVersionResource, key: Key, obj: Object | None) -> Name | None:
    """Returns the ManagedCluster that an object belongs to, by its name or label; it may be gone. None if it belongs to
    none.
    """
    _, namespace, name = key
    if kind in LABELLED_RESOURCES:
        labels = (obj or {"metadata": {}})["metadata"].get("labels") or {}
        name = labels.get(infrav1.CLUSTER_NAME, "")
    elif kind == SECRETS:
        name = infrav1.cluster_of_kubeconfig_secret(name) or cluster_of_access_secret(name)
    return (namespace, name) if name else None
