"""An informer with the indexes that controllers of owned objects need: by controller and by namespace.

Objects without a controller are found by namespace (`orphans`). Owner and object are always in one logical cluster and
one namespace, so an ownerReference with the uid of an object elsewhere matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.objects.ownership import controller_of

Object = dict[str, Any]
Listener = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the old and the new object. Old is None for a new object, new is None for a deleted one."""
Place = tuple[str, str]
"""Logical cluster and namespace."""
_Index = dict[tuple[str, str, str], dict[Key, Object]]


class Dependents:
    def __init__(self, client: Client, kind: Kind, clock: Clock, *, unserved: float | None = None) -> None:
        self.listeners: list[Listener] = []
        self.on_listed: list[Callable[[], None]] = []
        """Callbacks, run after each complete list."""
        self._reflector = Reflector(
            client, kind, clock, self._changed, unserved=unserved, listed=self._listed, shared=True
        )
        self._objects: dict[Key, Object] = {}
        self._owned: _Index = {}
        """Keyed by cluster, namespace and the controller's uid. Objects without a controller have an empty uid."""
        self._places: dict[Place, dict[Key, Object]] = {}

    async def run(self) -> None:
        await self._reflector.run()

    @property
    def revision(self) -> int:
        return self._reflector.revision

    @property
    def synced(self) -> bool:
        return self._reflector.synced

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def owned(self, owner: Key, uid: str) -> list[Object]:
        return list(self._owned.get((owner[0], owner[1], uid), {}).values())

    def orphans(self, key: Key) -> list[Object]:
        """Objects without a controller in the namespace of the key."""
        return self.owned(key, "")

    def beside(self, key: Key) -> ItemsView[Key, Object]:
        """All objects in the namespace of the key."""
        return self._places.get((key[0], key[1]), {}).items()

    def _listed(self) -> None:
        for listener in self.on_listed:
            listener()

    def _changed(self, key: Key, obj: Object | None) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            _take(self._owned, _owner(key, before), key)
            _take(self._places, key[:2], key)
        if obj is not None:
            self._objects[key] = obj
            self._owned.setdefault(_owner(key, obj), {})[key] = obj
            self._places.setdefault(key[:2], {})[key] = obj
        for listener in self.listeners:
            listener(key, before, obj)


def _owner(key: Key, obj: Object) -> tuple[str, str, str]:
    reference = controller_of(obj)
    return key[0], key[1], str(reference.get("uid") or "?") if reference is not None else ""


def _take(index: dict[Any, dict[Key, Object]], place: Any, key: Key) -> None:
    found = index[place]
    del found[key]
    if not found:
        del index[place]
