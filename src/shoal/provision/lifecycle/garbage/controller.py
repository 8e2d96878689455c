"""Deletes NodeClaims whose instance disappeared without an event, in periodic sweeps."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.deleting import delete_claim
from shoal.provision.lifecycle.garbage.decide import abandoned
from shoal.provision.lifecycle.pairs import Pairs
from shoal.provision.view import View
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

SWEEP_SECONDS = 120.0


class Garbage:
    """Keys are logical clusters."""

    def __init__(self, homes: Homes, view: View, pairs: Pairs, provider: CloudProvider, clock: Clock) -> None:
        self._homes, self._view, self._pairs, self._provider = homes, view, pairs, provider
        self.loop: Loop[str] = Loop("nodeclaim-garbage", clock, self.reconcile, workers=1)
        view.claims.listen(self._claim)

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            self.loop.queue.add_after(key[0], SWEEP_SECONDS)

    async def reconcile(self, cluster: str) -> float | None:
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        claims = self._view.claims.of(cluster)
        if not claims:
            return None
        found = abandoned(claims, self._provider.list(cluster), lambda claim: self._pairs.nodes_of(cluster, claim))
        for claim in found:
            with suppress(NotFound):
                await delete_claim(self._homes, self._view, cluster, claim, "garbage_collected")
        return SWEEP_SECONDS
