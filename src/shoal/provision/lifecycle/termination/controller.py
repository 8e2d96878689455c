"""Node termination controller: taints the node, evicts its pods in order, waits for volume detachment, terminates the
instance and removes the finalizer.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import (
    DISRUPTION_REASON,
    DO_NOT_DISRUPT,
    DRAINED,
    INSTANCE_TERMINATING,
    NODE_CLASS_LABEL,
    READY,
    TERMINATION_FINALIZER,
    VOLUMES_DETACHED,
    ZONE,
    is_deleting,
    nodepool_of,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import CloudProvider, NodeClaimNotFound, NotSynced
from shoal.provision.events import NODE_EVENTS
from shoal.provision.lifecycle.decide import termination_time, with_condition, without_finalizer
from shoal.provision.lifecycle.deletion import delete_claim
from shoal.provision.lifecycle.termination.decide import (
    DrainStep,
    cordon_patch,
    join_names,
    largest_pods,
    next_drain_step,
    pending_attachments,
    volume_claims_of_staying_pods,
)
from shoal.provision.lifecycle.termination.evictions import EvictionQueue, disruption_reason
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import NODES_DRAINED, NODES_LIFETIME_SECONDS, NODES_TERMINATED, NODES_TERMINATION_SECONDS
from shoal.provision.state import NODE_CLAIMS, NODES, ClusterState, ObjectKey
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]

MIN_DRAIN_SECONDS = 5.0
"""Minimum drain time: a scheduler that has not seen the taint yet may still bind pods."""
POLL_SECONDS, INSTANCE_POLL_SECONDS = 1.0, 5.0
"""Poll intervals while pods or volumes are leaving, and while the instance terminates, in case no event arrives."""
MAX_PACED_NODES = 20
"""Maximum number of nodes drained at a common pace."""
EVENT_REPEAT_SECONDS = 120.0
"""Interval after which the same Event is recorded again for a node."""
ATTACHMENTS = GroupVersionResource("storage.k8s.io", "v1", "volumeattachments", namespaced=False)
VOLUME_CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")


class TerminationReconciler:
    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        provider: CloudProvider,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._resolver, self._state, self._provider = resolver, state, provider
        self._recorder, self._clock = recorder, clock
        self._evictions = EvictionQueue(resolver, recorder, clock)
        self._last_events: dict[str, dict[str, tuple[str, float]]] = {}
        """By uid of a node and reason: last message and its time."""
        self.controller: Controller[ObjectKey] = Controller("node-termination", clock, self.reconcile, workers=8)
        state.nodes.add_event_handler(self._on_node)
        state.pods.add_event_handler(self._on_pod)
        state.node_claims.add_event_handler(self._on_claim)
        provider.add_event_handler(self._on_provider_change)

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_deleting(new):
            self.controller.queue.add((key[0], key[2]))
        elif new is None and old is not None:
            self._last_events.pop(old["metadata"]["uid"], None)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._evictions.forget(old["metadata"]["uid"])
        name = str(((new or old or {}).get("spec") or {}).get("nodeName") or "")
        node = self._state.nodes.get((key[0], "", name))
        if node is not None and is_deleting(node):
            self.controller.queue.add((key[0], name))

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for node in self._state.nodes_of(key[0], new or old or {}):
            self._on_node((key[0], "", node["metadata"]["name"]), None, node)

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        node_claim = self._state.node_claims.get((cluster, "", claim)) if claim else None
        if node_claim is not None:
            self._on_claim((cluster, "", claim), None, node_claim)

    async def reconcile(self, key: ObjectKey) -> float | None:
        cluster, name = key
        node = self._state.nodes.get((cluster, "", name))
        if (
            node is None
            or not is_deleting(node)
            or TERMINATION_FINALIZER not in (node["metadata"].get("finalizers") or ())
        ):
            return None
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        claim = self._state.claim_of(cluster, node)
        if claim is None and NODE_CLASS_LABEL not in (node["metadata"].get("labels") or {}):
            return None  # managed by another provisioner
        try:
            return await self._advance(cluster, node, claim)
        except NotFound:
            return None  # the node or its cluster was deleted
        except NotSynced as error:
            raise RequeueError(str(error)) from error

    async def _advance(self, cluster: str, node: Object, claim: Object | None) -> float | None:
        if claim is not None and not is_deleting(claim):
            claim = await delete_claim(self._resolver, self._state, cluster, claim)
        if claim is not None and not condition_is(node, READY) and self._provider.get(cluster, claim) is None:
            await self._remove_finalizer(cluster, node)
            return None
        node = await self._cordon(cluster, node)
        requeue_after, new = await self._drain(cluster, node, claim)
        if requeue_after is None:
            requeue_after, new = await self._detach(cluster, node, new)
        if requeue_after is None and claim is not None and new is not None:
            requeue_after, new = await self._terminate_instance(cluster, claim, new)
        await self._write_status(cluster, claim, new)
        if requeue_after is None:
            await self._remove_finalizer(cluster, node)
        return requeue_after

    async def _cordon(self, cluster: str, node: Object) -> Object:
        patch = cordon_patch(node)
        if patch is None:
            return node
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": node["metadata"]["resourceVersion"]}
        return await self._patch(cluster, node, {**patch, "metadata": metadata})

    async def _drain(self, cluster: str, node: Object, claim: Object | None) -> tuple[float | None, Object | None]:
        """Returns the requeue interval (None: no pods left) and the NodeClaim with its new conditions."""
        now, name = self._clock.now(), node["metadata"]["name"]
        deadline = termination_time(claim) if claim is not None else None
        if deadline is not None:
            message = f"All pods will be deleted by {rfc3339(deadline)}"
            self._record_event(cluster, node, WARNING, "TerminationGracePeriodExpiring", message)
        new = claim
        if claim is not None and get_condition(claim, DRAINED) is None:
            new = with_condition(claim, DRAINED, "Unknown", rfc3339(now), "Draining", "Draining")
        drain_step = next_drain_step(self._state.pods_on(cluster, name), deadline, now)
        for pod, seconds in drain_step.delete:
            await self._evictions.force_delete(cluster, pod, seconds, deadline or now)
        if drain_step.remaining:
            return await self._wait_for_pods(cluster, node, claim, drain_step), new
        if new is not None and not condition_is(new, DRAINED):
            draining_since = parse_time((get_condition(new, DRAINED) or {}).get("lastTransitionTime")) or now
            if now < draining_since + MIN_DRAIN_SECONDS:
                return POLL_SECONDS, new
            new = with_condition(new, DRAINED, "True", rfc3339(now))
        return None, new

    async def _wait_for_pods(self, cluster: str, node: Object, claim: Object | None, drain_step: DrainStep) -> float:
        evict = self._paced_evictions(cluster, claim, drain_step.evict)
        reasons = await self._evictions.evict(cluster, evict, disruption_reason(claim))
        reasons += [f"pod {_pod_name(pod)} has {DO_NOT_DISRUPT}" for pod in drain_step.blocked]
        if reasons:
            message = f"Failed to drain node, {drain_step.remaining} pods are waiting to be evicted: {reasons[0]}"
            self._record_event(cluster, node, WARNING, "FailedDraining", message)
        times = (POLL_SECONDS, drain_step.requeue_after, self._evictions.retry_after(drain_step.evict))
        return min(each for each in times if each is not None) + 0.001

    def _paced_evictions(self, cluster: str, claim: Object | None, evict: tuple[Object, ...]) -> tuple[Object, ...]:
        """Nodes removed by consolidation are drained together, in the planned order."""
        claims = [
            each
            for each in self._state.node_claims.by_index(by_cluster, cluster)
            if is_deleting(each) and _is_disrupted(each)
        ]
        if claim is None or not _is_disrupted(claim) or len(claims) > MAX_PACED_NODES:
            return evict
        nodes = (node["metadata"]["name"] for each in claims for node in self._state.nodes_of(cluster, each))
        now = self._clock.now()
        pending = (
            pod for name in nodes for pod in next_drain_step(self._state.pods_on(cluster, name), None, now).evict
        )
        return largest_pods(evict, filter(self._evictions.holds_back_smaller, pending))

    async def _detach(self, cluster: str, node: Object, claim: Object | None) -> tuple[float | None, Object | None]:
        now = self._clock.now()
        pending = await self._pending_attachments(cluster, node)
        if not pending:
            return None, claim and with_condition(claim, VOLUMES_DETACHED, "True", rfc3339(now))
        deadline = termination_time(claim) if claim is not None else None
        if deadline is not None and now >= deadline:
            reason = "TerminationGracePeriodElapsed"
            return None, claim and with_condition(claim, VOLUMES_DETACHED, "False", rfc3339(now), reason, reason)
        message = f"Awaiting deletion of bound volumeattachments ({join_names(pending)})"
        reason = "AwaitingVolumeDetachment"
        self._record_event(cluster, node, NORMAL, reason, message)
        return POLL_SECONDS, claim and with_condition(claim, VOLUMES_DETACHED, "Unknown", rfc3339(now), reason, reason)

    async def _pending_attachments(self, cluster: str, node: Object) -> list[str]:
        client, name = self._resolver.client(cluster), node["metadata"]["name"]
        try:
            attachments, _ = await client.list_all(ATTACHMENTS)
        except NotFound:
            return []  # the server does not serve VolumeAttachments
        if not pending_attachments(attachments, name, {}):
            return []
        staying = {}
        for namespace, volume_claim in volume_claims_of_staying_pods(
            self._state.pods_on(cluster, name), self._clock.now()
        ):
            try:
                volume_claim_object = await client.get(VOLUME_CLAIMS, volume_claim, namespace)
            except NotFound:
                continue
            staying[str((volume_claim_object.get("spec") or {}).get("volumeName"))] = volume_claim
        return pending_attachments(attachments, name, staying)

    async def _terminate_instance(self, cluster: str, claim: Object, new: Object) -> tuple[float | None, Object]:
        now = rfc3339(self._clock.now())
        try:
            await self._provider.delete(cluster, claim)
        except NodeClaimNotFound:
            return None, with_condition(new, INSTANCE_TERMINATING, "True", now)
        return INSTANCE_POLL_SECONDS, with_condition(new, INSTANCE_TERMINATING, "True", now)

    def _record_event(self, cluster: str, node: Object, type_: str, reason: str, message: str) -> None:
        last, now = self._last_events.setdefault(node["metadata"]["uid"], {}), self._clock.now()
        last_message, recorded_at = last.get(reason, ("", 0.0))
        if message != last_message or now >= recorded_at + EVENT_REPEAT_SECONDS:
            last[reason] = message, now
            self._recorder.record(NODE_EVENTS, cluster, node, type_, reason, message)

    async def _write_status(self, cluster: str, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or new is old:
            return
        self._state.node_claims.observe_write(
            await self._resolver.client(cluster).update(NODE_CLAIMS, new, "status"), cluster
        )
        if condition_is(new, DRAINED) and not condition_is(old, DRAINED):
            NODES_DRAINED.inc(cluster, nodepool=nodepool_of(new))

    async def _remove_finalizer(self, cluster: str, node: Object) -> None:
        metadata = node["metadata"]
        patch = {"finalizers": without_finalizer(node), "resourceVersion": metadata["resourceVersion"]}
        await self._patch(cluster, node, {"metadata": patch})
        now, pool = self._clock.now(), nodepool_of(node)
        NODES_TERMINATED.inc(cluster, nodepool=pool, zone=(metadata.get("labels") or {}).get(ZONE, ""))
        for seconds, since in ((NODES_TERMINATION_SECONDS, "deletion"), (NODES_LIFETIME_SECONDS, "creation")):
            seconds.observe(cluster, now - (parse_time(metadata.get(f"{since}Timestamp")) or now), nodepool=pool)

    async def _patch(self, cluster: str, node: Object, patch: Object) -> Object:
        written = await self._resolver.client(cluster).merge_patch(NODES, node["metadata"]["name"], patch)
        return self._state.nodes.observe_write(written, cluster)


def _is_disrupted(claim: Object) -> bool:
    return condition_is(claim, DISRUPTION_REASON)


def _pod_name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
