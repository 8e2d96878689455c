"""Reconciles PersistentVolumes: keeps their phase up to date and reclaims released volumes by policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.volumes.claims import CLAIMS, UNSEEN_SECONDS, VOLUMES
from shoal.controlplane.volumes.decide import decide_volume, unbound_volume
from shoal.controlplane.volumes.index import VolumeIndex, claimant
from shoal.objects.errors import NotFound
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnWrites
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

SOURCE = Source("persistentvolume-controller", "v1", "PersistentVolume")


class VolumeLoop:
    """Keys are volumes. `enqueue_claim` triggers the claim controller."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        recorder: Recorder,
        claims: Dependents,
        volumes: Dependents,
        index: VolumeIndex,
        wake: Callable[[Key], None],
    ) -> None:
        self._client, self._clock, self._hosted, self._recorder = client, clock, hosted, recorder
        self._claims, self._volumes, self._index, self._wake = claims, volumes, index, wake
        self.loop: Loop[Key] = Loop("volumes", clock, self.reconcile)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, claims, volumes)
        self._writes: OwnWrites[Key] = OwnWrites(volumes)
        self._told: dict[Key, str] = {}
        volumes.listeners.append(lambda key, before, now: self.loop.queue.add(key))
        claims.listeners.append(self._claim_changed)

    def _claim_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        names = {volume["metadata"]["name"] for volume in self._index.for_claim(key)}
        names |= {one["spec"].get("volumeName") for one in (before, now) if one is not None}
        for name in names - {None, ""}:
            self.loop.queue.add((key[0], "", name))

    async def reconcile(self, key: Key) -> float | None:
        volume = self._volumes.get(key)
        if volume is None:
            self._writes.forget(key)
            self._told.pop(key, None)
            return None
        if not self._gate.admits(key) or not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        if not self._writes.in_sight(key):
            return UNSEEN_SECONDS
        fate = decide_volume(volume, await self._claim(key, volume))
        client = self._client.at(key[0])
        try:
            if fate.unbind:
                volume = await client.update(VOLUMES, unbound_volume(volume))
                self._writes.wrote(key, volume)
            if fate.phase and (volume.get("status") or {}).get("phase") != fate.phase:
                await self._set_phase(key, volume, fate.phase, fate.message)
            if fate.reason and self._told.get(key) != fate.message:
                self._told[key] = fate.message
                self._recorder.record(SOURCE, key[0], volume, "Warning", fate.reason, fate.message)
            if fate.delete:
                await client.delete(VOLUMES, key[2], uid=volume["metadata"]["uid"])
        except NotFound:
            return None
        claim = claimant(key, volume)
        if fate.wake and claim is not None:
            self._wake(claim)
        return None

    async def _claim(self, key: Key, volume: Object) -> Object | None:
        """Returns the claim the volume is bound to, by uid. Its absence is confirmed with the server."""
        reference = volume["spec"].get("claimRef") or {}
        where = claimant(key, volume)
        if where is None or not reference.get("uid"):
            return None
        found = self._claims.get(where)
        if found is None or found["metadata"]["uid"] != reference["uid"]:
            try:
                found = await self._client.at(key[0]).get(CLAIMS, where[2], where[1])
            except NotFound:
                return None
        return found if found["metadata"]["uid"] == reference["uid"] else None

    async def _set_phase(self, key: Key, volume: Object, phase: str, message: str) -> None:
        status = {"phase": phase, "lastPhaseTransitionTime": rfc3339(self._clock.now())}
        if message:
            status["message"] = message
        written = await self._client.at(key[0]).update(VOLUMES, {**volume, "status": status}, "status")
        self._writes.wrote(key, written)
