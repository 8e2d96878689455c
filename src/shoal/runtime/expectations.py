"""Expectations by resourceVersion: a key is reconciled only when the informer has seen the controller's last write for
it.

A store numbers its writes in one sequence of revisions, and an informer is complete up to its own revision. One
comparison therefore shows whether a write has been observed. No objects are counted, and no timeout is needed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.errors import NotFound

Object = dict[str, Any]
K = TypeVar("K", bound=Hashable)


class RevisionSource(Protocol):
    @property
    def revision(self) -> int: ...


class WriteExpectations(Generic[K]):
    """Expectations of one controller for the kind that `informer` caches."""

    def __init__(self, informer: RevisionSource) -> None:
        self._informer = informer
        self._expected: dict[K, int] = {}

    def expect(self, key: K, obj: Object) -> None:
        """Expects the revision of `obj`, which is the server's response to the write."""
        revision = int(obj["metadata"].get("resourceVersion") or 0)
        if revision > self._expected.get(key, 0):
            self._expected[key] = revision

    def satisfied(self, key: K) -> bool:
        revision = self._expected.get(key)
        if revision is None:
            return True
        if self._informer.revision < revision:
            return False
        del self._expected[key]
        return True

    def forget(self, key: K) -> None:
        self._expected.pop(key, None)


class StatusWriter(WriteExpectations[Key]):
    """Writes the status of objects of one kind and expects each write."""

    def __init__(self, client: Client, gvr: GroupVersionResource, informer: RevisionSource) -> None:
        super().__init__(informer)
        self._client, self._gvr = client, gvr

    async def write(self, key: Key, obj: Object, status: Object) -> Object | None:
        """Returns the object after the write, or None if it was deleted. An unchanged status is not written."""
        if status == (obj.get("status") or {}):
            return obj
        try:
            written = await self._client.in_cluster(key[0]).update(self._gvr, {**obj, "status": status}, "status")
        except NotFound:
            return None
        self.expect(key, written)
        return written
