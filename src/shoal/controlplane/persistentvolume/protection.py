"""Protects claims that pods use and volumes that claims use with finalizers."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.persistentvolume.claim_controller import CLAIMS, VOLUMES
from shoal.controlplane.persistentvolume.index import by_used_claim, changed_claims, claim_names_of
from shoal.controlplane.podcontrol.control import PODS
from shoal.kinds.core.persistentvolume import CLAIM_PROTECTION_FINALIZER, VOLUME_PROTECTION_FINALIZER
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]


class ProtectionReconciler:
    """Keys of one controller are claims, of the other volumes. The server adds the finalizers to new objects."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter) -> None:
        self._client, self._hosted_filter, wildcard = client, hosted, client.in_cluster("*")
        self._claims, self._volumes = Informer(wildcard, CLAIMS, clock), Informer(wildcard, VOLUMES, clock)
        self._pods = Informer(wildcard, PODS, clock, indexers=(by_used_claim,))
        self.claim_controller: Controller[Key] = Controller("claim-protection", clock, self._reconcile_claim)
        self.volume_controller: Controller[Key] = Controller("volume-protection", clock, self._reconcile_volume)
        self.claim_controller.watch(self._claims, self._on_claim)
        self.claim_controller.watch(self._pods, self._on_pod)
        self.volume_controller.watch(self._volumes, self._on_volume)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_deleting(new) == has_finalizer(new, CLAIM_PROTECTION_FINALIZER):
            self.claim_controller.queue.add(key)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        for claim in changed_claims(key, old, new):
            self._on_claim(claim, None, self._claims.get(claim))

    def _on_volume(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_deleting(new) == has_finalizer(new, VOLUME_PROTECTION_FINALIZER):
            self.volume_controller.queue.add(key)

    async def _reconcile_claim(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or not self._hosted_filter.accepts(key[0], self.claim_controller.queue.add, key):
            return
        if is_deleting(claim) and (
            any(map(_has_node, self._pods.by_index(by_used_claim, key))) or await self._is_claim_used(key)
        ):
            return
        await self._sync_finalizer(key, CLAIMS, claim, CLAIM_PROTECTION_FINALIZER)

    async def _is_claim_used(self, key: Key) -> bool:
        """Lists pods from the server: the informer may lag."""
        pods, _ = await self._client.in_cluster(key[0]).list_all(PODS, key[1])
        return any(_has_node(pod) and key[2] in claim_names_of(pod) for pod in pods)

    async def _reconcile_volume(self, key: Key) -> None:
        volume = self._volumes.get(key)
        if volume is None or not self._hosted_filter.accepts(key[0], self.volume_controller.queue.add, key):
            return
        if is_deleting(volume) and (volume.get("status") or {}).get("phase") == "Bound":
            return
        await self._sync_finalizer(key, VOLUMES, volume, VOLUME_PROTECTION_FINALIZER)

    async def _sync_finalizer(self, key: Key, gvr: GroupVersionResource, obj: Object, finalizer: str) -> None:
        """Removes the finalizer from an unused deleted object, and adds it to an object created before there were
        finalizers.
        """
        metadata = obj["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        if is_deleting(obj) and finalizer in finalizers:
            finalizers.remove(finalizer)
        elif not is_deleting(obj) and finalizer not in finalizers:
            finalizers.append(finalizer)
        else:
            return
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers or None}}
        try:
            await self._client.in_cluster(key[0]).merge_patch(gvr, key[2], body, key[1])
        except NotFound:
            return


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def has_finalizer(obj: Object, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or ())


def _has_node(pod: Object) -> bool:
    """A pod without a node does not use anything yet, and cannot start with a claim that is being deleted."""
    return bool(pod["spec"].get("nodeName"))
