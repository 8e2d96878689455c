"""Reconciles Endpoints and EndpointSlices of every Service with a selector."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.endpoints.decide import ENDPOINTS_CONTROLLER, Plan, is_slice_of, plan
from shoal.controlplane.endpoints.members import facts, matches, selects
from shoal.controlplane.endpoints.slices import Slices
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.pacing import Pace
from shoal.kinds.discovery import SERVICE_NAME
from shoal.kinds.endpoints import MANAGED_BY
from shoal.objects.errors import Forbidden, NotFound
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnWrites

Object = dict[str, Any]

SERVICES = Kind("", "v1", "services")
ENDPOINTS = Kind("", "v1", "endpoints")
SLICES = Kind("discovery.k8s.io", "v1", "endpointslices")
NAMESPACE_ENDS = "NamespaceTerminating"
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 8


class EndpointsLoop:
    """Keys are Services. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        services: Dependents,
        pods: Dependents,
        nodes: Dependents,
        endpoints: Dependents,
        slices: Dependents,
    ) -> None:
        self._client, self._hosted = client, hosted
        self._services, self._pods, self._nodes = services, pods, nodes
        self._endpoints, self._slices = endpoints, slices
        self.loop: Loop[Key] = Loop("endpoints", clock, self.reconcile, WORKERS)
        self._pace = Pace(clock, self.loop.queue)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, services, pods, nodes, endpoints, slices)
        self._endpoint_writes: OwnWrites[Key] = OwnWrites(endpoints)
        self._slice_writes: OwnWrites[Key] = OwnWrites(slices)
        self._ended: set[Key] = set()
        """Services whose deletion was observed and whose Endpoints may remain."""
        self._nodeless: dict[str, set[Key]] = {}
        """By cluster: Services that left out pods because their nodes are unknown."""
        services.listeners.append(self._service_changed)
        pods.listeners.append(self._pod_changed)
        nodes.listeners.append(self._node_changed)
        endpoints.listeners.append(self._endpoints_changed)
        slices.listeners.append(self._slice_changed)

    def _service_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is None:
            self._ended.add(key)
        self.loop.queue.add(key)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        services = self._services.beside(key)
        if not services or facts(before) == facts(now):
            return
        labels = [pod["metadata"].get("labels") for pod in (before, now) if pod is not None]
        for owner, service in services:
            if selects(service) and any(matches(service, one) for one in labels):
                self._pace.wake(owner)

    def _node_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if before is None and key[0] in self._nodeless:
            for owner in self._nodeless.pop(key[0]):
                self.loop.queue.add(owner)

    def _endpoints_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        self._pace.wake(key)

    def _slice_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for one in (before, now):
            name = (one["metadata"].get("labels") or {}).get(SERVICE_NAME) if one is not None else None
            if name:
                self._pace.wake((key[0], key[1], name))

    async def reconcile(self, key: Key) -> float | None:
        if not self._gate.admits(key) or not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        service = self._services.get(key)
        if service is None:
            await self._end(key)
            return None
        self._ended.discard(key)
        if not selects(service):
            return None
        if not self._endpoint_writes.in_sight(key) or not self._slice_writes.in_sight(key):
            return UNSEEN_SECONDS
        everything = self._pods.beside(key)
        self._pace.worked(key, len(everything))
        pods = [pod for _, pod in everything if matches(service, pod["metadata"].get("labels"))]
        owned = self._slices.owned(key, service["metadata"]["uid"])
        mine = [one for one in owned if is_slice_of(one, key[2])]
        todo = plan(service, pods, lambda name: self._nodes.get((key[0], "", name)), self._endpoints.get(key), mine)
        if todo.without_node:
            self._nodeless.setdefault(key[0], set()).add(key)
        try:
            await self._carry_out(key, todo)
        except Forbidden as error:
            if not any(cause.reason == NAMESPACE_ENDS for cause in error.causes):
                raise
        return None

    async def _carry_out(self, key: Key, todo: Plan) -> None:
        client = self._client.at(key[0])
        if todo.endpoints is not None:
            made = "resourceVersion" not in todo.endpoints["metadata"]
            written = (
                client.create(ENDPOINTS, todo.endpoints, key[1]) if made else client.update(ENDPOINTS, todo.endpoints)
            )
            self._endpoint_writes.wrote(key, await written)
        await write_slices(client, key, todo.slices, self._slice_writes)

    async def _end(self, key: Key) -> None:
        """Deletes the Endpoints of a deleted Service. Confirms with the server: a Service missing in the informer
        proves nothing.
        """
        self._pace.forget(key)
        self._endpoint_writes.forget(key)
        self._slice_writes.forget(key)
        seen, left = key in self._ended, self._endpoints.get(key)
        if left is None or not (seen or is_managed(left)):
            self._ended.discard(key)
            return
        client = self._client.at(key[0])
        try:
            await client.get(SERVICES, key[2], key[1])
            return
        except NotFound:
            pass
        with suppress(NotFound):
            await client.delete(ENDPOINTS, key[2], key[1], uid=left["metadata"]["uid"])
        self._ended.discard(key)


def is_managed(endpoints: Object) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get(MANAGED_BY) == ENDPOINTS_CONTROLLER


async def write_slices(client: Client, key: Key, slices: Slices, writes: OwnWrites[Key]) -> None:
    for made in slices.create:
        writes.wrote(key, await client.create(SLICES, made, key[1]))
    for changed in slices.update:
        writes.wrote(key, await client.update(SLICES, changed))
    for gone in slices.delete:
        with suppress(NotFound):
            await client.delete(SLICES, gone["metadata"]["name"], key[1], uid=gone["metadata"]["uid"])
