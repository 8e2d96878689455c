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
from shoal.kinds.karpenter.karpenter import LAUNCHED, READY, is_deleting
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists
from shoal.provision.cloudprovider.types import CloudProvider
from shoal.provision.events import NODE_CLAIM_EVENTS, POD_EVENTS
from shoal.provision.management import ManagementResolver
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
from shoal.provision.provisioning.inputs import SchedulingInputBuilder
from shoal.provision.provisioning.node_planner import Planner
from shoal.provision.provisioning.nodeclaim import free_name, new_node_claim
from shoal.provision.settings import DEFAULT_SETTINGS, ProvisionerSettings
from shoal.provision.simulation.model import NewNodeClaim, Results, SchedulingInput
from shoal.provision.solver.process import SolverProcess
from shoal.provision.solver.report import OptimizationReport
from shoal.provision.state import NODE_CLAIMS, ClusterState
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]

BASE_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 60.0
"""Backoff after a NodeClaim that got no instance; doubled for each further failure."""
RETRY_SECONDS = 10.0
"""Retry interval while pods are pending that nothing could be done for."""
RESCHEDULE_DELAY_SECONDS = 0.5
"""Delay after a pod was bound before the remaining pending pods are planned again: the scheduler may fill nodes
differently than planned.
"""
MAX_PARALLEL_CREATES = 16
"""NodeClaims created in parallel."""
_CONTROLLER = "provisioner"
"""Controller label in metrics."""


@dataclass(slots=True)
class _BatchWindow:
    opened: float
    last_pod: float
    pod_uids: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _ClusterRecord:
    """Bookkeeping of one cluster, by pod uid."""

    nominations: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    pending_since: dict[str, float] = field(default_factory=dict)
    """Time since which a pod is pending, for pods without a decision."""
    retry_at: float = 0.0
    launch_failures: int = 0
    """Consecutive NodeClaims that got no instance."""
    not_before: float = 0.0


