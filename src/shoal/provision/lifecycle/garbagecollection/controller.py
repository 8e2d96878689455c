"""Deletes NodeClaims whose instance disappeared without an event, in periodic sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.kinds.karpenter.karpenter import READY, REGISTERED, is_deleting, is_managed_node_class, provider_id
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import CloudProvider, Instance
from shoal.provision.lifecycle.deletion import delete_claim
from shoal.provision.management import ManagementResolver
from shoal.provision.state import ClusterState
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer_store import by_cluster


def claims_without_instance(
    claims: Iterable[Object], instances: Iterable[Instance], nodes_of: Callable[[Object], Iterable[Object]]
) -> list[Object]:
    """Only registered NodeClaims, which once had an instance. A Ready node runs on some machine, whatever the provider
    lists.
    """
    provider_ids = {each.provider_id for each in instances if not each.deleting}
    return [
        claim
        for claim in claims
        if is_managed_node_class(claim["spec"])
        and not is_deleting(claim)
        and condition_is(claim, REGISTERED)
        and provider_id(claim) not in provider_ids
        and not any(condition_is(node, READY) for node in nodes_of(claim))
    ]


Object = dict[str, Any]

RESYNC_SECONDS = 120.0


class GarbageCollectionReconciler:
    """Keys are logical clusters."""

    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        provider: CloudProvider,
        clock: Clock,
    ) -> None:
        self._resolver, self._state, self._provider = resolver, state, provider
        self.controller: Controller[str] = Controller("nodeclaim-garbage", clock, self.reconcile, workers=1)
        state.node_claims.add_event_handler(self._on_claim)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            self.controller.queue.add_after(key[0], RESYNC_SECONDS)

    async def reconcile(self, cluster: str) -> float | None:
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        claims = self._state.node_claims.by_index(by_cluster, cluster)
        if not claims:
            return None
        orphaned = claims_without_instance(
            claims, self._provider.list(cluster), lambda claim: self._state.nodes_of(cluster, claim)
        )
        for claim in orphaned:
            with suppress(NotFound):
                await delete_claim(self._resolver, self._state, cluster, claim, "garbage_collected")
        return RESYNC_SECONDS
