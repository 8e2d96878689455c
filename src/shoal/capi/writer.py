"""Writes objects of Cluster API. The informer of the kind shows each write at once.

So a read after a write sees that write, and no reconciler acts twice on the same gap.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from shoal.capi.status_debouncer import StatusDebouncer
from shoal.client.reflector import key_of
from shoal.client.rest import Client
from shoal.objects.errors import NotFound
from shoal.runtime.informer import Informer

Object = dict[str, Any]


class Writer:
    """An object of a wildcard informer is written to its own logical cluster."""

    def __init__(self, client: Client, debouncer: StatusDebouncer | None = None) -> None:
        """`debouncer` tracks the writes in flight."""
        self._client = client
        self._debouncer = debouncer or StatusDebouncer()

    async def create(self, informer: Informer, obj: Object, cluster: str = "") -> Object:
        """`cluster` is the logical cluster to write to if the informer spans several."""
        namespace = obj["metadata"].get("namespace", "")
        with self._debouncer.track_write():
            created = await self._client_for(cluster).create(informer.gvr, obj, namespace)
        return informer.observe_write(created, cluster)

    async def get_live(self, informer: Informer, namespace: str, name: str, cluster: str = "") -> Object:
        """Reads the object from the server. For use when the informer is known to be behind."""
        return informer.observe_write(await self._client_for(cluster).get(informer.gvr, name, namespace), cluster)

    async def patch(self, informer: Informer, obj: Object, patch: Object) -> Object:
        """A merge patch with the resourceVersion of `obj` as precondition."""
        cluster, namespace, name = key_of(obj)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"], **(patch.get("metadata") or {})}
        body = {**patch, "metadata": metadata}
        return await self._write(
            informer, obj, self._client_for(cluster).merge_patch(informer.gvr, name, body, namespace)
        )

    async def update(self, informer: Informer, obj: Object) -> Object:
        return await self._write(informer, obj, self._client_for(key_of(obj)[0]).update(informer.gvr, obj))

    async def update_status(self, informer: Informer, obj: Object) -> Object:
        return await self._write(informer, obj, self._client_for(key_of(obj)[0]).update(informer.gvr, obj, "status"))

    async def delete(self, informer: Informer, obj: Object) -> None:
        """Deletes with the uid as precondition: an object that was recreated meanwhile is left alone. A missing object
        is no error.
        """
        cluster, namespace, name = key_of(obj)
        try:
            with self._debouncer.track_write():
                response = await self._client_for(cluster).delete(
                    informer.gvr, name, namespace, uid=obj["metadata"]["uid"]
                )
        except NotFound:
            informer.observe_missing(obj)
            return
        if response.get("metadata", {}).get("deletionTimestamp"):
            informer.observe_write(response, cluster)

    def _client_for(self, cluster: str) -> Client:
        return self._client.in_cluster(cluster) if cluster else self._client

    async def _write(self, informer: Informer, obj: Object, write: Awaitable[Object]) -> Object:
        try:
            with self._debouncer.track_write():
                response = await write
        except NotFound:
            informer.observe_missing(obj)
            raise
        return informer.observe_write(response, key_of(obj)[0])
