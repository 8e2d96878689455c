"""Finalizes a deleted NodeClaim: its node first (drained by `termination`), then the instance, then the finalizer."""

from __future__ import annotations

from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    INSTANCE_TERMINATING,
    REGISTERED,
    TERMINATION_FINALIZER,
    TERMINATION_TIME,
    ZONE,
    is_deleting,
    nodepool_of,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider.types import CloudProvider, NodeClaimNotFound
from shoal.provision.events import NODE_CLAIM_EVENTS
from shoal.provision.lifecycle.decide import missing_termination_time, with_condition, without_finalizer
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import (
    NODECLAIMS_INSTANCE_TERMINATION_SECONDS,
    NODECLAIMS_TERMINATED,
    NODECLAIMS_TERMINATION_SECONDS,
)
from shoal.provision.state import NODE_CLAIMS, NODES, ClusterState
from shoal.runtime.event_recorder import WARNING, EventRecorder

Object = dict[str, Any]

INSTANCE_POLL_SECONDS = 5.0
"""Poll interval while the instance terminates, in case no event arrives."""


class NodeClaimFinalizer:
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

    async def advance(self, cluster: str, claim: Object) -> float | None:
        if TERMINATION_FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            return None
        claim = await self._set_termination_time(cluster, claim)
        if await self._delete_nodes(cluster, claim):
            return None  # the deletion of the nodes triggers a reconcile
        try:
            await self._provider.delete(cluster, claim)
        except NodeClaimNotFound:
            await self._remove_finalizer(cluster, claim)
            return None
        new = with_condition(claim, INSTANCE_TERMINATING, "True", rfc3339(self._clock.now()))
        if new is not claim:
            self._state.node_claims.observe_write(
                await self._resolver.client(cluster).update(NODE_CLAIMS, new, "status"), cluster
            )
        return INSTANCE_POLL_SECONDS

    async def _set_termination_time(self, cluster: str, claim: Object) -> Object:
        """Writes the termination time as an annotation, so that later changes of the spec do not move it."""
        deadline = missing_termination_time(claim)
        if deadline is None:
            return claim
        message = f"All pods will be deleted by {rfc3339(deadline)}"
        self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, WARNING, "TerminationGracePeriodExpiring", message)
        return await self._patch(cluster, claim, {"annotations": {TERMINATION_TIME: rfc3339(deadline)}})

    async def _delete_nodes(self, cluster: str, claim: Object) -> bool:
        """Deletes the nodes and returns True while any remain. Unregistered nodes have no pods and go with the
        instance.
        """
        client, remaining = self._resolver.client(cluster), False
        for node in self._state.nodes_of(cluster, claim):
            metadata = node["metadata"]
            finalizers = metadata.get("finalizers") or []
            if TERMINATION_FINALIZER not in finalizers and (is_deleting(node) or not condition_is(claim, REGISTERED)):
                continue
            remaining = True
            if is_deleting(node):
                continue
            try:
                if TERMINATION_FINALIZER not in finalizers:
                    patch = {
                        "finalizers": [*finalizers, TERMINATION_FINALIZER],
                        "resourceVersion": metadata["resourceVersion"],
                    }
                    await client.merge_patch(NODES, metadata["name"], {"metadata": patch})
                deleted = await client.delete(NODES, metadata["name"], uid=metadata["uid"])
            except NotFound as error:
                if error.kind != NODES.resource:
                    raise
                continue
            if "deletionTimestamp" in deleted.get("metadata", {}):
                self._state.nodes.observe_write(deleted, cluster)
        return remaining

    async def _remove_finalizer(self, cluster: str, claim: Object) -> None:
        await self._patch(cluster, claim, {"finalizers": without_finalizer(claim)})
        metadata, now, pool = claim["metadata"], self._clock.now(), nodepool_of(claim)
        labels = metadata.get("labels") or {}
        NODECLAIMS_TERMINATED.inc(
            cluster, nodepool=pool, capacity_type=labels.get(CAPACITY_TYPE, ""), zone=labels.get(ZONE, "")
        )
        deleted_at = parse_time(metadata.get("deletionTimestamp")) or now
        NODECLAIMS_TERMINATION_SECONDS.observe(cluster, now - deleted_at, nodepool=pool)
        if condition_is(claim, INSTANCE_TERMINATING):
            terminating_since = (
                parse_time((get_condition(claim, INSTANCE_TERMINATING) or {}).get("lastTransitionTime")) or now
            )
            NODECLAIMS_INSTANCE_TERMINATION_SECONDS.observe(cluster, now - terminating_since, nodepool=pool)

    async def _patch(self, cluster: str, claim: Object, metadata: Object) -> Object:
        body = {"metadata": {**metadata, "resourceVersion": claim["metadata"]["resourceVersion"]}}
        written = await self._resolver.client(cluster).merge_patch(NODE_CLAIMS, claim["metadata"]["name"], body)
        return self._state.node_claims.observe_write(written, cluster)
