"""Writes the changes of leaves."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.placement.splitter.cluster_infos import CLUSTERS
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.placement.splitter.placed_kind import PlacedKind
from shoal.runtime.controller import RequeueError

Object = dict[str, Any]


class LeafWriter:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def apply(self, kind: PlacedKind, key: Key, leaf_changes: LeafChanges) -> None:
        resource = kind.placeable.resource
        # The store commits them as one, and a failure requeues the root.
        operations = [self._client.create(resource, leaf, key[1], metadata_only=True) for leaf in leaf_changes.create]
        operations += [self._client.update(resource, leaf, metadata_only=True) for leaf in leaf_changes.update]
        results = await asyncio.gather(*operations, return_exceptions=True)
        for result in results:
            if not isinstance(result, BaseException):
                kind.expectations.expect(key, result)
        for result in results:
            if isinstance(result, AlreadyExists):
                raise RequeueError(f"{kind.placeable.name} {result.name} already exists") from None
            if isinstance(result, BaseException):
                raise result
        orphaned = [leaf for leaf in leaf_changes.orphaned if await self._is_cluster_gone(leaf)]
        await self.delete(kind, key, [*leaf_changes.delete, *orphaned])

    async def _is_cluster_gone(self, leaf: Object) -> bool:
        """Returns whether the server says that the leaf's cluster does not exist, by name."""
        name = workloadcluster.assigned_cluster(leaf)
        try:
            await self._client.get(CLUSTERS, name)
        except NotFound as error:
            return error.name == name
        return False

    async def delete(self, kind: PlacedKind, key: Key, leaves: list[Object]) -> None:
        for leaf in leaves:
            metadata = leaf["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            try:
                resource = kind.placeable.resource
                await self._client.delete(resource, metadata["name"], key[1], uid=metadata["uid"], cascade=True)
            except NotFound:
                continue
