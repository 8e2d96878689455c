"""Protects claims that pods use and volumes that claims use with finalizers."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.volumes.claims import CLAIMS, VOLUMES
from shoal.controlplane.volumes.index import ClaimUsers, claims_of
from shoal.kinds.volumes import CLAIM_PROTECTION, VOLUME_PROTECTION
from shoal.objects.errors import NotFound
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop

Object = dict[str, Any]

PODS = Kind("", "v1", "pods")


class ProtectionLoops:
    """Keys of one controller are claims, of the other volumes. The server adds the finalizers to new objects."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        claims: Dependents,
        volumes: Dependents,
        users: ClaimUsers,
    ) -> None:
        self._client, self._hosted = client, hosted
        self._claims, self._volumes, self._users = claims, volumes, users
        self.claims: Loop[Key] = Loop("claim-protection", clock, self._claim)
        self.volumes: Loop[Key] = Loop("volume-protection", clock, self._volume)
        claims.listeners.append(lambda key, before, now: self._look(self.claims, key, now, CLAIM_PROTECTION))
        volumes.listeners.append(lambda key, before, now: self._look(self.volumes, key, now, VOLUME_PROTECTION))
        users.listeners.append(lambda key: self._look(self.claims, key, claims.get(key), CLAIM_PROTECTION))

    def _look(self, loop: Loop[Key], key: Key, obj: Object | None, finalizer: str) -> None:
        if obj is not None and is_going(obj) == is_protected(obj, finalizer):
            loop.queue.add(key)

    async def _claim(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or not self._hosted.admits(key[0], self.claims.queue.add, key):
            return
        if is_going(claim) and (any(map(_runs, self._users.of(key))) or await self._is_used(key)):
            return
        await self._settle(key, CLAIMS, claim, CLAIM_PROTECTION)

    async def _is_used(self, key: Key) -> bool:
        """Lists pods from the server: the informer may lag."""
        pods, _ = await self._client.at(key[0]).list_all(PODS, key[1])
        return any(_runs(pod) and key[2] in claims_of(pod) for pod in pods)

    async def _volume(self, key: Key) -> None:
        volume = self._volumes.get(key)
        if volume is None or not self._hosted.admits(key[0], self.volumes.queue.add, key):
            return
        if is_going(volume) and (volume.get("status") or {}).get("phase") == "Bound":
            return
        await self._settle(key, VOLUMES, volume, VOLUME_PROTECTION)

    async def _settle(self, key: Key, kind: Kind, obj: Object, finalizer: str) -> None:
        """Removes the finalizer from an unused deleted object, and adds it to an object created before there were
        finalizers.
        """
        metadata = obj["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        if is_going(obj) and finalizer in finalizers:
            finalizers.remove(finalizer)
        elif not is_going(obj) and finalizer not in finalizers:
            finalizers.append(finalizer)
        else:
            return
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers or None}}
        try:
            await self._client.at(key[0]).merge(kind, key[2], body, key[1])
        except NotFound:
            return


def is_going(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_protected(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or ())


def _runs(pod: Object) -> bool:
    """A pod without a node does not use anything yet, and cannot start with a claim that is being deleted."""
    return bool(pod["spec"].get("nodeName"))
