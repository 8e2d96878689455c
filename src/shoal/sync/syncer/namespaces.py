"""Namespaces in a workload Cluster: made where a copy needs one, removed when nothing is left in those we made."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.requests import Client
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, MethodNotSupported, NotFound
from shoal.sync.resources import NAMESPACES
from shoal.sync.syncer.decide import SYNCED_FROM, is_ours

Object = dict[str, Any]

GIVEN = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}
"""What every namespace has."""
PASSING = {"events"}


class Namespaces:
    def __init__(self, client: Client, cluster: str, hub: str) -> None:
        self._client, self._cluster, self._hub = client, cluster, hub

    async def create(self, name: str) -> None:
        metadata = {
            "name": name,
            "labels": {workload.ASSIGNED: self._cluster},
            "annotations": {SYNCED_FROM: self._hub},
        }
        with suppress(AlreadyExists):
            await self._client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    async def remove_empty(self, name: str) -> None:
        try:
            namespace = await self._client.get(NAMESPACES, name)
        except NotFound:
            return
        metadata = namespace["metadata"]
        if not is_ours(namespace, self._hub) or "deletionTimestamp" in metadata or await self._holds_something(name):
            return
        with suppress(NotFound):
            await self._client.delete(NAMESPACES, name, uid=metadata["uid"])

    async def _holds_something(self, name: str) -> bool:
        """Of others: what has an owner goes with it."""
        for kind, verbs in await self._client.discover():
            if not kind.namespaced or "list" not in verbs or kind.plural in PASSING:
                continue
            try:
                found, _ = await self._client.list_all(kind, name)
            except (NotFound, MethodNotSupported):
                continue
            for obj in found:
                metadata = obj["metadata"]
                given = (kind.plural, metadata["name"]) in GIVEN
                if not given and not metadata.get("ownerReferences") and "deletionTimestamp" not in metadata:
                    return True
        return False
