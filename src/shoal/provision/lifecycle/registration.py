"""Registers and initializes the node of a launched NodeClaim, and checks that its capacity is as expected."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter.karpenter import (
    INITIALIZED,
    REGISTERED,
    REGISTERED_LABEL,
    TERMINATION_FINALIZER,
    UNREGISTERED_TAINT_KEY,
    is_deleting,
)
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Conflict
from shoal.provision.events import NODE_CLAIM_EVENTS
from shoal.provision.lifecycle.decide import (
    inconsistencies,
    initialization_error,
    initialized_patch,
    lacks_unregistered_taint,
    registration_patch,
    simulated_resources_patch,
    with_condition,
    with_consistency,
)
from shoal.provision.management import ManagementResolver
from shoal.provision.state import NODES, ClusterState
from shoal.runtime.controller import RequeueError
from shoal.runtime.event_recorder import WARNING, EventRecorder

Object = dict[str, Any]

MAX_ATTEMPTS = 5


class NodeRegistration:
    def __init__(self, resolver: ManagementResolver, state: ClusterState, recorder: EventRecorder) -> None:
        self._resolver, self._state, self._recorder = resolver, state, recorder

    async def advance(self, cluster: str, claim: Object, now: str) -> Object:
        """Patches the node and returns the NodeClaim with its new conditions."""
        nodes = [node for node in self._state.nodes_of(cluster, claim) if not is_deleting(node)]
        if not condition_is(claim, REGISTERED):
            if not nodes:
                reason = ("NodeNotFound", "Node not registered with cluster")
                return with_condition(claim, REGISTERED, "Unknown", now, *reason)
            if len(nodes) > 1:
                names = ", ".join(node["metadata"]["name"] for node in nodes)
                reason = ("MultipleNodesFound", f"Several nodes have its providerID: {names}")
                return with_condition(claim, REGISTERED, "False", now, *reason)
            if lacks_unregistered_taint(nodes[0]):
                text = (
                    f"The node registered without the taint {UNREGISTERED_TAINT_KEY}: pods "
                    "may run there before registration completes"
                )
                self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, WARNING, "UnregisteredTaintMissing", text)
        elif len(nodes) != 1:
            return claim
        node = nodes[0]
        if not condition_is(claim, REGISTERED) or _is_unregistered(node):
            node = await self._register(cluster, claim, node)
            claim = {**claim, "status": {**claim["status"], "nodeName": node["metadata"]["name"]}}
            claim = with_condition(claim, REGISTERED, "True", now)
        return self._check_consistency(cluster, await self._initialize(cluster, claim, node, now), node, now)

    async def _initialize(self, cluster: str, claim: Object, node: Object, now: str) -> Object:
        if condition_is(claim, INITIALIZED):
            return claim
        resources = simulated_resources_patch(claim, node)
        if resources is not None:
            node = await self._patch(cluster, node["metadata"]["name"], resources, subresource="status")
        error = initialization_error(claim, node)
        if error is not None:
            return with_condition(claim, INITIALIZED, "Unknown", now, *error)
        patch = initialized_patch(node)
        if patch is not None:
            await self._patch(cluster, node["metadata"]["name"], patch)
        return with_condition(claim, INITIALIZED, "True", now)

    def _check_consistency(self, cluster: str, claim: Object, node: Object, now: str) -> Object:
        new = with_consistency(claim, node, now)
        if new is not claim:
            for issue in inconsistencies(claim, node):
                self._recorder.record(NODE_CLAIM_EVENTS, cluster, claim, WARNING, "FailedConsistencyCheck", issue)
        return new

    async def _register(self, cluster: str, claim: Object, node: Object) -> Object:
        name = node["metadata"]["name"]
        for _ in range(MAX_ATTEMPTS):
            patch = registration_patch(claim, node)
            if patch is None:
                return node
            try:
                return await self._patch(cluster, name, patch, node["metadata"]["resourceVersion"])
            except Conflict:
                # Nodes are written often while they start.
                node = await self._resolver.client(cluster).get(NODES, name)
        raise RequeueError(f"too many conflicts writing node {name}")

    async def _patch(
        self, cluster: str, name: str, patch: Object, revision: str = "", *, subresource: str = ""
    ) -> Object:
        metadata = {**(patch.get("metadata") or {}), **({"resourceVersion": revision} if revision else {})}
        body, client = {**patch, "metadata": metadata}, self._resolver.client(cluster)
        written = await client.merge_patch(NODES, name, body, subresource=subresource)
        return self._state.nodes.observe_write(written, cluster)


def _is_unregistered(node: Object) -> bool:
    """True if the node was recreated since registration, or its label or finalizer was removed."""
    metadata = node["metadata"]
    return REGISTERED_LABEL not in (metadata.get("labels") or {}) or TERMINATION_FINALIZER not in (
        metadata.get("finalizers") or ()
    )
