"""Mirrors Endpoints of Services without a selector as EndpointSlices."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.endpoints.controller import NAMESPACE_ENDS, UNSEEN_SECONDS, write_slices
from shoal.controlplane.endpoints.decide import is_slice_of
from shoal.controlplane.endpoints.slices import Slices
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.mirroring.decide import CONTROLLER, MOST, Plan, is_mirrored, plan
from shoal.kinds.discovery import MANAGED_BY, SERVICE_NAME
from shoal.objects.errors import Forbidden
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnWrites
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

SOURCE = Source("endpoint-slice-mirroring-controller", "v1", "Endpoints")


class MirroringLoop:
    """Keys are Endpoints. The garbage collector deletes the slices of deleted Endpoints."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        recorder: Recorder,
        services: Dependents,
        endpoints: Dependents,
        slices: Dependents,
    ) -> None:
        self._client, self._hosted, self._recorder = client, hosted, recorder
        self._services, self._endpoints, self._slices = services, endpoints, slices
        self.loop: Loop[Key] = Loop("endpoint-mirroring", clock, self.reconcile)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, services, endpoints, slices)
        self._writes: OwnWrites[Key] = OwnWrites(slices)
        services.listeners.append(lambda key, before, now: self.loop.queue.add(key))
        endpoints.listeners.append(lambda key, before, now: self.loop.queue.add(key))
        slices.listeners.append(self._slice_changed)

    def _slice_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for one in (before, now):
            labels = (one["metadata"].get("labels") or {}) if one is not None else {}
            if labels.get(MANAGED_BY) == CONTROLLER and labels.get(SERVICE_NAME):
                self.loop.queue.add((key[0], key[1], labels[SERVICE_NAME]))

    async def reconcile(self, key: Key) -> float | None:
        if not self._gate.admits(key) or not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        written = self._endpoints.get(key)
        if written is None:
            self._writes.forget(key)
            return None
        if not self._writes.in_sight(key):
            return UNSEEN_SECONDS
        owned = self._slices.owned(key, written["metadata"]["uid"])
        mine = [one for one in owned if is_slice_of(one, key[2], CONTROLLER)]
        todo = plan(written, mine) if is_mirrored(written, self._services.get(key)) else Plan(Slices(delete=mine))
        if todo.slices:
            await self._carry_out(key, written, todo)
        return None

    async def _carry_out(self, key: Key, written: Object, todo: Plan) -> None:
        if todo.skipped:
            said = (
                f"A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{todo.skipped} addresses were skipped"
            )
            self._recorder.record(SOURCE, key[0], written, "Warning", "TooManyAddressesToMirror", said)
        try:
            await write_slices(self._client.at(key[0]), key, todo.slices, self._writes)
        except Forbidden as error:
            if not any(cause.reason == NAMESPACE_ENDS for cause in error.causes):
                raise
