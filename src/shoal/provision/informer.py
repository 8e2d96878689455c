"""Shared informer with an index by logical cluster and event handlers.

Responses of own writes can be added (`observe_write`), so the next reconcile sees them before the watch delivers them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock

Object = dict[str, Any]
EventHandler = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the object as it was last delivered, and the object now."""

TOMBSTONES = 4096


class Informer:
    def __init__(
        self,
        client: Client,
        kind: GroupVersionResource,
        clock: Clock,
        *,
        admits: Callable[[str], bool] | None = None,
        labels: str = "",
    ) -> None:
        """`admits` selects the logical clusters whose objects are kept."""
        self.kind, self._admits = kind, admits
        self._reflector = Reflector(client, kind, clock, self._on_event, labels=labels, shared=True)
        self._by_cluster: dict[str, dict[Key, Object]] = {}
        self._handlers: list[EventHandler] = []
        self._delivered: dict[Key, Object] = {}
        """Objects as last delivered to handlers. A write that was observed before the watch brought it is still
        delivered.
        """
        self._tombstones: deque[str] = deque(maxlen=TOMBSTONES)
        """Uids of deleted objects. A late write response does not bring them back."""
        self.run = self._reflector.run

    @property
    def has_synced(self) -> bool:
        return self._reflector.has_synced

    def add_event_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    def get(self, cluster: str, name: str, namespace: str = "") -> Object | None:
        return self._by_cluster.get(cluster, {}).get((cluster, namespace, name))

    def list_in(self, cluster: str) -> list[Object]:
        return list(self._by_cluster.get(cluster, {}).values())

    def clusters(self) -> list[str]:
        return list(self._by_cluster)

    def observe_write(self, cluster: str, obj: Object) -> Object:
        """Adds the response of a write unless the watch has delivered a newer version already."""
        metadata = obj["metadata"]
        key = (cluster, metadata.get("namespace", ""), metadata["name"])
        old = self.get(cluster, key[2], key[1])
        is_final = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if (
            not is_final
            and metadata["uid"] not in self._tombstones
            and (old is None or _revision(old) < _revision(obj))
        ):
            self._put(key, obj)
        return obj

    def _on_event(self, key: Key, obj: Object | None) -> None:
        if self._admits is not None and not self._admits(key[0]):
            return
        old = self.get(key[0], key[2], key[1])
        if obj is None:
            if old is not None:
                self._tombstones.append(old["metadata"]["uid"])
            objects = self._by_cluster.get(key[0], {})
            objects.pop(key, None)
            if not objects:
                self._by_cluster.pop(key[0], None)
        elif old is None or _revision(old) <= _revision(obj):
            if old is None and obj["metadata"]["uid"] in self._tombstones:
                self._tombstones.remove(
                    obj["metadata"]["uid"]
                )  # the object came back with its whole cluster, which had been moved away
            self._put(key, obj)
        last = self._delivered.pop(key, None)
        if obj is not None:
            self._delivered[key] = obj
        elif last is None:
            last = old
        for handler in self._handlers:
            handler(key, last, obj)

    def _put(self, key: Key, obj: Object) -> None:
        self._by_cluster.setdefault(key[0], {})[key] = obj


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
