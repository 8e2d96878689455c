"""Rotates the keys of LogicalClusters whose `spec.keys` asks for it.

Every step is one compare-and-swap of one key object and can be repeated, so a rotation that was interrupted continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.keyrotation.decide import KeyRotationSnapshot, decide, is_rotated
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, new_kind_controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]

LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)


@dataclass(frozen=True, slots=True)
class RotatableKeys:
    """The keys of logical clusters, as functions of the name of one."""

    generation: Callable[[str], int]
    """Returns the generation that all its keys have reached; 0 if it has none yet."""
    has_former: Callable[[str], bool]
    """Returns whether former keys are still trusted."""
    rotate: Callable[[str, int], Awaitable[None]]
    """Replaces keys older than the generation."""
    drop_former: Callable[[str], Awaitable[None]]


def new_key_rotation_controller(client: Client, clock: Clock, keys: RotatableKeys) -> Controller[Key]:
    informer = Informer(client, LOGICAL_CLUSTERS, clock)
    reconciler = KeyRotationReconciler(client, clock, keys, informer)
    return new_kind_controller("key-rotation", informer, clock, is_rotated, reconciler.reconcile)


class KeyRotationReconciler:
    def __init__(self, client: Client, clock: Clock, keys: RotatableKeys, informer: Informer) -> None:
        self._client, self._clock, self._keys, self._informer = client, clock, keys, informer

    async def reconcile(self, key: Key, logical_cluster: Object) -> None:
        name = key[2]
        while True:
            snapshot = KeyRotationSnapshot(logical_cluster, self._keys.generation(name), self._keys.has_former(name))
            decision = decide(snapshot, rfc3339(self._clock.now()))
            if decision.rotate_to:
                await self._keys.rotate(name, decision.rotate_to)
            elif decision.drop_former:
                await self._keys.drop_former(name)
            else:
                break
        if decision.status is not None:
            try:
                self._informer.observe_write(await self._client.update(LOGICAL_CLUSTERS, decision.status, "status"))
            except NotFound:
                return