class ProvisioningReconciler:
    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        provider: CloudProvider,
        recorder: EventRecorder,
        clock: Clock,
        settings: ProvisionerSettings = DEFAULT_SETTINGS,
        solver: SolverProcess | None = None,
    ) -> None:
        """`solver`: process that computes plans for many pods. Without one they are computed here."""
        self._resolver, self._state, self._provider, self._recorder, self._clock = (
            resolver,
            state,
            provider,
            recorder,
            clock,
        )
        self._batch_idle, self._batch_max = settings.batch_idle_seconds, settings.batch_max_seconds
        self._inputs, self._planner = (
            SchedulingInputBuilder(state, provider, settings),
            Planner(settings.planner, solver),
        )
        self._windows: dict[str, _BatchWindow] = {}
        self._records: dict[str, _ClusterRecord] = {}
        self.controller: Controller[str] = Controller("provisioning", clock, self.reconcile)
        state.pods.add_event_handler(self._on_pod)
        state.node_pools.add_event_handler(self._on_pool)
        state.node_claims.add_event_handler(self._on_claim)
        state.node_overlays.add_event_handler(self._on_overlay)
        provider.add_event_handler(self._on_provider_change)

    def scheduling_input(self, cluster: str, pods: Iterable[Object] | None = None) -> SchedulingInput:
        """Builds the scheduling input of a cluster for these pods. None: pending pods and pods on nodes that are being
        deleted.
        """
        record = self._records.get(cluster, _ClusterRecord())
        return self._inputs.build(
            cluster, self._inputs.pods_to_schedule(cluster) if pods is None else pods, record.nominations
        )

    def is_nominated(self, cluster: str, claim: str, node: str) -> bool:
        """True if pods are nominated to the NodeClaim or node."""
        record = self._records.get(cluster)
        return record is not None and any(place in (claim, node) for place in record.nominations.values())

    def nominate(self, cluster: str, nominations: Mapping[str, str]) -> None:
        """Records where pods of a deleted node are expected to go, by uid. Nothing is bought for them while they fit
        there.
        """
        self._records.setdefault(cluster, _ClusterRecord()).nominations.update(nominations)

    def has_unplanned_pods(self, cluster: str) -> bool:
        """True if pods are pending that no plan has covered yet."""
        record = self._records.get(cluster, _ClusterRecord())
        uids = (pod["metadata"]["uid"] for pod in self._state.pending_pods(cluster))
        return any(uid not in record.nominations and uid not in record.failures for uid in uids)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_provisionable(new):
            if old is None or not is_provisionable(old):
                self._trigger(key[0], new["metadata"]["uid"])
                if self._state.node_pools.by_index(by_cluster, key[0]):
                    record = self._records.setdefault(key[0], _ClusterRecord())
                    record.pending_since.setdefault(new["metadata"]["uid"], self._clock.monotonic())
            return
        known_record = self._records.get(key[0])
        pod = new or old
        if new is not None and old is not None and _node_name(new) == _node_name(old) != "":
            return  # it runs; if its node is being deleted, the pod is nominated to another one
        if known_record is not None and pod is not None:
            if new is not None and pod["metadata"]["uid"] in known_record.nominations and known_record.retry_at:
                known_record.retry_at = self._clock.monotonic() + RESCHEDULE_DELAY_SECONDS
                self.controller.queue.add_after(key[0], RESCHEDULE_DELAY_SECONDS)
            for by_uid in (known_record.nominations, known_record.failures, known_record.pending_since):
                by_uid.pop(pod["metadata"]["uid"], None)

    def _on_pool(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            if not self._state.node_pools.by_index(by_cluster, key[0]):
                self._records.pop(key[0], None)
        elif old is None or old.get("spec") != new.get("spec") or condition_is(old, READY) != condition_is(new, READY):
            self._trigger(key[0])

    def _on_overlay(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._trigger(key[0])

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        record = self._records.get(key[0])
        if new is not None and condition_is(new, LAUNCHED):
            if record is not None:
                record.launch_failures = 0
        elif new is None and old is not None and record is not None and not condition_is(old, LAUNCHED):
            # Back off: capacity that was unavailable a moment ago is not requested again at once.
            pause = min(BASE_BACKOFF_SECONDS * 2**record.launch_failures, MAX_BACKOFF_SECONDS)
            record.launch_failures = min(record.launch_failures + 1, 20)
            record.not_before = self._clock.monotonic() + pause
        if new is None or (is_deleting(new) and old is not None and not is_deleting(old)):
            self._trigger(key[0])

    def _on_provider_change(self, cluster: str, claim: str) -> None:
        if not claim:
            self._trigger(cluster)

    def _trigger(self, cluster: str, uid: str = "") -> None:
        if not self._state.node_pools.by_index(by_cluster, cluster):
            return
        now = self._clock.monotonic()
        window = self._windows.get(cluster)
        if window is None:
            self._windows[cluster] = _BatchWindow(now, now, {uid})
            self.controller.queue.add_after(cluster, self._batch_idle)
        elif uid and uid not in window.pod_uids:
            window.pod_uids.add(uid)
            window.last_pod = now

    async def reconcile(self, cluster: str) -> float | None:
        now = self._clock.monotonic()
        window = self._windows.get(cluster)
        record = self._records.setdefault(cluster, _ClusterRecord())
        if window is not None:
            remaining = (
                max(min(window.last_pod + self._batch_idle, window.opened + self._batch_max), record.not_before) - now
            )
            if remaining > 0.001:
                return remaining
        elif now < record.retry_at - 0.001:
            return record.retry_at - now  # reconciling takes time, and a key is requeued relative to when it was taken
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        self._windows.pop(cluster, None)
        record.retry_at = 0.0  # if this attempt fails, the retry is not rejected as too early
        pods = self._inputs.pods_to_schedule(cluster)
        if not pods or not self._state.node_pools.by_index(by_cluster, cluster):
            return None
        await self._provision(cluster, pods, record)
        record.retry_at = self._clock.monotonic() + RETRY_SECONDS
        return RETRY_SECONDS

    async def _provision(self, cluster: str, pods: list[Object], record: _ClusterRecord) -> None:
        start = self._clock.monotonic()
        QUEUE_DEPTH.set(cluster, len(pods), controller=_CONTROLLER)
        inputs = self.scheduling_input(cluster, pods)
        plan, report = await self._planner.plan(inputs)
        self._record_metrics(cluster, inputs, plan, report, self._clock.monotonic() - start)
        for claim in await self._create_claims(cluster, plan.new_node_claims, report):
            for pod in claim.pods:
                self._record_nomination(cluster, record, pod, f"nodeclaim/{claim.name}")
        for pod, kind, name in plan.nominations:
            self._record_nomination(cluster, record, pod, f"{kind.lower()}/{name}")
        # Pods that were bound or deleted meanwhile cause no further event: their nominations would stay for ever.
        pending_uids = {pod["metadata"]["uid"] for pod in self._inputs.pods_to_schedule(cluster)}
        for uid in [uid for uid in record.nominations if uid not in pending_uids]:
            del record.nominations[uid]
        for pod, reason in plan.failures:
            self._record_failure(cluster, record, pod, reason)
        for pod, _ in plan.awaiting_reservation:
            record.nominations.pop(pod["metadata"]["uid"], None)

    async def _create_claims(
        self, cluster: str, claims: Sequence[NewNodeClaim], report: OptimizationReport | None
    ) -> list[NewNodeClaim]:
        """Creates the NodeClaims and returns them with their final names. Claims that are no longer needed, because the
        cluster changed during planning, are skipped.
        """
        pools = {pool["metadata"]["name"]: pool for pool in self._state.node_pools.by_index(by_cluster, cluster)}
        pending_uids = {pod["metadata"]["uid"] for pod in self._inputs.pods_to_schedule(cluster)}
        needed = [
            replace(claim, name=name)
            for claim in claims
            if claim.pool in pools and any(pod["metadata"]["uid"] in pending_uids for pod in claim.pods)
            if (name := free_name(claim.name, lambda name: self._state.node_claims.get((cluster, "", name))))
        ]
        for start in range(0, len(needed), MAX_PARALLEL_CREATES):
            batch = needed[start : start + MAX_PARALLEL_CREATES]
            creations = [self._create(cluster, pools[claim.pool], claim, report) for claim in batch]
            for error in await asyncio.gather(*creations, return_exceptions=True):
                if error is not None:
                    raise error
        return needed

    def _record_metrics(
        self, cluster: str, inputs: SchedulingInput, plan: Results, report: OptimizationReport | None, seconds: float
    ) -> None:
        QUEUE_DEPTH.set(cluster, 0, controller=_CONTROLLER)
        SCHEDULING_SECONDS.observe(cluster, seconds, controller=_CONTROLLER)
        UNSCHEDULABLE_PODS.set(cluster, len(plan.failures), controller=_CONTROLLER)
        IGNORED_PODS.set(cluster, len(inputs.pod_errors))
        if plan.new_node_claims:
            PLAN_COST.set(cluster, plan.cost)
            PLAN_BOUND.set(cluster, report.bound if report is not None else 0.0)
            PLAN_GAP_RATIO.set(cluster, report.gap if report is not None else 0.0)

    def _record_failure(self, cluster: str, record: _ClusterRecord, pod: Object, reason: str) -> None:
        uid = pod["metadata"]["uid"]
        record.nominations.pop(uid, None)
        if not is_provisionable(pod):
            return  # it still runs on its node
        self._observe_decision(cluster, record, uid)
        if record.failures.get(uid) != reason:
            record.failures[uid] = reason
            message = f"Failed to schedule pod, {reason}"
            self._recorder.record(POD_EVENTS, cluster, pod, WARNING, "FailedScheduling", message)

    def _observe_decision(self, cluster: str, record: _ClusterRecord, uid: str) -> None:
        since = record.pending_since.pop(uid, None)
        if since is not None:
            PODS_DECISION_SECONDS.observe(cluster, self._clock.monotonic() - since)

    def _record_nomination(self, cluster: str, record: _ClusterRecord, pod: Object, target: str) -> None:
        uid, name = pod["metadata"]["uid"], target.partition("/")[2]
        record.failures.pop(uid, None)
        self._observe_decision(cluster, record, uid)
        if uid not in record.nominations:
            message = f"Pod should schedule on: {target}"
            self._recorder.record(POD_EVENTS, cluster, pod, NORMAL, "Nominated", message)
        record.nominations[uid] = name

    async def _create(
        self, cluster: str, pool: Object, new_claim: NewNodeClaim, report: OptimizationReport | None
    ) -> None:
        try:
            created = await self._resolver.client(cluster).create(NODE_CLAIMS, new_node_claim(pool, new_claim))
        except AlreadyExists:
            return  # created by an earlier, interrupted attempt, or a claim of the same name is being deleted
        self._state.node_claims.observe_write(created, cluster)
        relaxed = "true" if new_claim.min_values_relaxed else "false"
        NODECLAIMS_CREATED.inc(cluster, reason="provisioned", nodepool=new_claim.pool, min_values_relaxed=relaxed)
        requests = ", ".join(
            f"{key} {value}" for key, value in sorted(created["spec"]["resources"]["requests"].items())
        )
        message = (
            f"Created for {len(new_claim.pods)} pod(s) ({requests}): "
            f"{new_claim.types[0]} at {new_claim.price:g} per hour"
        )
        message += f"; whole plan: {report.summary}" if report is not None else ""
        self._recorder.record(NODE_CLAIM_EVENTS, cluster, created, NORMAL, "Created", message)


def _node_name(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
