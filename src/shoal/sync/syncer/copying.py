"""Reads, applies and deletes single downstream objects of one cluster, each in its downstream namespace."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.loop import Later
from shoal.sync.discovery import discover
from shoal.sync.syncer.decide import MANAGER, covers, fingerprint
from shoal.sync.syncer.hub import Work
from shoal.sync.syncer.namespaces import Namespaces

Object = dict[str, Any]


class Copying:
    def __init__(self, client: Client, namespaces: Namespaces) -> None:
        self._client, self._namespaces = client, namespaces
        self._settled: dict[Work, str] = {}

    def settled(self, work: Work) -> str:
        """Fingerprint of a downstream object that an apply left different from the desired one."""
        return self._settled.get(work, "")

    def forget(self, work: Work) -> None:
        self._settled.pop(work, None)

    async def look(self, work: Work, namespace: str, name: str) -> Object | None:
        """By its downstream name. None only if the cluster returned NotFound for this very object."""
        try:
            return await self._client.get(work.synced.resource, name, namespace)
        except NotFound as error:
            if (error.kind, error.name) == (work.synced.api.plural, name):
                return None
            if await discover(self._client, work.synced.api.plural, work.synced.api.group) is None:
                return None  # the cluster responds and has no such kind
            raise Unreachable(str(error)) from None

    async def apply(self, work: Work, wanted: Object, expected: str) -> Object:
        """`expected_uid`: uid of the existing downstream object; empty: there is none."""
        try:
            made = await self._apply(work, wanted, expected)
        except NotFound as error:
            if error.kind != "namespaces":
                raise Unreachable(str(error)) from None
            await self._namespaces.create(work.namespace, wanted["metadata"]["namespace"])
            made = await self._apply(work, wanted, expected)
        except Conflict:
            self._namespaces.forget(work.namespace)
            raise
        self._settled.pop(work, None)
        if not covers(wanted, made):
            self._settled[work] = fingerprint(made)
        return made

    async def _apply(self, work: Work, wanted: Object, expected: str) -> Object:
        """With the uid as precondition, so that it never merges into an object that replaced it meanwhile."""
        if not expected:
            return await self._client.apply(work.synced.resource, wanted, MANAGER)
        body = {**wanted, "metadata": {**wanted["metadata"], "uid": expected}}
        return await self._client.apply(work.synced.resource, body, MANAGER)

    async def delete(self, work: Work, namespace: str, name: str, uid: str) -> None:
        try:
            await self._client.delete(work.synced.resource, name, namespace, uid=uid, cascade=True)
        except NotFound:
            return
        except Conflict:
            raise Later("another object has taken the name of the copy") from None
