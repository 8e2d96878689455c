"""Replaces nodes that stay unhealthy. No disruption budget applies, because nothing runs properly there."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import CAPACITY_TYPE, TERMINATION_TIME, is_going, pool_of
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import termination_time
from shoal.provision.lifecycle.deleting import delete_claim
from shoal.provision.lifecycle.pairs import Pairs, Place
from shoal.provision.lifecycle.repair.decide import Illness, illness, snake_case, too_many_ill
from shoal.provision.metrics import NODECLAIMS_UNHEALTHY_DISRUPTED
from shoal.provision.telling import ABOUT_CLAIMS, ABOUT_NODES
from shoal.provision.view import CLAIMS, View
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import NORMAL, WARNING, Recorder

Object = dict[str, Any]

BLOCKED_SECONDS = 300.0
"""Requeue interval while too many nodes are unhealthy."""


class Repair:
    def __init__(
        self, homes: Homes, view: View, pairs: Pairs, provider: CloudProvider, recorder: Recorder, clock: Clock
    ) -> None:
        self._homes, self._view, self._pairs, self._provider = homes, view, pairs, provider
        self._recorder, self._clock = recorder, clock
        self.loop: Loop[Place] = Loop("node-repair", clock, self.reconcile, workers=2)
        view.nodes.listen(self._node)
        view.claims.listen(self._claim)

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and illness(new, self._provider.repair_policies()) is not None:
            self.loop.queue.add((key[0], key[2]))

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for node in self._pairs.nodes_of(key[0], new) if new is not None else ():
            self._node((key[0], "", node["metadata"]["name"]), None, node)

    async def reconcile(self, key: Place) -> float | None:
        cluster, name = key
        if not self._view.synced:
            raise Later("not everything has been listed yet")
        node, policies = self._view.nodes.get(cluster, name), self._provider.repair_policies()
        claim = self._pairs.claim_of(cluster, node)
        found = illness(node, policies) if node is not None else None
        if node is None or claim is None or found is None or is_going(claim):
            return None
        now, pool = self._clock.now(), pool_of(claim)
        if now < found.at:
            return found.at - now
        nodes = [each for each in self._view.nodes.of(cluster) if not pool or pool_of(each) == pool]
        if too_many_ill(nodes, policies):
            where = "nodepool" if pool else "cluster"
            for about, obj in ((ABOUT_NODES, node), (ABOUT_CLAIMS, claim)):
                said = f"more than 20% nodes are unhealthy in the {where}"
                self._recorder.record(about, cluster, obj, WARNING, "NodeRepairBlocked", said)
            return BLOCKED_SECONDS
        try:
            await self._replace(cluster, claim, found, now)
        except NotFound:
            return None
        return None

    async def _replace(self, cluster: str, claim: Object, found: Illness, now: float) -> None:
        client, metadata = self._homes.client(cluster), claim["metadata"]
        until = termination_time(claim)
        if until is None or until > now:
            said = {"annotations": {TERMINATION_TIME: rfc3339(now)}, "resourceVersion": metadata["resourceVersion"]}
            self._view.claims.learn(cluster, await client.merge(CLAIMS, metadata["name"], {"metadata": said}))
        await delete_claim(self._homes, self._view, cluster, claim, "unhealthy")
        text = f"Disrupting NodeClaim: Unhealthy/Delete, {found.condition} of its node has been wrong for too long"
        self._recorder.record(ABOUT_CLAIMS, cluster, claim, NORMAL, "DisruptionTerminating", text)
        NODECLAIMS_UNHEALTHY_DISRUPTED.inc(
            cluster,
            condition=snake_case(found.condition),
            nodepool=pool_of(claim),
            capacity_type=(metadata.get("labels") or {}).get(CAPACITY_TYPE, ""),
            image_id=str((claim.get("status") or {}).get("imageID") or ""),
        )
