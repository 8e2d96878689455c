"""Allocates ports of the hub to ManagedClusters and LogicalClusters that ask for an address of their own.

Keys are those of both kinds; a LogicalCluster has no namespace. One key is reconciled at a time, and a write is visible
to the next one, so no port is given twice. Only the leader of several hubs allocates.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.endpoints.decide import EndpointSnapshot, decide
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS
from shoal.kinds.fleet.endpoint import ENDPOINT_READY, PortRange, endpoint_of, wants_port
from shoal.objects.conditions import get_condition
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]


class EndpointReconciler:
    def __init__(self, client: Client, clock: Clock, ports: PortRange, host: str) -> None:
        """`host` is the address at which clients reach the hub."""
        self._client, self._clock, self._ports, self._host = client, clock, ports, host
        self.controller: Controller[Key] = Controller("fleet-endpoints", clock, self.reconcile, workers=1)
        self._managed = Informer(client, MANAGED_CLUSTERS, clock, indexers=(by_port,))
        self._logical = Informer(client, LOGICAL_CLUSTERS, clock, indexers=(by_port,))
        self._waiting: set[Key] = set()
        """Clusters that ask for a port and have none."""
        self.controller.watch(self._managed, self._on_change)
        self.controller.watch(self._logical, self._on_change)

    def _on_change(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._waiting.discard(key)
        elif wants_port(new) or endpoint_of(new) is not None or get_condition(new, ENDPOINT_READY) is not None:
            self.controller.queue.add(key)
        before = endpoint_of(old) if old is not None else None
        after = endpoint_of(new) if new is not None else None
        if before is not None and (after is None or after.port != before.port):
            for waiting in self._waiting:
                self.controller.queue.add(waiting)

    async def reconcile(self, key: Key) -> None:
        if not (self._managed.has_synced and self._logical.has_synced):
            raise RequeueError("informers of clusters have not synced yet")
        informer = self._managed if key[1] else self._logical
        obj = informer.get(key)
        if obj is None:
            return
        snapshot = EndpointSnapshot(obj, lambda port: self._others_at(port, obj), self._ports, self._host)
        updated = decide(snapshot, rfc3339(self._clock.now()))
        if updated is not None:
            with suppress(NotFound):
                informer.observe_write(await self._client.update(informer.gvr, updated, "status"))
        latest = updated or obj
        self._waiting.discard(key)
        if wants_port(latest) and endpoint_of(latest) is None:
            self._waiting.add(key)

    def _others_at(self, port: int, obj: Object) -> Iterable[Object]:
        uid = obj["metadata"]["uid"]
        for informer in (self._managed, self._logical):
            for other in informer.by_index(by_port, port):
                if other["metadata"]["uid"] != uid:
                    yield other


def by_port(key: Key, obj: Object) -> Iterable[int]:
    """Index by the port in the status."""
    endpoint = endpoint_of(obj)
    return () if endpoint is None else (endpoint.port,)
