"""Provisioning controller: unschedulable pods, batched for a short time, become NodeClaims.

Keys are logical clusters. A cluster without a NodePool is never reconciled.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.client.reflector import Key
from shoal.clock import Clock
from shoal.kinds.karpenter.karpenter import LAUNCHED, READY, is_deleting, unready_pools_reason
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists, Forbidden, Invalid
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
    UNFINISHED_WORK_SECONDS,
    UNSCHEDULABLE_PODS,
)
from shoal.provision.pods import is_provisionable
from shoal.provision.provisioning.batch_window import MIN_REPLAN_SECONDS, ArrivalGaps, BatchWindow, is_full
from shoal.provision.provisioning.inputs import SchedulingInputBuilder
from shoal.provision.provisioning.node_planner import Planner
from shoal.provision.provisioning.nodeclaim import free_name, new_node_claim
from shoal.provision.provisioning.nominations import release_nomination
from shoal.provision.settings import FIXED_DEFAULTS, SettingsSource
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
NO_POOL_DELAY_SECONDS = 5.0
"""Delay before pods of a cluster without a NodePool are told so: the NodePool may be applied right after them."""
MAX_NO_POOL_EVENTS = 100
"""Pods of such a cluster that are told at once."""
NO_POOL = "no NodePool exists, so no node is bought: apply a NodePool with a node class"
RESCHEDULE_DELAY_SECONDS = 0.5
"""Delay after a pod was bound before the remaining pending pods are planned again: the scheduler may fill nodes
differently than planned.
"""
MAX_PARALLEL_CREATES = 16
"""NodeClaims created in parallel."""
_CONTROLLER = "provisioner"
"""Controller label in metrics."""


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
    arrivals: ArrivalGaps = field(default_factory=ArrivalGaps)


class ProvisioningReconciler:
    def __init__(
        self,
        resolver: ManagementResolver,
        state: ClusterState,
        provider: CloudProvider,
        recorder: EventRecorder,
        clock: Clock,
        settings: SettingsSource = FIXED_DEFAULTS,
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
        self._settings, self._solver = settings, solver
        self._inputs = SchedulingInputBuilder(state, provider, settings)
        self._windows: dict[str, BatchWindow] = {}
        self._records: dict[str, _ClusterRecord] = {}
        self._planning_since: dict[str, float] = {}
        """Clusters whose plan is being computed."""
        self.controller: Controller[str] = Controller("provisioning", clock, self.reconcile)
        self.controller.sources.append(self.serve_metrics)
        state.pods.add_event_handler(self._on_pod)
        state.node_pools.add_event_handler(self._on_pool)
        state.node_claims.add_event_handler(self._on_claim)
        state.node_overlays.add_event_handler(self._on_overlay)
        provider.add_event_handler(self._on_provider_change)
        settings.add_event_handler(self._trigger)

    def scheduling_input(self, cluster: str, pods: Iterable[Object] | None = None) -> SchedulingInput:
        """Builds the scheduling input of a cluster for these pods. None: pending pods and pods on nodes that are being
        deleted.
        """
        record = self._records.get(cluster, _ClusterRecord())
        return self._inputs.build(
            cluster, self._pods_to_schedule(cluster) if pods is None else pods, record.nominations
        )

    async def serve_metrics(self) -> None:
        """Runs until it is cancelled."""
        with UNFINISHED_WORK_SECONDS.registration(self._unfinished_work):
            await asyncio.Event().wait()

    def _unfinished_work(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        now = self._clock.monotonic()
        for cluster, since in self._planning_since.items():
            yield cluster, {"controller": _CONTROLLER}, now - since

    def _pods_to_schedule(self, cluster: str) -> list[Object]:
        return self._inputs.pods_to_schedule(cluster, self._clock.now())

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
            release_nomination(known_record.nominations, pod["metadata"]["uid"], self._places(key[0], new))
            for by_uid in (known_record.failures, known_record.pending_since):
                by_uid.pop(pod["metadata"]["uid"], None)

    def _places(self, cluster: str, pod: Object | None) -> tuple[str, ...]:
        """Names of the node that a pod is bound to, and of its NodeClaim."""
        node = self._state.nodes.get((cluster, "", _node_name(pod))) if pod is not None else None
        claim = self._state.claim_of(cluster, node)
        return tuple(obj["metadata"]["name"] for obj in (node, claim) if obj is not None)

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
            if uid:
                self.controller.queue.add_after(cluster, NO_POOL_DELAY_SECONDS)
            return
        now, settings = self._clock.monotonic(), self._settings.settings_of(cluster)
        if uid:
            self._records.setdefault(cluster, _ClusterRecord()).arrivals.record(now, settings.batch_max_seconds)
        window = self._windows.get(cluster)
        if window is None:
            self._windows[cluster] = BatchWindow(now, now, {uid})
            self.controller.queue.add_after(cluster, settings.batch_idle_seconds)
        else:
            window.add(uid, now)

    async def reconcile(self, cluster: str) -> float | None:
        now = self._clock.monotonic()
        window = self._windows.get(cluster)
        record = self._records.setdefault(cluster, _ClusterRecord())
        if window is not None:
            settings = self._settings.settings_of(cluster)
            end = window.end(settings.batch_idle_seconds, settings.batch_max_seconds, record.arrivals)
            remaining = max(end, record.not_before) - now
            if remaining > 0.001:
                Planner(settings.planner, self._solver).prepare()
                return remaining
        elif now < record.retry_at - 0.001:
            return record.retry_at - now  # reconciling takes time, and a key is requeued relative to when it was taken
        if not (self._state.has_synced and self._provider.has_synced):
            raise RequeueError("informers have not synced yet")
        self._windows.pop(cluster, None)
        record.retry_at = 0.0  # if this attempt fails, the retry is not rejected as too early
        pods = self._pods_to_schedule(cluster)
        _drop_nominations(record, pods)
        pools = self._state.node_pools.by_index(by_cluster, cluster)
        if not pools:
            for pod in pods[:MAX_NO_POOL_EVENTS]:
                self._record_failure(cluster, record, pod, NO_POOL)
        if not pods and not pools:
            self._records.pop(cluster, None)
        if not pods or not pools:
            return None
        await self._provision(cluster, pods, record)
        record.retry_at = self._clock.monotonic() + RETRY_SECONDS
        return MIN_REPLAN_SECONDS if cluster in self._windows else RETRY_SECONDS

    async def _provision(self, cluster: str, pods: list[Object], record: _ClusterRecord) -> None:
        start = self._clock.monotonic()
        QUEUE_DEPTH.set(cluster, len(pods), controller=_CONTROLLER)
        inputs = self.scheduling_input(cluster, pods)
        planner = Planner(self._settings.settings_of(cluster).planner, self._solver)
        self._planning_since[cluster] = start
        try:
            plan, report = await planner.plan(inputs)
        finally:
            del self._planning_since[cluster]
        self._record_metrics(cluster, inputs, plan, report, self._clock.monotonic() - start)
        launched = self._hold_back(cluster, inputs, plan.new_node_claims, record)
        for claim, error in await self._create_claims(cluster, launched, report):
            for pod in claim.pods:
                if error:
                    self._record_failure(cluster, record, pod, error)
                else:
                    self._record_nomination(cluster, record, pod, f"nodeclaim/{claim.name}")
        for pod, kind, name in plan.nominations:
            self._record_nomination(cluster, record, pod, f"{kind.lower()}/{name}")
        # Pods that were bound or deleted meanwhile cause no further event: their nominations would stay for ever.
        _drop_nominations(record, self._pods_to_schedule(cluster))
        unready = (
            "" if inputs.node_pools else unready_pools_reason(self._state.node_pools.by_index(by_cluster, cluster))
        )
        for pod, reason in plan.failures:
            self._record_failure(cluster, record, pod, unready or reason)
        for pod, _ in plan.awaiting_reservation:
            record.nominations.pop(pod["metadata"]["uid"], None)

    def _hold_back(
        self, cluster: str, inputs: SchedulingInput, claims: Sequence[NewNodeClaim], record: _ClusterRecord
    ) -> list[NewNodeClaim]:
        """Returns the claims to launch now. The pods of the others are planned again with those still to come."""
        now, longest = self._clock.monotonic(), self._settings.settings_of(cluster).batch_max_seconds
        if not record.arrivals.expects_more(now):
            return list(claims)
        allocatable = {(pool.name, kind.name): kind.allocatable for pool in inputs.node_pools for kind in pool.types}
        launched: list[NewNodeClaim] = []
        for claim in claims:
            # A pod that was decided on before, or runs, does not wait.
            arrivals = [record.pending_since.get(pod["metadata"]["uid"], -math.inf) for pod in claim.pods]
            if is_full(claim, allocatable[claim.pool, claim.types[0]]) or now >= min(arrivals) + longest:
                launched.append(claim)
            else:
                window = self._windows.setdefault(cluster, BatchWindow(now, now))
                window.extend_for(arrivals, now, longest)
        return launched

    async def _create_claims(
        self, cluster: str, claims: Sequence[NewNodeClaim], report: OptimizationReport | None
    ) -> list[tuple[NewNodeClaim, str]]:
        """Creates the NodeClaims and returns them with their final names, each with the error of the API server that
        rejected it, or "". Claims that are no longer needed, because the cluster changed during planning, are skipped.
        """
        pools = {pool["metadata"]["name"]: pool for pool in self._state.node_pools.by_index(by_cluster, cluster)}
        pending_uids = {pod["metadata"]["uid"] for pod in self._pods_to_schedule(cluster)}
        needed = [
            replace(claim, name=name)
            for claim in claims
            if claim.pool in pools and any(pod["metadata"]["uid"] in pending_uids for pod in claim.pods)
            if (name := free_name(claim.name, lambda name: self._state.node_claims.get((cluster, "", name))))
        ]
        errors: list[str] = []
        for start in range(0, len(needed), MAX_PARALLEL_CREATES):
            batch = needed[start : start + MAX_PARALLEL_CREATES]
            creations = [self._create(cluster, pools[claim.pool], claim, report) for claim in batch]
            for result in await asyncio.gather(*creations, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
                errors.append(result)
        return list(zip(needed, errors, strict=True))

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
    ) -> str:
        """Returns why the API server rejected the NodeClaim; empty if it did not."""
        try:
            created = await self._resolver.client(cluster).create(NODE_CLAIMS, new_node_claim(pool, new_claim))
        except AlreadyExists:
            return ""  # created by an earlier, interrupted attempt, or a claim of the same name is being deleted
        except (Forbidden, Invalid) as error:
            return f"the NodeClaim was rejected: {error.message}"
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
        return ""


def _drop_nominations(record: _ClusterRecord, pods: Iterable[Object]) -> None:
    """Keeps the nominations of these pods only."""
    uids = {pod["metadata"]["uid"] for pod in pods}
    record.nominations = {uid: name for uid, name in record.nominations.items() if uid in uids}


def _node_name(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
