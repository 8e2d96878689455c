"""The loop that buys: pods the scheduler found no node for, a short while together, become NodeClaims.

Keys are logical clusters. A cluster without a NodePool is never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.fit.resources import amounts
from shoal.kinds.karpenter import LAUNCHED, READY, class_ref, is_going, template_spec
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists
from shoal.provision.cloudprovider import CloudProvider, Instance
from shoal.provision.homes import Homes
from shoal.provision.pods import is_provisionable
from shoal.provision.provisioning.claims import node_claim
from shoal.provision.provisioning.decide import NewClaim, Plan, Pool, plan
from shoal.provision.provisioning.places import places, used
from shoal.provision.telling import ABOUT_CLAIMS, ABOUT_PODS
from shoal.provision.view import CLAIMS, View
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import NORMAL, WARNING, Recorder

Object = dict[str, Any]

IDLE_SECONDS, LONGEST_SECONDS = 0.05, 1.0
"""A batch ends when no new pod came for the one, or after the other."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""After a NodeClaim that got no machine; doubled for each that follows."""
LOOK_AGAIN_SECONDS = 10.0
"""While pods wait for which nothing could be done."""


@dataclass(slots=True)
class _Window:
    first: float
    last: float
    seen: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Memory:
    """Of one cluster, by uid of its pods."""

    promised: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    look_again: float = 0.0
    failures: int = 0
    """NodeClaims in a row that got no machine."""
    not_before: float = 0.0


