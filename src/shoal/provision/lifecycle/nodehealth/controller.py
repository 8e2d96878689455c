"""Replaces nodes that stay unhealthy. No disruption budget applies, because nothing runs properly there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, TERMINATION_TIME, is_deleting, nodepool_of
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import CloudProvider, RepairPolicy
from shoal.provision.events import NODE_CLAIM_EVENTS, NODE_EVENTS
from shoal.provision.lifecycle.decide import termination_time
from shoal.provision.lifecycle.deletion import delete_claim
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import NODECLAIMS_UNHEALTHY_DISRUPTED
from shoal.provision.settings import SettingsSource
from shoal.provision.state import NODE_CLAIMS, ClusterState, ObjectKey
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder
from shoal.runtime.informer_store import by_cluster

MAX_UNHEALTHY_SHARE = 0.2
"""Share of a NodePool's nodes, rounded up. Beyond it the cause is assumed to be elsewhere than in the nodes."""


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    condition: str
    repair_at: float
    """Time at which the toleration ends."""


def unhealthy_condition(node: Object, policies: Sequence[RepairPolicy]) -> UnhealthyCondition | None:
    """Condition whose toleration ends first; None if the node is healthy."""
    conditions = []
    for policy in policies:
        condition = get_condition(node, policy.condition)
        if condition is not None and condition.get("status") == policy.status:
            since = parse_time(condition.get("lastTransitionTime")) or 0.0
            conditions.append(UnhealthyCondition(policy.condition, since + policy.toleration_seconds))
    return min(conditions, key=lambda each: each.repair_at, default=None)


def is_repair_blocked(nodes: Iterable[Object], policies: Sequence[RepairPolicy]) -> bool:
    """Checked among the nodes of a NodePool, or of the cluster for a NodeClaim without a pool."""
    unhealthy = [unhealthy_condition(node, policies) is not None for node in nodes]
    return sum(unhealthy) > math.ceil(MAX_UNHEALTHY_SHARE * len(unhealthy))


def snake_case(name: str) -> str:
    """`MemoryPressure` as `memory_pressure`, for metrics."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


Object = dict[str, Any]

BLOCKED_REQUEUE_SECONDS = 300.0
"""Requeue interval while too many nodes are unhealthy."""


class NodeHealthReconciler:
    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        provider: CloudProvider,
        recorder: EventRecorder,
        clock: Clock,
        settings: SettingsSource,
    ) -> None:
        self._resolver, self._state, self._provider, self._settings = resolver, state, provider, settings
        self._recorder, self._clock = recorder, clock
        self.controller: Controller[ObjectKey] = Controller("node-repair", clock, self.reconcile, workers=2)
        state.nodes.add_event_handler(self._on_node)
        state.node_claims.add_event_handler(self._on_claim)
        settings.add_event_handler(self._on_settings)

    def _on_settings(self, cluster: str) -> None:
        for node in self._state.nodes.by_index(by_cluster, cluster):
            self._on_node((cluster, "", node["metadata"]["name"]), None, node)

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if not self._settings.settings_of(key[0]).node_repair:
            return
        if new is not None and unhealthy_condition(new, self._provider.repair_policies()) is not None:
            self.controller.queue.add((key[0], key[2]))

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for node in self._state.nodes_of(key[0], new) if new is not None else ():
            self._on_node((key[0], "", node["metadata"]["name"]), None, node)

    async def reconcile(self, key: ObjectKey) -> float | None:
        cluster, name = key
        if not self._state.has_synced:
            raise RequeueError("informers have not synced yet")
        node, policies = self._state.nodes.get((cluster, "", name)), self._provider.repair_policies()
        claim = self._state.claim_of(cluster, node)
        unhealthy = unhealthy_condition(node, policies) if node is not None else None
        if not self._settings.settings_of(cluster).node_repair:
            return None  # switched off since
        if node is None or claim is None or unhealthy is None or is_deleting(claim):
            return None
        now, pool = self._clock.now(), nodepool_of(claim)
        if now < unhealthy.repair_at:
            return unhealthy.repair_at - now
        nodes = [
            each for each in self._state.nodes.by_index(by_cluster, cluster) if not pool or nodepool_of(each) == pool
        ]
        if is_repair_blocked(nodes, policies):
            scope = "nodepool" if pool else "cluster"
            for source, obj in ((NODE_EVENTS, node), (NODE_CLAIM_EVENTS, claim)):
                message = f"more than 20% nodes are unhealthy in the {scope}"
                self._recorder.record(source, cluster, obj, WARNING, "NodeRepairBlocked", message)
            return BLOCKED_REQUEUE_SECONDS
        try:
            await self._replace(cluster, claim, unhealthy, now)
        except NotFound:
            return None
        return None

    async def _replace(self, cluster: str, claim: Object, unhealthy: UnhealthyCondition, now: float) -> None:
        client, metadata = self._resolver.client(cluster), claim["metadata"]
        deadline = termination_time(claim)
        if deadline is None or deadline > now:
            metadata_patch = {
                "annotations": {TERMINATION_TIME: rfc3339(now)},
                "resourceVersion": metadata["resourceVersion"],
            }
            self._state.node_claims.observe_write(
                await client.merge_patch(NODE_CLAIMS, metadata["name"], {"metadata": metadata_patch}), cluster
            )
        await delete_claim(self._resolver, self._state, cluster, claim, "unhealthy")
        message = f"Disrupting NodeClaim: Unhealthy/Delete, {unhealthy.condition} of its node exceeded its toleration"
        self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, NORMAL, "DisruptionTerminating", message)
        NODECLAIMS_UNHEALTHY_DISRUPTED.inc(
            cluster,
            condition=snake_case(unhealthy.condition),
            nodepool=nodepool_of(claim),
            capacity_type=(metadata.get("labels") or {}).get(CAPACITY_TYPE, ""),
            image_id=str((claim.get("status") or {}).get("imageID") or ""),
        )
