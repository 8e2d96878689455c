"""Provisioning controller: unschedulable pods, batched for a short time, become NodeClaims.

Keys are logical clusters. A cluster without a NodePool is never reconciled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.kinds.karpenter import LAUNCHED, READY, is_going
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.homes import Homes
from shoal.provision.metrics import (
    IGNORED_PODS,
    NODECLAIMS_CREATED,
    PLAN_BOUND,
    PLAN_COST,
    PLAN_GAP_RATIO,
    PODS_DECISION_SECONDS,
    QUEUE_DEPTH,
    SCHEDULING_SECONDS,
    UNSCHEDULABLE_PODS,
)
from shoal.provision.pods import is_provisionable
from shoal.provision.provisioning.claims import free_name, node_claim
from shoal.provision.provisioning.looking import Look
from shoal.provision.provisioning.planning import Planner
from shoal.provision.settings import DEFAULT, Settings
from shoal.provision.simulation.model import NewClaim, Plan, Question
from shoal.provision.solver.pool import SolverPool
from shoal.provision.solver.report import Report
from shoal.provision.telling import ABOUT_CLAIMS, ABOUT_PODS
from shoal.provision.view import CLAIMS, View
from shoal.runtime.loop import Later, Loop
from shoal.runtime.recorder import NORMAL, WARNING, Recorder

Object = dict[str, Any]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Backoff after a NodeClaim that got no instance; doubled for each further failure."""
LOOK_AGAIN_SECONDS = 10.0
"""Retry interval while pods are pending that nothing could be done for."""
SETTLED_SECONDS = 0.5
"""Delay after a pod was bound before the remaining pending pods are planned again: the scheduler may fill nodes
differently than planned.
"""
AT_ONCE = 16
"""NodeClaims created in parallel."""
_WE = "provisioner"
"""Controller label in metrics."""


@dataclass(slots=True)
class _Window:
    first: float
    last: float
    seen: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Memory:
    """Bookkeeping of one cluster, by pod uid."""

    promised: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    """Time since which a pod is pending, for pods without a decision."""
    look_again: float = 0.0
    failures: int = 0
    """Consecutive NodeClaims that got no instance."""
    not_before: float = 0.0


