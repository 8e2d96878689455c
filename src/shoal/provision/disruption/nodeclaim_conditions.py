"""Maintains the Consolidatable and Drifted conditions and lastPodEventTime of NodeClaims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import (
    INITIALIZED,
    LAUNCHED,
    is_deleting,
    node_class_ref,
    nodepool_of,
    nodepool_template_spec,
    provider_id,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import CloudProvider, InstanceType, NodeClaimNotFound, UnevaluatedNodePool
from shoal.provision.disruption.candidates import pod_event_time
from shoal.provision.disruption.drift import (
    consolidate_after,
    drift_reason,
    is_type_checked,
    with_consolidatable,
    with_drift,
)
from shoal.provision.evictability import is_active
from shoal.provision.management import ManagementResolver
from shoal.provision.pods import is_node_owned
from shoal.provision.state import NODE_CLAIMS, ClusterState, ObjectKey, claims_by_provider_id, provider_id_of
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]

DRIFT_RESYNC_SECONDS = 300.0
"""Resync interval of drift without an event."""
POD_EVENT_DELAY_SECONDS = 10.0
"""Delay before lastPodEventTime alone is written."""


class NodeClaimConditionReconciler:
    def __init__(
        self, resolver: ManagementResolver, state: ClusterState, provider: CloudProvider, clock: Clock
    ) -> None:
        self._resolver, self._state, self._provider, self._clock = resolver, state, provider, clock
        self.controller: Controller[ObjectKey] = Controller("disruption-marks", clock, self.reconcile)
        self._pod_events: dict[ObjectKey, float] = {}
        """Time of the last pod binding or removal, by cluster and node."""
        state.node_claims.add_event_handler(self._on_claim)
        state.pods.add_event_handler(self._on_pod)
        state.nodes.add_event_handler(self._on_node)
        state.node_pools.add_event_handler(self._on_pool)
        provider.add_event_handler(self._on_provider_change)

    def last_pod_event(self, cluster: str, claim: Object) -> float:
        """Time of the last pod binding or removal on its node."""
        node = self._state.node_by_provider_id(cluster, provider_id(claim))
        observed = self._pod_events.get((cluster, node["metadata"]["name"]), 0.0) if node is not None else 0.0
        return max(observed, pod_event_time(claim))

    def instance_types(self, cluster: str, pool: Object) -> list[InstanceType]:
        node_class = self._state.node_classes.get(
            (cluster, "", node_class_ref(nodepool_template_spec(pool)).get("name", ""))
        )
        try:
            return self._provider.instance_types(cluster, node_class) if node_class is not None else []
        except UnevaluatedNodePool:
            return []

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or _fingerprint(old) != _fingerprint(new)):
            self.controller.queue.add((key[0], key[2]))

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        old_node, new_node = _occupied_node(old), _occupied_node(new)
        for name in {old_node, new_node} - {""} if old_node != new_node else ():
            # Pods of the initial list have been there since they were bound.
            bound = parse_time((get_condition(new or {}, "PodScheduled") or {}).get("lastTransitionTime"))
            when = self._clock.now() if self._state.pods.has_synced else bound or 0.0
            self._pod_events[key[0], name] = max(when, self._pod_events.get((key[0], name), 0.0))
            node_id = provider_id_of(self._state.nodes.get((key[0], "", name)))
            self._enqueue(key[0], self._state.node_claims.by_index(claims_by_provider_id, (key[0], node_id)))

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._pod_events.pop((key[0], key[2]), None)

    def _on_pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._enqueue(
                key[0],
                (
                    claim
                    for claim in self._state.node_claims.by_index(by_cluster, key[0])
                    if nodepool_of(claim) == key[2]
                ),
            )

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        if claim:
            self.controller.queue.add((cluster, claim))
        else:
            self._enqueue(cluster, self._state.node_claims.by_index(by_cluster, cluster))

    def _enqueue(self, cluster: str, claims: Iterable[Object]) -> None:
        for claim in claims:
            self.controller.queue.add((cluster, claim["metadata"]["name"]))

    async def reconcile(self, key: ObjectKey) -> float | None:
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        cluster, now = key[0], self._clock.now()
        claim = self._state.node_claims.get((key[0], "", key[1]))
        pool = self._state.node_pools.get((cluster, "", nodepool_of(claim))) if claim is not None else None
        if claim is None or pool is None or is_deleting(claim) or not condition_is(claim, LAUNCHED):
            return None
        last_pod_event = self.last_pod_event(cluster, claim)
        new = with_drift(claim, self._drift_reason(cluster, pool, claim, now), now)
        new = with_consolidatable(new, pool, last_pod_event, now)
        recorded = pod_event_time(claim)
        event_pending = condition_is(claim, INITIALIZED) and int(last_pod_event) > int(recorded)
        if event_pending and (new is not claim or now >= last_pod_event + POD_EVENT_DELAY_SECONDS):
            new = {**new, "status": {**new["status"], "lastPodEventTime": rfc3339(last_pod_event)}}
            event_pending = False
        if new is not claim:
            try:
                self._state.node_claims.observe_write(
                    await self._resolver.client(cluster).update(NODE_CLAIMS, new, "status"), cluster
                )
            except NotFound:
                return None
        return min(self._requeue_times(pool, last_pod_event, now, event_pending=event_pending))

    def _requeue_times(self, pool: Object, last_pod_event: float, now: float, *, event_pending: bool) -> list[float]:
        after = consolidate_after(pool)
        times = [DRIFT_RESYNC_SECONDS]
        if after is not None and now < last_pod_event + after:
            times.append(last_pod_event + after - now + 0.001)
        if event_pending:
            times.append(last_pod_event + POD_EVENT_DELAY_SECONDS - now + 0.001)
        return times

    def _drift_reason(self, cluster: str, pool: Object, claim: Object, now: float) -> str:
        try:
            types = self.instance_types(cluster, pool) if is_type_checked(claim, now) else ()
            reason = drift_reason(pool, claim, types, now)
            return reason or self._provider.is_drifted(cluster, claim)
        except NodeClaimNotFound:
            return ""


def _fingerprint(claim: Object) -> tuple[object, ...]:
    """Fields of a NodeClaim that this controller reads, without those it writes."""
    metadata = claim["metadata"]
    conditions = (condition_is(claim, each) for each in (LAUNCHED, INITIALIZED))
    return (metadata.get("labels"), metadata.get("annotations"), claim.get("spec"), provider_id(claim), *conditions)


def _occupied_node(pod: Object | None) -> str:
    """Node on which the pod uses resources."""
    if pod is None or not is_active(pod) or is_node_owned(pod):
        return ""
    return str(pod["spec"].get("nodeName") or "")
