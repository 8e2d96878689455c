"""Node termination controller: taints the node, evicts its pods in order, waits for volume detachment, terminates the
instance and removes the finalizer.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import (
    CLASS_LABEL,
    DISRUPTION_REASON,
    DO_NOT_DISRUPT,
    DRAINED,
    FINALIZER,
    INSTANCE_TERMINATING,
    READY,
    VOLUMES_DETACHED,
    ZONE,
    is_going,
    pool_of,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider, NodeClaimNotFound, NotYet
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.decide import termination_time, with_condition, without_finalizer
from shoal.provision.lifecycle.deleting import delete_claim
from shoal.provision.lifecycle.pairs import Pairs, Place
from shoal.provision.lifecycle.termination.decide import (
    Drain,
    claims_of_staying,
    cordon_patch,
    drain,
    in_turn,
    named,
    pending_attachments,
)
from shoal.provision.lifecycle.termination.evictions import Evictions, disruption_reason
from shoal.provision.metrics import NODES_DRAINED, NODES_LIFETIME_SECONDS, NODES_TERMINATED, NODES_TERMINATION_SECONDS
from shoal.provision.telling import ABOUT_NODES
from shoal.provision.view import CLAIMS, NODES, View
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import NORMAL, WARNING, Recorder

Object = dict[str, Any]

MIN_DRAIN_SECONDS = 5.0
"""Minimum drain time: a scheduler that has not seen the taint yet may still bind pods."""
LOOK_SECONDS, MACHINE_SECONDS = 1.0, 5.0
"""Poll intervals while pods or volumes are leaving, and while the instance terminates, in case no event arrives."""
TOGETHER = 20
"""Maximum number of nodes drained at a common pace."""
TOLD_AGAIN_SECONDS = 120.0
"""Interval after which the same Event is recorded again for a node."""
ATTACHMENTS = Kind("storage.k8s.io", "v1", "volumeattachments", namespaced=False)
VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims")


class Termination:
    def __init__(
        self, homes: Homes, view: View, pairs: Pairs, provider: CloudProvider, recorder: Recorder, clock: Clock
    ) -> None:
        self._homes, self._view, self._pairs, self._provider = homes, view, pairs, provider
        self._recorder, self._clock = recorder, clock
        self._evictions = Evictions(homes, recorder, clock)
        self._said: dict[str, dict[str, tuple[str, float]]] = {}
        """By uid of a node and reason: last message and its time."""
        self.loop: Loop[Place] = Loop("node-termination", clock, self.reconcile, workers=8)
        view.nodes.listen(self._node)
        view.pods.listen(self._pod)
        view.claims.listen(self._claim)
        provider.listen(self._told)

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_going(new):
            self.loop.queue.add((key[0], key[2]))
        elif new is None and old is not None:
            self._said.pop(old["metadata"]["uid"], None)

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._evictions.forget(old["metadata"]["uid"])
        name = str(((new or old or {}).get("spec") or {}).get("nodeName") or "")
        node = self._view.nodes.get(key[0], name)
        if node is not None and is_going(node):
            self.loop.queue.add((key[0], name))

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for node in self._pairs.nodes_of(key[0], new or old or {}):
            self._node((key[0], "", node["metadata"]["name"]), None, node)

    def _told(self, cluster: str, claim: str) -> None:
        found = self._view.claims.get(cluster, claim) if claim else None
        if found is not None:
            self._claim((cluster, "", claim), None, found)

    async def reconcile(self, key: Place) -> float | None:
        cluster, name = key
        node = self._view.nodes.get(cluster, name)
        if node is None or not is_going(node) or FINALIZER not in (node["metadata"].get("finalizers") or ()):
            return None
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        claim = self._pairs.claim_of(cluster, node)
        if claim is None and CLASS_LABEL not in (node["metadata"].get("labels") or {}):
            return None  # managed by another provisioner
        try:
            return await self._advance(cluster, node, claim)
        except NotFound:
            return None  # the node or its cluster was deleted
        except NotYet as error:
            raise Later(str(error)) from error

    async def _advance(self, cluster: str, node: Object, claim: Object | None) -> float | None:
        if claim is not None and not is_going(claim):
            claim = await delete_claim(self._homes, self._view, cluster, claim)
        if claim is not None and not condition_is(node, READY) and self._provider.get(cluster, claim) is None:
            await self._let_go(cluster, node)
            return None
        node = await self._cordon(cluster, node)
        later, new = await self._drain(cluster, node, claim)
        if later is None:
            later, new = await self._detach(cluster, node, new)
        if later is None and claim is not None and new is not None:
            later, new = await self._end(cluster, claim, new)
        await self._write(cluster, claim, new)
        if later is None:
            await self._let_go(cluster, node)
        return later

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
            said = f"All pods will be deleted by {rfc3339(deadline)}"
            self._say(cluster, node, WARNING, "TerminationGracePeriodExpiring", said)
        new = claim
        if claim is not None and get_condition(claim, DRAINED) is None:
            new = with_condition(claim, DRAINED, "Unknown", rfc3339(now), "Draining", "Draining")
        found = drain(self._view.pods_on(cluster, name), deadline, now)
        for pod, seconds in found.delete:
            await self._evictions.tell(cluster, pod, seconds, deadline or now)
        if found.left:
            return await self._wait_for_pods(cluster, node, claim, found), new
        if new is not None and not condition_is(new, DRAINED):
            began = parse_time((get_condition(new, DRAINED) or {}).get("lastTransitionTime")) or now
            if now < began + MIN_DRAIN_SECONDS:
                return LOOK_SECONDS, new
            new = with_condition(new, DRAINED, "True", rfc3339(now))
        return None, new

    async def _wait_for_pods(self, cluster: str, node: Object, claim: Object | None, found: Drain) -> float:
        evict = self._in_turn(cluster, claim, found.evict)
        stay = await self._evictions.ask(cluster, evict, disruption_reason(claim))
        stay += [f"pod {_name(pod)} has {DO_NOT_DISRUPT}" for pod in found.kept]
        if stay:
            said = f"Failed to drain node, {found.left} pods are waiting to be evicted: {stay[0]}"
            self._say(cluster, node, WARNING, "FailedDraining", said)
        times = (LOOK_SECONDS, found.again, self._evictions.again(found.evict))
        return min(each for each in times if each is not None) + 0.001

    def _in_turn(self, cluster: str, claim: Object | None, evict: tuple[Object, ...]) -> tuple[Object, ...]:
        """Nodes removed by consolidation are drained together, in the planned order."""
        claims = [each for each in self._view.claims.of(cluster) if is_going(each) and _is_disrupted(each)]
        if claim is None or not _is_disrupted(claim) or len(claims) > TOGETHER:
            return evict
        nodes = (node["metadata"]["name"] for each in claims for node in self._pairs.nodes_of(cluster, each))
        now = self._clock.now()
        waiting = (pod for name in nodes for pod in drain(self._view.pods_on(cluster, name), None, now).evict)
        return in_turn(evict, filter(self._evictions.is_early, waiting))

    async def _detach(self, cluster: str, node: Object, claim: Object | None) -> tuple[float | None, Object | None]:
        now = self._clock.now()
        pending = await self._attachments(cluster, node)
        if not pending:
            return None, claim and with_condition(claim, VOLUMES_DETACHED, "True", rfc3339(now))
        deadline = termination_time(claim) if claim is not None else None
        if deadline is not None and now >= deadline:
            reason = "TerminationGracePeriodElapsed"
            return None, claim and with_condition(claim, VOLUMES_DETACHED, "False", rfc3339(now), reason, reason)
        said = f"Awaiting deletion of bound volumeattachments ({named(pending)})"
        reason = "AwaitingVolumeDetachment"
        self._say(cluster, node, NORMAL, reason, said)
        return LOOK_SECONDS, claim and with_condition(claim, VOLUMES_DETACHED, "Unknown", rfc3339(now), reason, reason)

    async def _attachments(self, cluster: str, node: Object) -> list[str]:
        client, name = self._homes.client(cluster), node["metadata"]["name"]
        try:
            attachments, _ = await client.list_all(ATTACHMENTS)
        except NotFound:
            return []  # the server does not serve VolumeAttachments
        if not pending_attachments(attachments, name, {}):
            return []
        staying = {}
        for namespace, volume_claim in claims_of_staying(self._view.pods_on(cluster, name), self._clock.now()):
            try:
                found = await client.get(VOLUME_CLAIMS, volume_claim, namespace)
            except NotFound:
                continue
            staying[str((found.get("spec") or {}).get("volumeName"))] = volume_claim
        return pending_attachments(attachments, name, staying)

    async def _end(self, cluster: str, claim: Object, new: Object) -> tuple[float | None, Object]:
        now = rfc3339(self._clock.now())
        try:
            await self._provider.delete(cluster, claim)
        except NodeClaimNotFound:
            return None, with_condition(new, INSTANCE_TERMINATING, "True", now)
        return MACHINE_SECONDS, with_condition(new, INSTANCE_TERMINATING, "True", now)

    def _say(self, cluster: str, node: Object, type_: str, reason: str, said: str) -> None:
        told, now = self._said.setdefault(node["metadata"]["uid"], {}), self._clock.now()
        before, at = told.get(reason, ("", 0.0))
        if said != before or now >= at + TOLD_AGAIN_SECONDS:
            told[reason] = said, now
            self._recorder.record(ABOUT_NODES, cluster, node, type_, reason, said)

    async def _write(self, cluster: str, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or new is old:
            return
        self._view.claims.learn(cluster, await self._homes.client(cluster).update(CLAIMS, new, "status"))
        if condition_is(new, DRAINED) and not condition_is(old, DRAINED):
            NODES_DRAINED.inc(cluster, nodepool=pool_of(new))

    async def _let_go(self, cluster: str, node: Object) -> None:
        metadata = node["metadata"]
        patch = {"finalizers": without_finalizer(node), "resourceVersion": metadata["resourceVersion"]}
        await self._patch(cluster, node, {"metadata": patch})
        now, pool = self._clock.now(), pool_of(node)
        NODES_TERMINATED.inc(cluster, nodepool=pool, zone=(metadata.get("labels") or {}).get(ZONE, ""))
        for seconds, since in ((NODES_TERMINATION_SECONDS, "deletion"), (NODES_LIFETIME_SECONDS, "creation")):
            seconds.observe(cluster, now - (parse_time(metadata.get(f"{since}Timestamp")) or now), nodepool=pool)

    async def _patch(self, cluster: str, node: Object, patch: Object) -> Object:
        written = await self._homes.client(cluster).merge(NODES, node["metadata"]["name"], patch)
        return self._view.nodes.learn(cluster, written)


def _is_disrupted(claim: Object) -> bool:
    return condition_is(claim, DISRUPTION_REASON)


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
