"""Finalizes a deleted NodeClaim: its node first (drained by `termination`), then the instance, then the finalizer."""

from __future__ import annotations

from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    FINALIZER,
    INSTANCE_TERMINATING,
    REGISTERED,
    TERMINATION_TIME,
    ZONE,
    is_going,
    pool_of,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider, NodeClaimNotFound
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import wanted_termination_time, with_condition, without_finalizer
from shoal.provision.lifecycle.pairs import Pairs
from shoal.provision.metrics import (
    NODECLAIMS_INSTANCE_TERMINATION_SECONDS,
    NODECLAIMS_TERMINATED,
    NODECLAIMS_TERMINATION_SECONDS,
)
from shoal.provision.telling import ABOUT_CLAIMS
from shoal.provision.view import CLAIMS, NODES, View
from shoal.runtime.recorder import WARNING, Recorder

Object = dict[str, Any]

MACHINE_SECONDS = 5.0
"""Poll interval while the instance terminates, in case no event arrives."""


class Ending:
    def __init__(
        self, homes: Homes, view: View, pairs: Pairs, provider: CloudProvider, recorder: Recorder, clock: Clock
    ) -> None:
        self._homes, self._view, self._pairs, self._provider = homes, view, pairs, provider
        self._recorder, self._clock = recorder, clock

    async def advance(self, cluster: str, claim: Object) -> float | None:
        if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            return None
        claim = await self._announce(cluster, claim)
        if await self._nodes_left(cluster, claim):
            return None  # the deletion of the nodes triggers a reconcile
        try:
            await self._provider.delete(cluster, claim)
        except NodeClaimNotFound:
            await self._let_go(cluster, claim)
            return None
        new = with_condition(claim, INSTANCE_TERMINATING, "True", rfc3339(self._clock.now()))
        if new is not claim:
            self._view.claims.learn(cluster, await self._homes.client(cluster).update(CLAIMS, new, "status"))
        return MACHINE_SECONDS

    async def _announce(self, cluster: str, claim: Object) -> Object:
        """Writes the termination time as an annotation, so that later changes of the spec do not move it."""
        at = wanted_termination_time(claim)
        if at is None:
            return claim
        said = f"All pods will be deleted by {rfc3339(at)}"
        self._recorder.record(ABOUT_CLAIMS, cluster, claim, WARNING, "TerminationGracePeriodExpiring", said)
        return await self._patch(cluster, claim, {"annotations": {TERMINATION_TIME: rfc3339(at)}})

    async def _nodes_left(self, cluster: str, claim: Object) -> bool:
        """Deletes the nodes and returns True while any remain. Unregistered nodes have no pods and go with the
        instance.
        """
        client, left = self._homes.client(cluster), False
        for node in self._pairs.nodes_of(cluster, claim):
            metadata = node["metadata"]
            finalizers = metadata.get("finalizers") or []
            if FINALIZER not in finalizers and (is_going(node) or not condition_is(claim, REGISTERED)):
                continue
            left = True
            if is_going(node):
                continue
            try:
                if FINALIZER not in finalizers:
                    patch = {"finalizers": [*finalizers, FINALIZER], "resourceVersion": metadata["resourceVersion"]}
                    await client.merge(NODES, metadata["name"], {"metadata": patch})
                gone = await client.delete(NODES, metadata["name"], uid=metadata["uid"])
            except NotFound as error:
                if error.kind != NODES.plural:
                    raise
                continue
            if "deletionTimestamp" in gone.get("metadata", {}):
                self._view.nodes.learn(cluster, gone)
        return left

    async def _let_go(self, cluster: str, claim: Object) -> None:
        await self._patch(cluster, claim, {"finalizers": without_finalizer(claim)})
        metadata, now, pool = claim["metadata"], self._clock.now(), pool_of(claim)
        labels = metadata.get("labels") or {}
        NODECLAIMS_TERMINATED.inc(
            cluster, nodepool=pool, capacity_type=labels.get(CAPACITY_TYPE, ""), zone=labels.get(ZONE, "")
        )
        began = parse_time(metadata.get("deletionTimestamp")) or now
        NODECLAIMS_TERMINATION_SECONDS.observe(cluster, now - began, nodepool=pool)
        if condition_is(claim, INSTANCE_TERMINATING):
            asked = parse_time((get_condition(claim, INSTANCE_TERMINATING) or {}).get("lastTransitionTime")) or now
            NODECLAIMS_INSTANCE_TERMINATION_SECONDS.observe(cluster, now - asked, nodepool=pool)

    async def _patch(self, cluster: str, claim: Object, metadata: Object) -> Object:
        body = {"metadata": {**metadata, "resourceVersion": claim["metadata"]["resourceVersion"]}}
        written = await self._homes.client(cluster).merge(CLAIMS, claim["metadata"]["name"], body)
        return self._view.claims.learn(cluster, written)
