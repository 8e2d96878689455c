"""The splitter: every Deployment of the hub that is assigned to no cluster becomes a leaf in each of them.

Deployments are served once a cluster taught them to the hub: until then this loop waits, and notices at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds import apiresource, logicalcluster, workload
from shoal.kinds.leaves import is_root, leaf_name
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.objects.ownership import controller_named, is_controlled_by
from shoal.placement.splitter.decide import Site, Split, site_of, split
from shoal.placement.splitter.status import summed
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Later, Loop
from shoal.runtime.ownwrites import OwnWrites

Object = dict[str, Any]

DEPLOYMENTS = Kind("apps", "v1", "deployments")
CLUSTERS = Kind(workload.GROUP, workload.VERSION, workload.PLURAL, namespaced=False)
NEGOTIATED = Kind(apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False)
NEGOTIATED_NAME = apiresource.negotiated_name(apiresource.Api("apps", "v1", "deployments"))
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
LOGICAL_CLUSTERS = Kind(logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False)
UNSERVED_SECONDS = 0.05
"""Between looks at a kind of which the hub has been told, until it serves it."""
UNSEEN_SECONDS = 5.0
"""What was written shows up by itself; this is for a view that was lost meanwhile."""


def splitter_loops(client: Client, clock: Clock, home: str = "root") -> list[Loop[Key]]:
    """`home` is the logical cluster whose Deployments are split. Where workloads run by themselves, none are."""
    return [Splitter(client, clock, home).loop]


class Splitter:
    """Keys are roots."""

    def __init__(self, client: Client, clock: Clock, home: str) -> None:
        self._client, self._clock, self._home = client.at(home), clock, home
        self._is_hub: bool | None = None
        self._deployments = Dependents(self._client, DEPLOYMENTS, clock, unserved=UNSERVED_SECONDS)
        self._taught = asyncio.Event()
        self._clusters = Reflector(self._client, CLUSTERS, clock, self._cluster, listed=self._all_again)
        self._sites: dict[str, Site] = {}
        self._roots: set[Key] = set()
        self._blocked: dict[Key, set[Key]] = {}
        """Roots by the Deployments that have the names of their leaves."""
        self._writes: OwnWrites[Key] = OwnWrites(self._deployments)
        self.loop: Loop[Key] = Loop("splitter", clock, self.reconcile)
        for kind, name in ((NEGOTIATED, NEGOTIATED_NAME), (DEFINITIONS, "deployments.apps")):
            reflector = Reflector(self._client, kind, clock, self._lesson, fields=f"metadata.name={name}")
            self.loop.sources.append(reflector.run)
        self.loop.sources += [self._clusters.run, self._follow]
        self._deployments.listeners.append(self._deployment)

    def _lesson(self, key: Key, obj: Object | None) -> None:
        if obj is not None and obj["spec"].get("publish", True):
            self._taught.set()

    async def _follow(self) -> None:
        """Asking for Deployments before anybody taught them would only be noise."""
        await self._taught.wait()
        await self._deployments.run()

    def _cluster(self, key: Key, obj: Object | None) -> None:
        before = self._sites.pop(key[2], None)
        now = site_of(obj) if obj is not None else None
        if now is not None:
            self._sites[key[2]] = now
        if now != before:
            self._all_again()

    def _all_again(self) -> None:
        for root in self._roots:
            self.loop.queue.add(root)

    def _deployment(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is not None and is_root(now):
            self._roots.add(key)
        else:
            self._roots.discard(key)
        owners = {controller_named(before, "apps", "Deployment"), controller_named(now, "apps", "Deployment")} - {""}
        for root in {key, *((key[0], key[1], name) for name in owners)}:
            self.loop.queue.add(root)
        for root in self._blocked.pop(key, ()):
            self.loop.queue.add(root)

    async def reconcile(self, key: Key) -> float | None:
        root = self._deployments.get(key)
        if root is None or not self._clusters.synced or not await self._splits():
            self._writes.forget(key)
            return None
        if not self._writes.in_sight(key):
            return UNSEEN_SECONDS
        owned = self._deployments.owned(key, root["metadata"]["uid"])
        if not is_root(root):
            await self._delete(key, owned)  # it was assigned to one cluster: it has no parts
            return None
        if "deletionTimestamp" in root["metadata"]:
            return None  # the garbage collector takes the leaves
        now = self._clock.now()
        found = split(root, owned, self._others(key, root), self._sites.values(), now)
        for name in found.taken:
            self._blocked.setdefault((key[0], key[1], name), set()).add(key)
        await self._carry_out(key, found)
        status = summed(root, found, len(self._sites), rfc3339(now))
        if status != root.get("status"):
            self._writes.wrote(key, await self._client.update(DEPLOYMENTS, {**root, "status": status}, "status"))
        return found.later

    async def _splits(self) -> bool:
        """A hub runs nothing itself. Elsewhere a Deployment is turned into pods, and stays whole."""
        if self._is_hub is None:
            home = await self._client.at("root").get(LOGICAL_CLUSTERS, self._home)
            self._is_hub = (home.get("spec") or {}).get("profile", "hub") == "hub"
        return self._is_hub

    def _others(self, key: Key, root: Object) -> list[str]:
        """Of the names that leaves would have, those that belong to somebody else."""
        names = (leaf_name(key[2], cluster) for cluster in self._sites)
        there = ((name, self._deployments.get((key[0], key[1], name))) for name in names)
        return [name for name, obj in there if obj is not None and not is_controlled_by(obj, root)]

    async def _carry_out(self, key: Key, found: Split) -> None:
        for leaf in found.create:
            try:
                self._writes.wrote(key, await self._client.create(DEPLOYMENTS, leaf, key[1]))
            except AlreadyExists:
                raise Later(f"Deployment {leaf['metadata']['name']} is there already") from None
        for leaf in found.update:
            self._writes.wrote(key, await self._client.update(DEPLOYMENTS, leaf))
        await self._delete(key, [*found.delete, *[leaf for leaf in found.absent if await self._is_without(leaf)]])

    async def _is_without(self, leaf: Object) -> bool:
        """Whether the server says of the leaf's cluster, by name, that it does not exist."""
        name = workload.assigned_to(leaf)
        try:
            await self._client.get(CLUSTERS, name)
        except NotFound as error:
            return error.name == name
        return False

    async def _delete(self, key: Key, leaves: list[Object]) -> None:
        for leaf in leaves:
            metadata = leaf["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            try:
                await self._client.delete(DEPLOYMENTS, metadata["name"], key[1], uid=metadata["uid"])
            except NotFound:
                continue
