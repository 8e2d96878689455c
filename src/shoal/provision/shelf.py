"""Shared informer with an index by logical cluster and event handlers.

Responses of own writes can be added (`observe_write`), so the next reconcile sees them before the watch delivers them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock

Object = dict[str, Any]
Told = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the object as it was last delivered, and the object now."""

REMEMBERED = 4096


class Shelf:
    def __init__(
        self,
        client: Client,
        kind: Kind,
        clock: Clock,
        *,
        admits: Callable[[str], bool] | None = None,
        labels: str = "",
    ) -> None:
        """`admits` selects the logical clusters whose objects are kept."""
        self.kind, self._admits = kind, admits
        self._reflector = Reflector(client, kind, clock, self._changed, labels=labels, shared=True)
        self._by_cluster: dict[str, dict[Key, Object]] = {}
        self._told: list[Told] = []
        self._last: dict[Key, Object] = {}
        """Objects as last delivered to handlers. A write that was observed before the watch brought it is still
        delivered.
        """
        self._gone: deque[str] = deque(maxlen=REMEMBERED)
        """Uids of deleted objects. A late write response does not bring them back."""
        self.run = self._reflector.run

    @property
    def synced(self) -> bool:
        return self._reflector.synced

    def listen(self, told: Told) -> None:
        self._told.append(told)

    def get(self, cluster: str, name: str, namespace: str = "") -> Object | None:
        return self._by_cluster.get(cluster, {}).get((cluster, namespace, name))

    def of(self, cluster: str) -> list[Object]:
        return list(self._by_cluster.get(cluster, {}).values())

    def clusters(self) -> list[str]:
        return list(self._by_cluster)

    def learn(self, cluster: str, obj: Object) -> Object:
        """Adds the response of a write unless the watch has delivered a newer version already."""
        metadata = obj["metadata"]
        key = (cluster, metadata.get("namespace", ""), metadata["name"])
        old = self.get(cluster, key[2], key[1])
        ended = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if not ended and metadata["uid"] not in self._gone and (old is None or _revision(old) < _revision(obj)):
            self._put(key, obj)
        return obj

    def _changed(self, key: Key, obj: Object | None) -> None:
        if self._admits is not None and not self._admits(key[0]):
            return
        old = self.get(key[0], key[2], key[1])
        if obj is None:
            if old is not None:
                self._gone.append(old["metadata"]["uid"])
            here = self._by_cluster.get(key[0], {})
            here.pop(key, None)
            if not here:
                self._by_cluster.pop(key[0], None)
        elif old is None or _revision(old) <= _revision(obj):
            if old is None and obj["metadata"]["uid"] in self._gone:
                self._gone.remove(
                    obj["metadata"]["uid"]
                )  # the object came back with its whole cluster, which had been moved away
            self._put(key, obj)
        last = self._last.pop(key, None)
        if obj is not None:
            self._last[key] = obj
        elif last is None:
            last = old
        for told in self._told:
            told(key, last, obj)

    def _put(self, key: Key, obj: Object) -> None:
        self._by_cluster.setdefault(key[0], {})[key] = obj


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
