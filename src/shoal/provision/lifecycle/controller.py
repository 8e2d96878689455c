"""The loop of NodeClaims: from wanted to ready, station by station, then one write of the status."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import (
    CLASS_GROUP,
    FINALIZER,
    INITIALIZED,
    LAUNCHED,
    NODE_CLASS,
    REGISTERED,
    REGISTERED_LABEL,
    UNREGISTERED,
    class_ref,
    is_going,
    provider_id,
)
from shoal.objects.conditions import condition_is
from shoal.objects.duration import parse_time
from shoal.objects.errors import Conflict, NotFound
from shoal.provision.cloudprovider import CloudProvider, InsufficientCapacity, NodeClassNotReady, NotYet, ProviderError
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import (
    initialized_patch,
    is_overdue,
    launch_labels,
    launched,
    needs_finalizer,
    patience,
    registration_patch,
    uninitialized,
    with_condition,
)
from shoal.provision.lifecycle.termination import Termination
from shoal.provision.telling import ABOUT_CLAIMS
from shoal.provision.view import CLAIMS, NODES, View, provider_id_of
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import WARNING, Recorder

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster and name."""

QUIET_SECONDS = 1.0
"""A launch that is younger says nothing in the status: most are over by then."""
TRIES = 5


class Lifecycle:
    def __init__(self, homes: Homes, view: View, provider: CloudProvider, recorder: Recorder, clock: Clock) -> None:
        self._homes, self._view, self._provider, self._recorder, self._clock = homes, view, provider, recorder, clock
        self._termination = Termination(homes, view, provider, recorder, clock)
        self.loop: Loop[Place] = Loop("nodeclaims", clock, self.reconcile, workers=8)
        self._by_provider_id: dict[Place, str] = {}
        view.claims.listen(self._claim)
        view.nodes.listen(self._node)
        view.pods.listen(self._pod)
        provider.listen(self._told)

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._by_provider_id.pop((key[0], provider_id(old or {})), None)
            return
        if provider_id(new):
            self._by_provider_id[key[0], provider_id(new)] = key[2]
        self.loop.queue.add((key[0], key[2]))

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._owner(key[0], new or old)

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Of interest only where a node is being emptied."""
        node = ((new or old or {}).get("spec") or {}).get("nodeName")
        if node:
            self._owner(key[0], self._view.nodes.get(key[0], node), going=True)

    def _owner(self, cluster: str, node: Object | None, *, going: bool = False) -> None:
        name = self._by_provider_id.get((cluster, provider_id_of(node)))
        claim = self._view.claims.get(cluster, name) if name is not None else None
        if name is not None and claim is not None and (is_going(claim) or not going):
            self.loop.queue.add((cluster, name))

    def _told(self, cluster: str, claim: str) -> None:
        if claim:
            self.loop.queue.add((cluster, claim))

    async def reconcile(self, key: Place) -> float | None:
        cluster, name = key
        claim = self._view.claims.get(cluster, name)
        if claim is None or not _is_ours(claim):
            return None
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        try:
            if is_going(claim):
                return await self._termination.advance(cluster, claim)
            if needs_finalizer(claim):
                finalizers = [*(claim["metadata"].get("finalizers") or ()), FINALIZER]
                claim = await self._patch(cluster, claim, {"metadata": {"finalizers": finalizers}})
            return await self._advance(cluster, claim)
        except NotFound:
            return None  # it is gone, or its cluster
        except NotYet as error:
            raise Later(str(error)) from error

    async def _advance(self, cluster: str, claim: Object) -> float | None:
        if overdue := is_overdue(claim, self._clock.now()):
            await self._give_up(cluster, claim, "LivenessTimeout", f"gave up waiting for {overdue}")
            return None
        name, now = claim["metadata"]["name"], rfc3339(self._clock.now())
        try:
            claim, new = await self._launch(cluster, claim, now)
        except NotYet as error:
            claim = self._view.claims.get(cluster, name) or claim
            age = self._clock.now() - (parse_time(claim["metadata"]["creationTimestamp"]) or 0.0)
            if age < QUIET_SECONDS:
                return QUIET_SECONDS - age
            new = with_condition(claim, LAUNCHED, "Unknown", now, error.reason, str(error))
        except (InsufficientCapacity, NodeClassNotReady) as error:
            await self._give_up(cluster, claim, error.reason, str(error))
            return None
        except ProviderError as error:
            new = with_condition(claim, LAUNCHED, "Unknown", now, error.reason, str(error))
            await self._write(cluster, claim, new)
            raise Later(str(error)) from error
        if condition_is(new, LAUNCHED):
            new = await self._register(cluster, new, now)
        await self._write(cluster, claim, new)
        return patience(new, self._clock.now())

    async def _launch(self, cluster: str, claim: Object, now: str) -> tuple[Object, Object]:
        """The NodeClaim as it is on the server now, and as it should be."""
        instance = self._provider.get(cluster, claim)
        if condition_is(claim, LAUNCHED) and instance is not None and not instance.going:
            return claim, claim
        instance = await self._provider.create(cluster, claim)
        if condition_is(claim, LAUNCHED):
            return claim, claim
        if labels := launch_labels(claim, instance):
            claim = await self._patch(cluster, claim, {"metadata": {"labels": labels}})
        return claim, launched(claim, instance, now)

    async def _register(self, cluster: str, claim: Object, now: str) -> Object:
        node = self._view.node_of(cluster, provider_id(claim))
        if node is None or is_going(node):
            if condition_is(claim, REGISTERED):
                return claim
            return with_condition(claim, REGISTERED, "Unknown", now, "NodeNotFound", "Node not registered with cluster")
        if not condition_is(claim, REGISTERED) or _is_new(node):
            node = await self._adopt(cluster, claim, node)
            claim = {**claim, "status": {**claim["status"], "nodeName": node["metadata"]["name"]}}
            claim = with_condition(claim, REGISTERED, "True", now)
        if condition_is(claim, INITIALIZED):
            return claim
        missing = uninitialized(claim, node)
        if missing is not None:
            return with_condition(claim, INITIALIZED, "Unknown", now, *missing)
        patch = initialized_patch(node)
        if patch is not None:
            await self._patch_node(cluster, node["metadata"]["name"], patch)
        return with_condition(claim, INITIALIZED, "True", now)

    async def _adopt(self, cluster: str, claim: Object, node: Object) -> Object:
        taints = (node.get("spec") or {}).get("taints") or ()
        if not condition_is(claim, REGISTERED) and not any(taint.get("key") == UNREGISTERED for taint in taints):
            said = f"The node came without the taint {UNREGISTERED}: pods may have run there before it was registered"
            self._recorder.record(ABOUT_CLAIMS, cluster, claim, WARNING, "UnregisteredTaintMissing", said)
        name = node["metadata"]["name"]
        for _ in range(TRIES):
            patch = registration_patch(claim, node)
            if patch is None:
                return node
            try:
                return await self._patch_node(cluster, name, patch, node["metadata"]["resourceVersion"])
            except Conflict:
                # Others write a node often while it starts.
                node = await self._homes.client(cluster).get(NODES, name)
        raise Later(f"node {name} is written too often")

    async def _give_up(self, cluster: str, claim: Object, reason: str, message: str) -> None:
        metadata = claim["metadata"]
        self._recorder.record(ABOUT_CLAIMS, cluster, claim, WARNING, reason, f"NodeClaim {metadata['name']}: {message}")
        await self._homes.client(cluster).delete(CLAIMS, metadata["name"], uid=metadata["uid"])

    async def _patch(self, cluster: str, claim: Object, patch: Object) -> Object:
        metadata = {**patch["metadata"], "resourceVersion": claim["metadata"]["resourceVersion"]}
        written = await self._homes.client(cluster).merge(
            CLAIMS, claim["metadata"]["name"], {**patch, "metadata": metadata}
        )
        return self._view.claims.learn(cluster, written)

    async def _patch_node(self, cluster: str, name: str, patch: Object, revision: str = "") -> Object:
        metadata = {**(patch.get("metadata") or {}), **({"resourceVersion": revision} if revision else {})}
        written = await self._homes.client(cluster).merge(NODES, name, {**patch, "metadata": metadata})
        return self._view.nodes.learn(cluster, written)

    async def _write(self, cluster: str, old: Object, new: Object) -> None:
        if new is not old and new.get("status") != old.get("status"):
            self._view.claims.learn(cluster, await self._homes.client(cluster).update(CLAIMS, new, "status"))


def _is_ours(claim: Object) -> bool:
    found = class_ref(claim["spec"])
    return (found.get("group"), found.get("kind")) == (CLASS_GROUP, NODE_CLASS)


def _is_new(node: Object) -> bool:
    """It has been made since it was registered, and knows nothing of that."""
    return REGISTERED_LABEL not in (node["metadata"].get("labels") or {})
