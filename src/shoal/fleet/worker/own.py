"""What a worker's own root holds of its ManagedClusters, kept by watches that its loops share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Changed, Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.kinds import fleet

Object = dict[str, Any]

INFRASTRUCTURE = fleet.GROUP
CORE = "cluster.x-k8s.io"
CLUSTERS = Kind(CORE, "v1beta2", "clusters")
MACHINE_DEPLOYMENTS = Kind(CORE, "v1beta2", "machinedeployments")
EMBEDDED_CLUSTERS = Kind(INFRASTRUCTURE, "v1alpha1", "embeddedclusters")
EMBEDDED_TEMPLATES = Kind(INFRASTRUCTURE, "v1alpha1", "embeddedmachinetemplates")
HOSTING = {kind.plural: kind for kind in (CLUSTERS, EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, MACHINE_DEPLOYMENTS)}
"""The kinds that make a hosted cluster, by plural."""


class OwnRoot:
    name = "fleet-own-root"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._listeners: list[Callable[[Name], None]] = []
        kinds = (MANAGED_CLUSTERS, SECRETS, *HOSTING.values())
        self._reflectors = {kind: Reflector(client, kind, clock, self._told(kind)) for kind in kinds}

    def _told(self, kind: Kind) -> Changed:
        def changed(key: Key, obj: Object | None) -> None:
            owner = owner_name(kind, key)
            if owner is not None:
                for told in self._listeners:
                    told(owner)

        return changed

    def listen(self, told: Callable[[Name], None]) -> None:
        self._listeners.append(told)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    @property
    def synced(self) -> bool:
        return all(reflector.synced for reflector in self._reflectors.values())

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self._reflectors[kind].objects.get(("", namespace, name))


def owner_name(kind: Kind, key: Key) -> Name | None:
    """The ManagedCluster an object belongs to, by its name: it may be gone. None: to none."""
    _, namespace, name = key
    if kind in (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES):
        name = name.rpartition("-")[0]
    elif kind == SECRETS:
        suffix = fleet.kubeconfig_secret("")
        name = name.removesuffix(suffix) if name.endswith(suffix) else ""
    return (namespace, name) if name else None
