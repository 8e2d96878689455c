"""Defers keys until all informers have synced (client-go WaitForCacheSync): before the first complete list, an existing
object looks missing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from shoal.runtime.dependents import Dependents

K = TypeVar("K", bound=Hashable)


class Gate(Generic[K]):
    """Keys that arrive before all informers have synced are enqueued again once they have."""

    def __init__(self, add: Callable[[K], None], *views: Dependents) -> None:
        self._add, self._views = add, views
        self._early: dict[K, None] = {}
        for view in views:
            view.on_listed.append(self._listed)

    @property
    def open(self) -> bool:
        return all(view.synced for view in self._views)

    def admits(self, key: K) -> bool:
        if self.open:
            return True
        self._early[key] = None
        return False

    def _listed(self) -> None:
        if self._early and self.open:
            early, self._early = self._early, {}
            for key in early:
                self._add(key)
