"""An informer with the indexes that controllers of owned objects need: by controller and by namespace.

Objects without a controller are found by namespace (`orphans`). Owner and object are always in one logical cluster and
one namespace, so an ownerReference with the uid of an object elsewhere matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.objects.ownership import controller_of

Object = dict[str, Any]
EventHandler = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the old and the new object. Old is None for a new object, new is None for a deleted one."""
NamespaceKey = tuple[str, str]
"""Logical cluster and namespace."""
_Index = dict[tuple[str, str, str], dict[Key, Object]]


class IndexedInformer:
    def __init__(
        self, client: Client, gvr: GroupVersionResource, clock: Clock, *, poll_until_served: float | None = None
    ) -> None:
        self.event_handlers: list[EventHandler] = []
        self.on_sync: list[Callable[[], None]] = []
        """Callbacks, run after each complete list."""
        self._reflector = Reflector(
            client,
            gvr,
            clock,
            self._handle_object,
            poll_until_served=poll_until_served,
            on_sync=self._handle_sync,
            shared=True,
        )
        self._objects: dict[Key, Object] = {}
        self._by_controller: _Index = {}
        """Keyed by cluster, namespace and the controller's uid. Objects without a controller have an empty uid."""
        self._by_namespace: dict[NamespaceKey, dict[Key, Object]] = {}

    async def run(self) -> None:
        await self._reflector.run()

    @property
    def revision(self) -> int:
        return self._reflector.revision

    @property
    def has_synced(self) -> bool:
        return self._reflector.has_synced

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def by_controller(self, owner: Key, uid: str) -> list[Object]:
        return list(self._by_controller.get((owner[0], owner[1], uid), {}).values())

    def orphans(self, key: Key) -> list[Object]:
        """Objects without a controller in the namespace of the key."""
        return self.by_controller(key, "")

    def by_namespace(self, key: Key) -> ItemsView[Key, Object]:
        """All objects in the namespace of the key."""
        return self._by_namespace.get((key[0], key[1]), {}).items()

    def _handle_sync(self) -> None:
        for callback in self.on_sync:
            callback()

    def _handle_object(self, key: Key, obj: Object | None) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            _remove(self._by_controller, _controller_key(key, old), key)
            _remove(self._by_namespace, key[:2], key)
        if obj is not None:
            self._objects[key] = obj
            self._by_controller.setdefault(_controller_key(key, obj), {})[key] = obj
            self._by_namespace.setdefault(key[:2], {})[key] = obj
        for handler in self.event_handlers:
            handler(key, old, obj)


def _controller_key(key: Key, obj: Object) -> tuple[str, str, str]:
    reference = controller_of(obj)
    return key[0], key[1], str(reference.get("uid") or "?") if reference is not None else ""


def _remove(index: dict[Any, dict[Key, Object]], value: Any, key: Key) -> None:
    bucket = index[value]
    del bucket[key]
    if not bucket:
        del index[value]
