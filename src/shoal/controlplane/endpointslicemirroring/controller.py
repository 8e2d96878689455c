"""Mirrors Endpoints of Services without a selector as EndpointSlices."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.endpoints.controller import (
    ENDPOINTS,
    EXPECTATIONS_RETRY_SECONDS,
    NAMESPACE_TERMINATING,
    SERVICES,
    SLICES,
    write_slices,
)
from shoal.controlplane.endpoints.decide import is_slice_of
from shoal.controlplane.endpoints.slices import SliceChanges
from shoal.controlplane.endpointslicemirroring.decide import (
    CONTROLLER,
    MAX_ADDRESSES_PER_SUBSET,
    MirroringPlan,
    plan,
    should_mirror,
)
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.kinds.discovery.endpointslice import MANAGED_BY_LABEL, SERVICE_NAME_LABEL
from shoal.objects.errors import Forbidden
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]

EVENT_SOURCE = EventSource("endpoint-slice-mirroring-controller", "v1", "Endpoints")


class EndpointSliceMirroringReconciler:
    """Keys are Endpoints. The garbage collector deletes the slices of deleted Endpoints."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._hosted_filter, self._recorder = client, hosted, recorder
        wildcard = client.in_cluster("*")
        self._services = services = Informer(wildcard, SERVICES, clock)
        self._endpoints = endpoints = Informer(wildcard, ENDPOINTS, clock)
        self._slices = slices = Informer(wildcard, SLICES, clock, indexers=(by_controller,))
        self.controller: Controller[Key] = Controller("endpoint-mirroring", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, services, endpoints, slices)
        self._slice_expectations: WriteExpectations[Key] = WriteExpectations(slices)
        for informer in (services, endpoints):
            self.controller.watch(informer, lambda key, old, new: self.controller.queue.add(key))
        self.controller.watch(slices, self._on_slice)

    def _on_slice(self, key: Key, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            labels = (one["metadata"].get("labels") or {}) if one is not None else {}
            if labels.get(MANAGED_BY_LABEL) == CONTROLLER and labels.get(SERVICE_NAME_LABEL):
                self.controller.queue.add((key[0], key[1], labels[SERVICE_NAME_LABEL]))

    async def reconcile(self, key: Key) -> float | None:
        if not self._cache_sync.allow(key) or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        endpoints = self._endpoints.get(key)
        if endpoints is None:
            self._slice_expectations.forget(key)
            return None
        if not self._slice_expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        owned = self._slices.by_index(by_controller, (*key[:2], endpoints["metadata"]["uid"]))
        mirrored_slices = [one for one in owned if is_slice_of(one, key[2], CONTROLLER)]
        changes = (
            plan(endpoints, mirrored_slices)
            if should_mirror(endpoints, self._services.get(key))
            else MirroringPlan(SliceChanges(delete=mirrored_slices))
        )
        if changes.slices:
            await self._execute(key, endpoints, changes)
        return None

    async def _execute(self, key: Key, endpoints: Object, changes: MirroringPlan) -> None:
        if changes.skipped:
            message = (
                f"A max of {MAX_ADDRESSES_PER_SUBSET} addresses can be mirrored to "
                "EndpointSlices per Endpoints subset. "
                f"{changes.skipped} addresses were skipped"
            )
            self._recorder.record(EVENT_SOURCE, key[0], endpoints, "Warning", "TooManyAddressesToMirror", message)
        try:
            await write_slices(self._client.in_cluster(key[0]), key, changes.slices, self._slice_expectations)
        except Forbidden as error:
            if not any(cause.reason == NAMESPACE_TERMINATING for cause in error.causes):
                raise
