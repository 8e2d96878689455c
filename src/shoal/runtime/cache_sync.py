"""Defers keys until all informers have synced (client-go WaitForCacheSync): before the first complete list, an existing
object looks missing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from shoal.runtime.informer import Informer

K = TypeVar("K", bound=Hashable)


class CacheSyncGate(Generic[K]):
    """Keys that arrive before all informers have synced are enqueued again once they have."""

    def __init__(self, enqueue: Callable[[K], None], *informers: Informer) -> None:
        self._enqueue, self._informers = enqueue, informers
        self._deferred: dict[K, None] = {}
        for informer in informers:
            informer.on_sync(self._requeue_deferred)

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers)

    def allow(self, key: K) -> bool:
        if self.has_synced:
            return True
        self._deferred[key] = None
        return False

    def _requeue_deferred(self) -> None:
        if self._deferred and self.has_synced:
            deferred, self._deferred = self._deferred, {}
            for key in deferred:
                self._enqueue(key)
