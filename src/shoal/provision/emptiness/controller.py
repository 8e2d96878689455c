"""The loop that gives back: a node that nothing runs on, for as long as its NodePool says, is let go.

Before it is, the node takes no more pods, and the server is asked once more which are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.fit.taints import same
from shoal.kinds.karpenter import (
    CONSOLIDATABLE,
    DISRUPTED,
    DISRUPTION_REASON,
    INITIALIZED,
    is_going,
    pool_of,
    provider_id,
)
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.provision.emptiness.decide import (
    EMPTY,
    allowed,
    consolidate_after,
    initialized_at,
    is_ready,
    may_be_disrupted,
    occupants,
)
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import with_condition
from shoal.provision.telling import ABOUT_CLAIMS
from shoal.provision.view import CLAIMS, NODES, PODS, View, provider_id_of
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import NORMAL, Recorder

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster and name."""

LOOK_SECONDS = 1.0
"""While pods wait, or the budget is spent."""


class Promises(Protocol):
    """Who knows which pods are on their way to which node."""

    def is_promised(self, cluster: str, claim: str, node: str) -> bool: ...

    def is_undecided(self, cluster: str) -> bool: ...


class Emptiness:
    def __init__(self, homes: Homes, view: View, promises: Promises, recorder: Recorder, clock: Clock) -> None:
        self._homes, self._view, self._promises, self._recorder, self._clock = homes, view, promises, recorder, clock
        self.loop: Loop[Place] = Loop("emptiness", clock, self.reconcile, workers=1)
        self._began = clock.now()
        self._changed: dict[Place, float] = {}
        """When a pod last came to a node or went, by cluster and node."""
        self._due: dict[Place, float] = {}
        self._claim_of: dict[Place, str] = {}
        """By cluster and provider id."""
        view.claims.listen(self._claim)
        view.pods.listen(self._pod)
        view.nodes.listen(self._node)
        view.pools.listen(self._pool)

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._claim_of.pop((key[0], provider_id(old or {})), None)
            self._due.pop((key[0], key[2]), None)
            for waiting in [each for each in self._due if each[0] == key[0]]:
                self.loop.queue.add(waiting)  # its going was one of those the budget allowed
        elif condition_is(new, INITIALIZED) and (old is None or not condition_is(old, INITIALIZED)):
            self._claim_of[key[0], provider_id(new)] = key[2]
            self.loop.queue.add((key[0], key[2]))

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = _stay(old), _stay(new)
        if before == after:
            return
        for node in {before, after} - {""}:
            found = self._view.nodes.get(key[0], node)
            claim = self._claim_of.get((key[0], provider_id_of(found)))
            if claim is not None:
                self._changed[key[0], node] = self._clock.now()
                self.loop.queue.add((key[0], claim))

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._changed.pop((key[0], key[2]), None)

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.get("spec") != new.get("spec"):
            for claim in self._view.claims.of(key[0]):
                if pool_of(claim) == key[2]:
                    self.loop.queue.add((key[0], claim["metadata"]["name"]))

    async def reconcile(self, key: Place) -> float | None:
        now = self._clock.now()
        if not self._view.synced:
            raise Later("not everything has been listed yet")
        later = await self._look(*key)
        if later is None:
            self._due.pop(key, None)
            return None
        if now < self._due.get(key, 0.0) <= now + later:
            return None  # it comes back by itself before that
        self._due[key] = now + later
        return later

    async def _look(self, cluster: str, name: str) -> float | None:
        view, now = self._view, self._clock.now()
        claim = view.claims.get(cluster, name)
        node = view.node_of(cluster, provider_id(claim)) if claim is not None else None
        pool = view.pools.get(cluster, pool_of(claim)) if claim is not None else None
        if claim is None or node is None or pool is None or not may_be_disrupted(claim, node):
            return None
        node_name = node["metadata"]["name"]
        after = consolidate_after(pool)
        if after is None or occupants(view.pods_on(cluster, node_name)):
            return None
        began = max(self._began, self._changed.get((cluster, node_name), initialized_at(claim)))
        if now < began + after:
            return began + after - now + 0.001
        if self._promises.is_undecided(cluster) or self._promises.is_promised(cluster, name, node_name):
            return LOOK_SECONDS
        if self._allowed(cluster, pool) < 1:
            return LOOK_SECONDS
        try:
            return await self._let_go(cluster, claim, node)
        except NotFound:
            return None

    def _allowed(self, cluster: str, pool: Object) -> int:
        claims = [each for each in self._view.claims.of(cluster) if pool_of(each) == pool["metadata"]["name"]]
        staying = [each for each in claims if condition_is(each, INITIALIZED) and not is_going(each)]
        nodes = (self._view.node_of(cluster, provider_id(each)) for each in staying)
        return allowed(pool, claims, sum(node is None or not is_ready(node) for node in nodes))

    async def _let_go(self, cluster: str, claim: Object, node: Object) -> float | None:
        client, name = self._homes.client(cluster), claim["metadata"]["name"]
        node = await self._taint(cluster, node, lambda taints: [*taints, DISRUPTED])
        there, _ = await client.list_all(PODS, fields=f"spec.nodeName={node['metadata']['name']}")
        if occupants(there):
            await self._taint(cluster, node, lambda taints: [each for each in taints if not same(each, DISRUPTED)])
            return LOOK_SECONDS
        now = rfc3339(self._clock.now())
        said = with_condition(claim, CONSOLIDATABLE, "True", now)
        said = with_condition(said, DISRUPTION_REASON, "True", now, EMPTY, "nothing runs on the node")
        self._view.claims.learn(cluster, await client.update(CLAIMS, said, "status"))
        self._recorder.record(
            ABOUT_CLAIMS, cluster, claim, NORMAL, "DisruptionTerminating", "Disrupting NodeClaim: Empty/Delete"
        )
        gone = await client.delete(CLAIMS, name, uid=claim["metadata"]["uid"])
        if "deletionTimestamp" in gone.get("metadata", {}):
            self._view.claims.learn(cluster, gone)
        return None

    async def _taint(self, cluster: str, node: Object, change: Callable[[list[Object]], list[Object]]) -> Object:
        taints = (node.get("spec") or {}).get("taints") or []
        wanted = change([each for each in taints if not same(each, DISRUPTED)])
        if wanted == taints:
            return node
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": wanted or None},
        }
        written = await self._homes.client(cluster).merge(NODES, node["metadata"]["name"], patch)
        return self._view.nodes.learn(cluster, written)


def _stay(pod: Object | None) -> str:
    """The node a pod takes room on."""
    return str((pod["spec"].get("nodeName") or "") if pod is not None and occupants([pod]) else "")
