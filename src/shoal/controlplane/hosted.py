"""Selects the logical clusters of profile `cluster`: workload controllers act only there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION

Object = dict[str, Any]
K = TypeVar("K", bound=Hashable)

CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)


class HostedClusters:
    """One informer for all workload controllers. It has to be run like them."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._reflector = Reflector(client.at("root"), CLUSTERS, clock, self._changed, shared=True)
        self._waiting: dict[str, set[tuple[Callable[[Any], None], Any]]] = {}

    async def run(self) -> None:
        await self._reflector.run()

    def admits(self, cluster: str, add: Callable[[K], None], key: K) -> bool:
        """Returns whether controllers act in the cluster. The key of an unknown cluster is enqueued once the cluster is
        known.
        """
        found = self._reflector.objects.get(("", "", cluster))
        if found is None:
            self._waiting.setdefault(cluster, set()).add((add, key))
            return False
        return (found.get("spec") or {}).get("profile") == "cluster" and "deletionTimestamp" not in found["metadata"]

    def _changed(self, key: Key, obj: Object | None) -> None:
        for add, waiting in self._waiting.pop(key[2], ()):
            if obj is not None:
                add(waiting)
