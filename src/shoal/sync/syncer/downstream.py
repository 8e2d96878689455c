"""Reads, applies and deletes single downstream objects of one cluster, each in its downstream namespace."""

from __future__ import annotations

from typing import Any

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.controller import RequeueError
from shoal.sync.discovery import discover_resource
from shoal.sync.syncer.decide import FIELD_MANAGER, covers, fingerprint
from shoal.sync.syncer.hub_informers import SyncKey
from shoal.sync.syncer.namespaces import NamespaceMapper

Object = dict[str, Any]


class DownstreamClient:
    def __init__(self, client: Client, namespaces: NamespaceMapper) -> None:
        self._client, self._namespaces = client, namespaces
        self._fingerprints: dict[SyncKey, str] = {}

    def settled_fingerprint(self, sync_key: SyncKey) -> str:
        """Fingerprint of a downstream object that an apply left different from the desired one."""
        return self._fingerprints.get(sync_key, "")

    def forget(self, sync_key: SyncKey) -> None:
        self._fingerprints.pop(sync_key, None)

    async def get(self, sync_key: SyncKey, namespace: str, name: str) -> Object | None:
        """By its downstream name. None only if the cluster returned NotFound for this very object."""
        try:
            return await self._client.get(sync_key.resource.gvr, name, namespace)
        except NotFound as error:
            if (error.kind, error.name) == (sync_key.resource.api.plural, name):
                return None
            if await discover_resource(self._client, sync_key.resource.api.plural, sync_key.resource.api.group) is None:
                return None  # the cluster responds and has no such kind
            raise Unreachable(str(error)) from None

    async def apply(self, sync_key: SyncKey, desired: Object, expected_uid: str) -> Object:
        """`expected_uid`: uid of the existing downstream object; empty: there is none."""
        try:
            applied = await self._apply(sync_key, desired, expected_uid)
        except NotFound as error:
            if error.kind != "namespaces":
                raise Unreachable(str(error)) from None
            await self._namespaces.create(sync_key.namespace, desired["metadata"]["namespace"])
            applied = await self._apply(sync_key, desired, expected_uid)
        except Conflict:
            self._namespaces.forget(sync_key.namespace)
            raise
        self._fingerprints.pop(sync_key, None)
        if not covers(desired, applied):
            self._fingerprints[sync_key] = fingerprint(applied)
        return applied

    async def _apply(self, sync_key: SyncKey, desired: Object, expected_uid: str) -> Object:
        """With the uid as precondition, so that it never merges into an object that replaced it meanwhile."""
        if not expected_uid:
            return await self._client.apply(sync_key.resource.gvr, desired, FIELD_MANAGER)
        body = {**desired, "metadata": {**desired["metadata"], "uid": expected_uid}}
        return await self._client.apply(sync_key.resource.gvr, body, FIELD_MANAGER)

    async def delete(self, sync_key: SyncKey, namespace: str, name: str, uid: str) -> None:
        try:
            await self._client.delete(sync_key.resource.gvr, name, namespace, uid=uid, cascade=True)
        except NotFound:
            return
        except Conflict:
            raise RequeueError("the copy was replaced by another object with the same name") from None
