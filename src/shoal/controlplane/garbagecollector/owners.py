"""Looks up the live object behind an owner reference, or makes sure that there is none.

An owner is absent only if a lookup of the right kind did not find it. A kind that is not served, a cluster that cannot
be entered or any other failure is unknown, and nothing is deleted because of it.
"""

from __future__ import annotations

import asyncio
import logging

from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.garbagecollector.decide import OwnerState, owner_state
from shoal.controlplane.garbagecollector.graph import CLUSTER, Owner
from shoal.objects.errors import NotFound

log = logging.getLogger("shoal.garbagecollector")

MAX_CACHED = 10_000


class LiveOwners:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str, str], GroupVersionResource] = {}
        self._absent: dict[Owner, None] = {}
        """A uid returns only if its whole cluster is restored, and then its dependents arrive as new objects: see
        `forget`.
        """

    def forget(self, owner: Owner) -> None:
        """Forgets that the owner was absent: a new object references it."""
        self._absent.pop(owner, None)

    async def lookup(self, owner: Owner) -> OwnerState:
        if owner in self._absent:
            return OwnerState.ABSENT
        # An object may have thousands of owners, and reads of a server in the same process never suspend.
        await asyncio.sleep(0)
        kind = await self._resource_of(owner)
        if kind is None:
            return OwnerState.UNKNOWN
        if kind.namespaced and not owner.namespace:
            log.info("ignoring owner reference of a cluster-scoped object to namespaced %s %s", owner.kind, owner.name)
            return OwnerState.FOREIGN
        namespace = owner.namespace if kind.namespaced else ""
        try:
            state = owner_state(
                await self._client.in_cluster(owner.cluster).get(kind, owner.name, namespace), owner.uid
            )
        except NotFound as error:
            if (error.kind, error.name) != (kind.resource, owner.name):
                self._resources.pop((owner.cluster, owner.api_version, owner.kind), None)
                return OwnerState.UNKNOWN
            state = OwnerState.ABSENT
        if state is OwnerState.ABSENT:
            return await self._confirm_absent(owner, kind, namespace)
        return state

    async def _confirm_absent(self, owner: Owner, gvr: GroupVersionResource, namespace: str) -> OwnerState:
        query = {"resource": f"{gvr.group}/{gvr.resource}", "namespace": namespace, "name": owner.name}
        objects = await self._client.request("GET", "/clusters/*/metadata", query)
        for item in objects["items"]:
            metadata = item["metadata"]
            if metadata["uid"] == owner.uid and metadata["annotations"][CLUSTER] != owner.cluster:
                log.info(
                    "owner %s %s is in another logical cluster; keeping its dependents in %s", *owner[3:5], owner[0]
                )
                return OwnerState.FOREIGN
        if len(self._absent) >= MAX_CACHED:
            del self._absent[next(iter(self._absent))]
        self._absent[owner] = None
        return OwnerState.ABSENT

    async def _resource_of(self, owner: Owner) -> GroupVersionResource | None:
        key = (owner.cluster, owner.api_version, owner.kind)
        cached = self._resources.get(key)
        if cached is not None:
            return cached
        group, _, version = owner.api_version.rpartition("/")
        prefix = GroupVersionResource(group, version, "").path_prefix
        try:
            served = await self._client.request("GET", f"/clusters/{owner.cluster}{prefix}")
        except NotFound:
            return None
        for resource in served.get("resources") or ():
            if resource["kind"] == owner.kind and "/" not in resource["name"] and "get" in resource["verbs"]:
                if len(self._resources) >= MAX_CACHED:
                    self._resources.clear()
                self._resources[key] = GroupVersionResource(group, version, resource["name"], resource["namespaced"])
                return self._resources[key]
        return None
