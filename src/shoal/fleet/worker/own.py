"""Informers of the worker's own root: ManagedCluster copies and the objects that host them, shared by its
controllers.
"""

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
"""Resources that make up a hosted cluster, by plural."""


class OwnRoot:
    name = "fleet-own-root"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._listeners: list[Callable[[Name], None]] = []
        self._of: dict[Name, dict[tuple[str, str], Object]] = {}
        self._owners: dict[tuple[Kind, Key], Name] = {}
        kinds = (MANAGED_CLUSTERS, SECRETS, *HOSTING.values())
        self._reflectors = {kind: Reflector(client, kind, clock, self._told(kind)) for kind in kinds}

    def _told(self, kind: Kind) -> Changed:
        def changed(key: Key, obj: Object | None) -> None:
            before, now = self._owners.pop((kind, key), None), owner_name(kind, key, obj)
            if obj is not None and now is not None:
                self._owners[kind, key] = now
            if kind in HOSTING.values():
                self._note(kind.plural, key[2], obj, before, now)
            for owner in {owner for owner in (before, now) if owner is not None}:
                for told in self._listeners:
                    told(owner)

        return changed

    def _note(self, plural: str, name: str, obj: Object | None, before: Name | None, now: Name | None) -> None:
        if before is not None and (obj is None or before != now):
            left = self._of.get(before, {})
            left.pop((plural, name), None)
            if not left:
                self._of.pop(before, None)
        if now is not None and obj is not None:
            self._of.setdefault(now, {})[plural, name] = obj

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

    def copies(self) -> list[Object]:
        return list(self._reflectors[MANAGED_CLUSTERS].objects.values())

    def of(self, owner: Name) -> dict[tuple[str, str], Object]:
        """Returns the objects that host a ManagedCluster, by plural and name."""
        return dict(self._of.get(owner, {}))


def owner_name(kind: Kind, key: Key, obj: Object | None) -> Name | None:
    """Returns the ManagedCluster that an object belongs to, by its name or label; it may be gone. None if it belongs to
    none.
    """
    _, namespace, name = key
    if kind in (MACHINE_DEPLOYMENTS, EMBEDDED_TEMPLATES):
        labels = (obj or {"metadata": {}})["metadata"].get("labels") or {}
        name = labels.get(fleet.CLUSTER_NAME, "")
    elif kind == SECRETS:
        name = fleet.cluster_of_secret(name)
    return (namespace, name) if name else None
