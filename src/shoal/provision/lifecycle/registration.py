"""Registers and initializes the node of a launched NodeClaim, and checks that its capacity is as expected."""

from __future__ import annotations

from typing import Any

from shoal.kinds.karpenter import FINALIZER, INITIALIZED, REGISTERED, REGISTERED_LABEL, UNREGISTERED, is_going
from shoal.objects.conditions import condition_is
from shoal.objects.errors import Conflict
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import (
    inconsistencies,
    initialized_patch,
    lacks_unregistered_taint,
    registration_patch,
    uninitialized,
    with_condition,
    with_consistency,
)
from shoal.provision.lifecycle.pairs import Pairs
from shoal.provision.telling import ABOUT_CLAIMS
from shoal.provision.view import NODES, View
from shoal.runtime.loop import Later
from shoal.runtime.recorder import WARNING, Recorder

Object = dict[str, Any]

TRIES = 5


class Registration:
    def __init__(self, homes: Homes, view: View, pairs: Pairs, recorder: Recorder) -> None:
        self._homes, self._view, self._pairs, self._recorder = homes, view, pairs, recorder

    async def advance(self, cluster: str, claim: Object, now: str) -> Object:
        """Patches the node and returns the NodeClaim with its new conditions."""
        nodes = [node for node in self._pairs.nodes_of(cluster, claim) if not is_going(node)]
        if not condition_is(claim, REGISTERED):
            if not nodes:
                said = ("NodeNotFound", "Node not registered with cluster")
                return with_condition(claim, REGISTERED, "Unknown", now, *said)
            if len(nodes) > 1:
                names = ", ".join(node["metadata"]["name"] for node in nodes)
                said = ("MultipleNodesFound", f"Several nodes have its providerID: {names}")
                return with_condition(claim, REGISTERED, "False", now, *said)
            if lacks_unregistered_taint(nodes[0]):
                text = f"The node came without the taint {UNREGISTERED}: pods may run there before it is registered"
                self._recorder.record(ABOUT_CLAIMS, cluster, claim, WARNING, "UnregisteredTaintMissing", text)
        elif len(nodes) != 1:
            return claim
        node = nodes[0]
        if not condition_is(claim, REGISTERED) or _knows_nothing(node):
            node = await self._adopt(cluster, claim, node)
            claim = {**claim, "status": {**claim["status"], "nodeName": node["metadata"]["name"]}}
            claim = with_condition(claim, REGISTERED, "True", now)
        return self._consistent(cluster, await self._initialize(cluster, claim, node, now), node, now)

    async def _initialize(self, cluster: str, claim: Object, node: Object, now: str) -> Object:
        if condition_is(claim, INITIALIZED):
            return claim
        missing = uninitialized(claim, node)
        if missing is not None:
            return with_condition(claim, INITIALIZED, "Unknown", now, *missing)
        patch = initialized_patch(node)
        if patch is not None:
            await self._patch(cluster, node["metadata"]["name"], patch)
        return with_condition(claim, INITIALIZED, "True", now)

    def _consistent(self, cluster: str, claim: Object, node: Object, now: str) -> Object:
        found = with_consistency(claim, node, now)
        if found is not claim:
            for issue in inconsistencies(claim, node):
                self._recorder.record(ABOUT_CLAIMS, cluster, claim, WARNING, "FailedConsistencyCheck", issue)
        return found

    async def _adopt(self, cluster: str, claim: Object, node: Object) -> Object:
        name = node["metadata"]["name"]
        for _ in range(TRIES):
            patch = registration_patch(claim, node)
            if patch is None:
                return node
            try:
                return await self._patch(cluster, name, patch, node["metadata"]["resourceVersion"])
            except Conflict:
                # Nodes are written often while they start.
                node = await self._homes.client(cluster).get(NODES, name)
        raise Later(f"node {name} is written too often")

    async def _patch(self, cluster: str, name: str, patch: Object, revision: str = "") -> Object:
        metadata = {**(patch.get("metadata") or {}), **({"resourceVersion": revision} if revision else {})}
        written = await self._homes.client(cluster).merge(NODES, name, {**patch, "metadata": metadata})
        return self._view.nodes.learn(cluster, written)


def _knows_nothing(node: Object) -> bool:
    """True if the node was recreated since registration, or its label or finalizer was removed."""
    metadata = node["metadata"]
    return REGISTERED_LABEL not in (metadata.get("labels") or {}) or FINALIZER not in (metadata.get("finalizers") or ())
