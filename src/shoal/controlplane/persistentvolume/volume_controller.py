"""Reconciles PersistentVolumes: keeps their phase up to date and reclaims released volumes by policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.persistentvolume.claim_controller import CLAIMS, EXPECTATIONS_RETRY_SECONDS, VOLUMES
from shoal.controlplane.persistentvolume.decide import decide_volume, unbound_volume
from shoal.controlplane.persistentvolume.index import by_claim_reference, claim_key_of
from shoal.objects.errors import NotFound
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer

Object = dict[str, Any]

EVENT_SOURCE = EventSource("persistentvolume-controller", "v1", "PersistentVolume")


class VolumeReconciler:
    """Keys are volumes. `enqueue_claim` triggers the claim controller."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusterFilter,
        recorder: EventRecorder,
        enqueue_claim: Callable[[Key], None],
    ) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        self._enqueue_claim, wildcard = enqueue_claim, client.in_cluster("*")
        self._claims = claims = Informer(wildcard, CLAIMS, clock)
        self._volumes = volumes = Informer(wildcard, VOLUMES, clock, indexers=(by_claim_reference,))
        self.controller: Controller[Key] = Controller("volumes", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, claims, volumes)
        self._expectations: WriteExpectations[Key] = WriteExpectations(volumes)
        self._last_messages: dict[Key, str] = {}
        self.controller.watch(volumes, lambda key, old, new: self.controller.queue.add(key))
        self.controller.watch(claims, self._on_claim)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        names = {volume["metadata"]["name"] for volume in self._volumes.by_index(by_claim_reference, key)}
        names |= {one["spec"].get("volumeName") for one in (old, new) if one is not None}
        for name in names - {None, ""}:
            self.controller.queue.add((key[0], "", name))

    async def reconcile(self, key: Key) -> float | None:
        volume = self._volumes.get(key)
        if volume is None:
            self._expectations.forget(key)
            self._last_messages.pop(key, None)
            return None
        if not self._cache_sync.allow(key) or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        if not self._expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        action = decide_volume(volume, await self._get_bound_claim(key, volume))
        client = self._client.in_cluster(key[0])
        try:
            if action.unbind:
                volume = await client.update(VOLUMES, unbound_volume(volume))
                self._expectations.expect(key, volume)
            if action.phase and (volume.get("status") or {}).get("phase") != action.phase:
                await self._set_phase(key, volume, action.phase, action.message)
            if action.reason and self._last_messages.get(key) != action.message:
                self._last_messages[key] = action.message
                self._recorder.record(EVENT_SOURCE, key[0], volume, "Warning", action.reason, action.message)
            if action.delete:
                await client.delete(VOLUMES, key[2], uid=volume["metadata"]["uid"])
        except NotFound:
            return None
        claim = claim_key_of(key, volume)
        if action.enqueue_claim and claim is not None:
            self._enqueue_claim(claim)
        return None

    async def _get_bound_claim(self, key: Key, volume: Object) -> Object | None:
        """Returns the claim the volume is bound to, by uid. Its absence is confirmed with the server."""
        reference = volume["spec"].get("claimRef") or {}
        claim_key = claim_key_of(key, volume)
        if claim_key is None or not reference.get("uid"):
            return None
        claim = self._claims.get(claim_key)
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            try:
                claim = await self._client.in_cluster(key[0]).get(CLAIMS, claim_key[2], claim_key[1])
            except NotFound:
                return None
        return claim if claim["metadata"]["uid"] == reference["uid"] else None

    async def _set_phase(self, key: Key, volume: Object, phase: str, message: str) -> None:
        status = {"phase": phase, "lastPhaseTransitionTime": rfc3339(self._clock.now())}
        if message:
            status["message"] = message
        updated = await self._client.in_cluster(key[0]).update(VOLUMES, {**volume, "status": status}, "status")
        self._expectations.expect(key, updated)