class Provisioning:
    def __init__(
        self,
        homes: Homes,
        view: View,
        provider: CloudProvider,
        recorder: Recorder,
        clock: Clock,
        idle: float = IDLE_SECONDS,
        longest: float = LONGEST_SECONDS,
    ) -> None:
        self._homes, self._view, self._provider, self._recorder, self._clock = homes, view, provider, recorder, clock
        self._idle, self._longest = idle, longest
        self._windows: dict[str, _Window] = {}
        self._memories: dict[str, _Memory] = {}
        self.loop: Loop[str] = Loop("provisioning", clock, self.reconcile)
        view.pods.listen(self._pod)
        view.pools.listen(self._pool)
        view.claims.listen(self._claim)
        provider.listen(self._told)

    def is_promised(self, cluster: str, claim: str, node: str) -> bool:
        """Whether pods are on their way to it."""
        memory = self._memories.get(cluster)
        return memory is not None and any(place in (claim, node) for place in memory.promised.values())

    def is_undecided(self, cluster: str) -> bool:
        """Whether pods wait of which it is not known yet where they go."""
        memory = self._memories.get(cluster, _Memory())
        uids = (pod["metadata"]["uid"] for pod in self._view.waiting(cluster))
        return any(uid not in memory.promised and uid not in memory.refused for uid in uids)

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_provisionable(new):
            if old is None or not is_provisionable(old):
                self._trigger(key[0], new["metadata"]["uid"])
            return
        memory = self._memories.get(key[0])
        gone = new or old
        if memory is not None and gone is not None:
            memory.promised.pop(gone["metadata"]["uid"], None)
            memory.refused.pop(gone["metadata"]["uid"], None)

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            if not self._view.pools.of(key[0]):
                self._memories.pop(key[0], None)
        elif old is None or old.get("spec") != new.get("spec") or condition_is(old, READY) != condition_is(new, READY):
            self._trigger(key[0])

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        memory = self._memories.get(key[0])
        if new is not None and condition_is(new, LAUNCHED):
            if memory is not None:
                memory.failures = 0
        elif new is None and old is not None and memory is not None and not condition_is(old, LAUNCHED):
            # What could not be had a moment ago is not asked for at once again.
            pause = min(FIRST_PAUSE * 2**memory.failures, LONGEST_PAUSE)
            memory.failures = min(memory.failures + 1, 20)
            memory.not_before = self._clock.monotonic() + pause
        if new is None or (is_going(new) and old is not None and not is_going(old)):
            self._trigger(key[0])

    def _told(self, cluster: str, claim: str) -> None:
        if not claim:
            self._trigger(cluster)

    def _trigger(self, cluster: str, uid: str = "") -> None:
        if not self._view.pools.of(cluster):
            return
        now = self._clock.monotonic()
        window = self._windows.get(cluster)
        if window is None:
            self._windows[cluster] = _Window(now, now, {uid})
            self.loop.queue.add_after(cluster, self._idle)
        elif uid and uid not in window.seen:
            window.seen.add(uid)
            window.last = now

    async def reconcile(self, cluster: str) -> float | None:
        now = self._clock.monotonic()
        window = self._windows.get(cluster)
        memory = self._memories.setdefault(cluster, _Memory())
        if window is not None:
            left = max(min(window.last + self._idle, window.first + self._longest), memory.not_before) - now
            if left > 0.001:
                return left
        elif now < memory.look_again - 0.001:
            return None
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        self._windows.pop(cluster, None)
        memory.look_again = 0.0  # should this fail, the next try is not too early
        pods = self._view.waiting(cluster)
        if not pods or not self._view.pools.of(cluster):
            return None
        await self._provision(cluster, pods, memory)
        memory.look_again = self._clock.monotonic() + LOOK_AGAIN_SECONDS
        return LOOK_AGAIN_SECONDS

    async def _provision(self, cluster: str, pods: list[Object], memory: _Memory) -> None:
        found = self._plan(cluster, pods, memory)
        pools = {pool["metadata"]["name"]: pool for pool in self._view.pools.of(cluster)}
        for claim in found.claims:
            await self._create(cluster, pools[claim.pool], claim)
            for pod in claim.pods:
                self._promise(cluster, memory, pod, f"nodeclaim/{claim.name}")
        for pod, kind, name in found.nominations:
            self._promise(cluster, memory, pod, f"{kind.lower()}/{name}")
        for pod, reason in found.failures:
            memory.promised.pop(pod["metadata"]["uid"], None)
            if memory.refused.get(pod["metadata"]["uid"]) != reason:
                memory.refused[pod["metadata"]["uid"]] = reason
                said = f"Failed to schedule pod, {reason}"
                self._recorder.record(ABOUT_PODS, cluster, pod, WARNING, "FailedScheduling", said)

    def _promise(self, cluster: str, memory: _Memory, pod: Object, place: str) -> None:
        uid, name = pod["metadata"]["uid"], place.partition("/")[2]
        memory.refused.pop(uid, None)
        if uid not in memory.promised:
            said = f"Pod should schedule on: {place}"
            self._recorder.record(ABOUT_PODS, cluster, pod, NORMAL, "Nominated", said)
        memory.promised[uid] = name

    def _plan(self, cluster: str, pods: list[Object], memory: _Memory) -> Plan:
        view = self._view
        claims, daemons = view.claims.of(cluster), view.daemon_sets.of(cluster)
        foreseen: dict[str, Instance] = {}
        for claim in claims:
            instance = self._provider.foresee(cluster, claim)
            if instance is not None:
                foreseen[claim["metadata"]["name"]] = instance
        found = places(
            view.nodes.of(cluster),
            claims,
            foreseen,
            daemons,
            lambda node: view.pods_on(cluster, node),
            view.requests,
        )
        return plan(pods, found, self._pools(cluster, claims, foreseen), daemons, memory.promised)

    def _pools(self, cluster: str, claims: list[Object], foreseen: dict[str, Instance]) -> list[Pool]:
        found = []
        for pool in self._view.pools.of(cluster):
            if is_going(pool) or not condition_is(pool, READY):
                continue
            node_class = self._view.classes.get(cluster, class_ref(template_spec(pool)).get("name", ""))
            types = self._provider.instance_types(cluster, node_class) if node_class is not None else []
            limits = amounts((pool.get("spec") or {}).get("limits"))
            found.append(Pool(pool, types, used(claims, pool["metadata"]["name"], foreseen), limits))
        return found

    async def _create(self, cluster: str, pool: Object, wanted: NewClaim) -> None:
        try:
            made = await self._homes.client(cluster).create(CLAIMS, node_claim(pool, wanted))
        except AlreadyExists:
            return  # made by an earlier look that was cut short, or one of the same name is just going
        self._view.claims.learn(cluster, made)
        asked = ", ".join(f"{key} {value}" for key, value in sorted(made["spec"]["resources"]["requests"].items()))
        said = f"Wanted for {len(wanted.pods)} pod(s) ({asked}), {wanted.types[0]} at {wanted.price:g} an hour"
        self._recorder.record(ABOUT_CLAIMS, cluster, made, NORMAL, "Created", said)
