"""Nothing is decided on a view that has not yet seen the loop's own last writes.

A store gives its writes one line of revisions, and a view is complete up to its own: a comparison tells whether what
was written for a key is in sight, without counting objects and without a time after which one gives up.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.objects.errors import NotFound

Object = dict[str, Any]
K = TypeVar("K", bound=Hashable)


class View(Protocol):
    @property
    def revision(self) -> int: ...


class OwnWrites(Generic[K]):
    """Of one loop into the kind that `view` shows."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._written: dict[K, int] = {}

    def wrote(self, key: K, obj: Object) -> None:
        """`obj` as the server answered it."""
        revision = int(obj["metadata"].get("resourceVersion") or 0)
        if revision > self._written.get(key, 0):
            self._written[key] = revision

    def in_sight(self, key: K) -> bool:
        revision = self._written.get(key)
        if revision is None:
            return True
        if self._view.revision < revision:
            return False
        del self._written[key]
        return True

    def forget(self, key: K) -> None:
        self._written.pop(key, None)


class OwnStatuses(OwnWrites[Key]):
    """Those a loop writes, of all objects of a kind."""

    def __init__(self, client: Client, kind: Kind, view: View) -> None:
        super().__init__(view)
        self._client, self._kind = client, kind

    async def write(self, key: Key, obj: Object, status: Object) -> Object | None:
        """The object as it is then; None: it is gone. What it says already is not written."""
        if status == (obj.get("status") or {}):
            return obj
        try:
            written = await self._client.at(key[0]).update(self._kind, {**obj, "status": status}, "status")
        except NotFound:
            return None
        self.wrote(key, written)
        return written
