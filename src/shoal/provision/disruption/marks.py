"""Maintains the Consolidatable and Drifted conditions and lastPodEventTime of NodeClaims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import INITIALIZED, LAUNCHED, class_ref, is_going, pool_of, provider_id, template_spec
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time
from shoal.objects.errors import NotFound
from shoal.provision.cloudprovider import CloudProvider, InstanceType, NodeClaimNotFound, UnevaluatedNodePool
from shoal.provision.disruption.candidates import pod_event_time
from shoal.provision.disruption.drift import consolidate_after, drift_of, is_settled, with_consolidatable, with_drift
from shoal.provision.disruption.evicting import is_active
from shoal.provision.homes import Homes
from shoal.provision.pods import is_of_the_node
from shoal.provision.view import CLAIMS, View, provider_id_of
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster and name."""

DRIFT_SECONDS = 300.0
"""Resync interval of drift without an event."""
EVENT_SECONDS = 10.0
"""Delay before lastPodEventTime alone is written."""


class Marks:
    def __init__(self, homes: Homes, view: View, provider: CloudProvider, clock: Clock) -> None:
        self._homes, self._view, self._provider, self._clock = homes, view, provider, clock
        self.loop: Loop[Place] = Loop("disruption-marks", clock, self.reconcile)
        self._events: dict[Place, float] = {}
        """Time of the last pod binding or removal, by cluster and node."""
        self._claim_of: dict[Place, str] = {}
        """By cluster and provider id."""
        self._known: dict[Place, tuple[object, ...]] = {}
        """Fingerprint of each NodeClaim. Own writes observed by the informer would hide changes."""
        view.claims.listen(self._claim)
        view.pods.listen(self._pod)
        view.nodes.listen(self._node)
        view.pools.listen(self._pool)
        provider.listen(self._told)

    def event(self, cluster: str, claim: Object) -> float:
        """Time of the last pod binding or removal on its node."""
        node = self._view.node_of(cluster, provider_id(claim))
        seen = self._events.get((cluster, node["metadata"]["name"]), 0.0) if node is not None else 0.0
        return max(seen, pod_event_time(claim))

    def types(self, cluster: str, pool: Object) -> list[InstanceType]:
        node_class = self._view.classes.get(cluster, class_ref(template_spec(pool)).get("name", ""))
        try:
            return self._provider.instance_types(cluster, node_class) if node_class is not None else []
        except UnevaluatedNodePool:
            return []

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        place = (key[0], key[2])
        if new is None:
            self._claim_of.pop((key[0], provider_id(old or {})), None)
            self._known.pop(place, None)
            return
        if provider_id(new):
            self._claim_of[key[0], provider_id(new)] = key[2]
        if self._known.get(place) != _seen(new):
            self._known[place] = _seen(new)
            self.loop.queue.add(place)

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = _stay(old), _stay(new)
        for name in {before, after} - {""} if before != after else ():
            # Pods of the initial list have been there since they were bound.
            bound = parse_time((get_condition(new or {}, "PodScheduled") or {}).get("lastTransitionTime"))
            when = self._clock.now() if self._view.pods.synced else bound or 0.0
            self._events[key[0], name] = max(when, self._events.get((key[0], name), 0.0))
            claim = self._claim_of.get((key[0], provider_id_of(self._view.nodes.get(key[0], name))))
            if claim is not None:
                self.loop.queue.add((key[0], claim))

    def _node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._events.pop((key[0], key[2]), None)

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._add(key[0], (claim for claim in self._view.claims.of(key[0]) if pool_of(claim) == key[2]))

    def _told(self, cluster: str, claim: str) -> None:
        if claim:
            self.loop.queue.add((cluster, claim))
        else:
            self._add(cluster, self._view.claims.of(cluster))

    def _add(self, cluster: str, claims: Iterable[Object]) -> None:
        for claim in claims:
            self.loop.queue.add((cluster, claim["metadata"]["name"]))

    async def reconcile(self, key: Place) -> float | None:
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        cluster, now = key[0], self._clock.now()
        claim = self._view.claims.get(*key)
        pool = self._view.pools.get(cluster, pool_of(claim)) if claim is not None else None
        if claim is None or pool is None or is_going(claim) or not condition_is(claim, LAUNCHED):
            return None
        event = self.event(cluster, claim)
        new = with_drift(claim, self._drift(cluster, pool, claim, now), now)
        new = with_consolidatable(new, pool, event, now)
        written = pod_event_time(claim)
        late = condition_is(claim, INITIALIZED) and int(event) > int(written)
        if late and (new is not claim or now >= event + EVENT_SECONDS):
            new = {**new, "status": {**new["status"], "lastPodEventTime": rfc3339(event)}}
            late = False
        if new is not claim:
            try:
                self._view.claims.learn(cluster, await self._homes.client(cluster).update(CLAIMS, new, "status"))
            except NotFound:
                return None
        return min(self._soon(pool, event, now, late=late))

    def _soon(self, pool: Object, event: float, now: float, *, late: bool) -> list[float]:
        after = consolidate_after(pool)
        found = [DRIFT_SECONDS]
        if after is not None and now < event + after:
            found.append(event + after - now + 0.001)
        if late:
            found.append(event + EVENT_SECONDS - now + 0.001)
        return found

    def _drift(self, cluster: str, pool: Object, claim: Object, now: float) -> str:
        try:
            types = self.types(cluster, pool) if is_settled(claim, now) else ()
            reason = drift_of(pool, claim, types, now)
            return reason or self._provider.is_drifted(cluster, claim)
        except NodeClaimNotFound:
            return ""


def _seen(claim: Object) -> tuple[object, ...]:
    """Fields of a NodeClaim that this controller reads, without those it writes."""
    metadata = claim["metadata"]
    stations = (condition_is(claim, each) for each in (LAUNCHED, INITIALIZED))
    return (metadata.get("labels"), metadata.get("annotations"), claim.get("spec"), provider_id(claim), *stations)


def _stay(pod: Object | None) -> str:
    """Node on which the pod uses resources."""
    if pod is None or not is_active(pod) or is_of_the_node(pod):
        return ""
    return str(pod["spec"].get("nodeName") or "")