class Provisioning:
    def __init__(
        self,
        homes: Homes,
        view: View,
        provider: CloudProvider,
        recorder: Recorder,
        clock: Clock,
        settings: Settings = DEFAULT,
        pool: SolverPool | None = None,
    ) -> None:
        """`solver`: process that computes plans for many pods. Without one they are computed here."""
        self._homes, self._view, self._provider, self._recorder, self._clock = homes, view, provider, recorder, clock
        self._idle, self._longest = settings.idle, settings.longest
        self._look, self._planner = Look(view, provider, settings), Planner(settings.planner, pool)
        self._windows: dict[str, _Window] = {}
        self._memories: dict[str, _Memory] = {}
        self.loop: Loop[str] = Loop("provisioning", clock, self.reconcile)
        view.pods.listen(self._pod)
        view.pools.listen(self._pool)
        view.claims.listen(self._claim)
        view.overlays.listen(self._overlay)
        provider.listen(self._told)

    def question(self, cluster: str, pods: Iterable[Object] | None = None) -> Question:
        """Builds the scheduling input of a cluster for these pods. None: pending pods and pods on nodes that are being
        deleted.
        """
        memory = self._memories.get(cluster, _Memory())
        return self._look.question(cluster, self._look.pods(cluster) if pods is None else pods, memory.promised)

    def is_promised(self, cluster: str, claim: str, node: str) -> bool:
        """True if pods are nominated to the NodeClaim or node."""
        memory = self._memories.get(cluster)
        return memory is not None and any(place in (claim, node) for place in memory.promised.values())

    def promise(self, cluster: str, places: Mapping[str, str]) -> None:
        """Records where pods of a deleted node are expected to go, by uid. Nothing is bought for them while they fit
        there.
        """
        self._memories.setdefault(cluster, _Memory()).promised.update(places)

    def is_undecided(self, cluster: str) -> bool:
        """True if pods are pending that no plan has covered yet."""
        memory = self._memories.get(cluster, _Memory())
        uids = (pod["metadata"]["uid"] for pod in self._view.waiting(cluster))
        return any(uid not in memory.promised and uid not in memory.refused for uid in uids)

    def _pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_provisionable(new):
            if old is None or not is_provisionable(old):
                self._trigger(key[0], new["metadata"]["uid"])
                if self._view.pools.of(key[0]):
                    memory = self._memories.setdefault(key[0], _Memory())
                    memory.seen.setdefault(new["metadata"]["uid"], self._clock.monotonic())
            return
        known_of = self._memories.get(key[0])
        gone = new or old
        if new is not None and old is not None and _node(new) == _node(old) != "":
            return  # it runs; if its node is being deleted, the pod is nominated to another one
        if known_of is not None and gone is not None:
            if new is not None and gone["metadata"]["uid"] in known_of.promised and known_of.look_again:
                known_of.look_again = self._clock.monotonic() + SETTLED_SECONDS
                self.loop.queue.add_after(key[0], SETTLED_SECONDS)
            for known in (known_of.promised, known_of.refused, known_of.seen):
                known.pop(gone["metadata"]["uid"], None)

    def _pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            if not self._view.pools.of(key[0]):
                self._memories.pop(key[0], None)
        elif old is None or old.get("spec") != new.get("spec") or condition_is(old, READY) != condition_is(new, READY):
            self._trigger(key[0])

    def _overlay(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._trigger(key[0])

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        memory = self._memories.get(key[0])
        if new is not None and condition_is(new, LAUNCHED):
            if memory is not None:
                memory.failures = 0
        elif new is None and old is not None and memory is not None and not condition_is(old, LAUNCHED):
            # Back off: capacity that was unavailable a moment ago is not requested again at once.
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
            return (
                memory.look_again - now
            )  # reconciling takes time, and a key is requeued relative to when it was taken
        if not (self._view.synced and self._provider.synced):
            raise Later("not everything has been listed yet")
        self._windows.pop(cluster, None)
        memory.look_again = 0.0  # if this attempt fails, the retry is not rejected as too early
        pods = self._look.pods(cluster)
        if not pods or not self._view.pools.of(cluster):
            return None
        await self._provision(cluster, pods, memory)
        memory.look_again = self._clock.monotonic() + LOOK_AGAIN_SECONDS
        return LOOK_AGAIN_SECONDS

    async def _provision(self, cluster: str, pods: list[Object], memory: _Memory) -> None:
        start = self._clock.monotonic()
        QUEUE_DEPTH.set(cluster, len(pods), controller=_WE)
        question = self.question(cluster, pods)
        found, report = await self._planner.plan(question)
        self._measure(cluster, question, found, report, self._clock.monotonic() - start)
        for claim in await self._buy(cluster, found.claims, report):
            for pod in claim.pods:
                self._promise(cluster, memory, pod, f"nodeclaim/{claim.name}")
        for pod, kind, name in found.nominations:
            self._promise(cluster, memory, pod, f"{kind.lower()}/{name}")
        # Pods that were bound or deleted meanwhile cause no further event: their nominations would stay for ever.
        still = {pod["metadata"]["uid"] for pod in self._look.pods(cluster)}
        for uid in [uid for uid in memory.promised if uid not in still]:
            del memory.promised[uid]
        for pod, reason in found.failures:
            self._refuse(cluster, memory, pod, reason)
        for pod, _ in found.waiting:
            memory.promised.pop(pod["metadata"]["uid"], None)

    async def _buy(self, cluster: str, claims: Sequence[NewClaim], report: Report | None) -> list[NewClaim]:
        """Creates the NodeClaims and returns them with their final names. Claims that are no longer needed, because the
        cluster changed during planning, are skipped.
        """
        pools = {pool["metadata"]["name"]: pool for pool in self._view.pools.of(cluster)}
        still = {pod["metadata"]["uid"] for pod in self._look.pods(cluster)}
        wanted = [
            replace(claim, name=name)
            for claim in claims
            if claim.pool in pools and any(pod["metadata"]["uid"] in still for pod in claim.pods)
            if (name := free_name(claim.name, lambda name: self._view.claims.get(cluster, name)))
        ]
        for start in range(0, len(wanted), AT_ONCE):
            batch = wanted[start : start + AT_ONCE]
            some = [self._create(cluster, pools[claim.pool], claim, report) for claim in batch]
            for answer in await asyncio.gather(*some, return_exceptions=True):
                if answer is not None:
                    raise answer
        return wanted

    def _measure(self, cluster: str, question: Question, found: Plan, report: Report | None, seconds: float) -> None:
        QUEUE_DEPTH.set(cluster, 0, controller=_WE)
        SCHEDULING_SECONDS.observe(cluster, seconds, controller=_WE)
        UNSCHEDULABLE_PODS.set(cluster, len(found.failures), controller=_WE)
        IGNORED_PODS.set(cluster, len(question.problems))
        if found.claims:
            PLAN_COST.set(cluster, found.cost)
            PLAN_BOUND.set(cluster, report.bound if report is not None else 0.0)
            PLAN_GAP_RATIO.set(cluster, report.gap if report is not None else 0.0)

    def _refuse(self, cluster: str, memory: _Memory, pod: Object, reason: str) -> None:
        uid = pod["metadata"]["uid"]
        memory.promised.pop(uid, None)
        if not is_provisionable(pod):
            return  # it still runs on its node
        self._decided(cluster, memory, uid)
        if memory.refused.get(uid) != reason:
            memory.refused[uid] = reason
            said = f"Failed to schedule pod, {reason}"
            self._recorder.record(ABOUT_PODS, cluster, pod, WARNING, "FailedScheduling", said)

    def _decided(self, cluster: str, memory: _Memory, uid: str) -> None:
        since = memory.seen.pop(uid, None)
        if since is not None:
            PODS_DECISION_SECONDS.observe(cluster, self._clock.monotonic() - since)

    def _promise(self, cluster: str, memory: _Memory, pod: Object, place: str) -> None:
        uid, name = pod["metadata"]["uid"], place.partition("/")[2]
        memory.refused.pop(uid, None)
        self._decided(cluster, memory, uid)
        if uid not in memory.promised:
            said = f"Pod should schedule on: {place}"
            self._recorder.record(ABOUT_PODS, cluster, pod, NORMAL, "Nominated", said)
        memory.promised[uid] = name

    async def _create(self, cluster: str, pool: Object, wanted: NewClaim, report: Report | None) -> None:
        try:
            made = await self._homes.client(cluster).create(CLAIMS, node_claim(pool, wanted))
        except AlreadyExists:
            return  # created by an earlier, interrupted attempt, or a claim of the same name is being deleted
        self._view.claims.learn(cluster, made)
        relaxed = "true" if wanted.min_values_relaxed else "false"
        NODECLAIMS_CREATED.inc(cluster, reason="provisioned", nodepool=wanted.pool, min_values_relaxed=relaxed)
        asked = ", ".join(f"{key} {value}" for key, value in sorted(made["spec"]["resources"]["requests"].items()))
        said = f"Wanted for {len(wanted.pods)} pod(s) ({asked}), {wanted.types[0]} at {wanted.price:g} an hour"
        said += f"; planned with it: {report.text}" if report is not None else ""
        self._recorder.record(ABOUT_CLAIMS, cluster, made, NORMAL, "Created", said)


def _node(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
