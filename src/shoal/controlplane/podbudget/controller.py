"""Updates the status of PodDisruptionBudgets and clears stale DisruptionTarget conditions of pods."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.cost_throttle import CostThrottle
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podbudget.decide import (
    DISRUPTION_TARGET,
    UNMANAGED_MESSAGE,
    PDBStatus,
    needs_scales,
    pdb_status,
    seconds_until_stale,
    sync_failed_status,
    unmanaged_pods,
)
from shoal.controlplane.podbudget.scales import DEPLOYMENTS, REPLICA_SETS, ControllerScaleFinder, ScaleUnknown
from shoal.kinds.core.pod.status import is_ready
from shoal.objects.errors import NotFound
from shoal.objects.ownership import controller_of, selector_of
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_namespace

Object = dict[str, Any]

PDBS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
PODS = GroupVersionResource("", "v1", "pods")
PDB_EVENT_SOURCE = EventSource("controllermanager", "policy/v1", "PodDisruptionBudget")
POD_EVENT_SOURCE = EventSource("controllermanager", "v1", "Pod")
EXPECTATIONS_RETRY_SECONDS = 5.0
REQUEUE_MARGIN_SECONDS = 0.01
"""Added to a requeue time, so that the time has passed then."""


class DisruptionReconciler:
    """Keys are budgets."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        wildcard = client.in_cluster("*")
        self._budgets = budgets = Informer(wildcard, PDBS, clock, indexers=(by_namespace,))
        self._pods = pods = Informer(wildcard, PODS, clock, indexers=(by_namespace,))
        deployments, replica_sets = Informer(wildcard, DEPLOYMENTS, clock), Informer(wildcard, REPLICA_SETS, clock)
        self._scales = ControllerScaleFinder(client, deployments, replica_sets)
        self.controller: Controller[Key] = Controller("disruption-budgets", clock, self.reconcile)
        self._throttle = CostThrottle(clock, self.controller.queue)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, budgets, pods)
        self._status_expectations: WriteExpectations[Key] = WriteExpectations(budgets)
        self.controller.watch(budgets, lambda key, old, new: self.controller.queue.add(key))
        self.controller.watch(pods, self._on_pod)
        self.controller.sources += [deployments.run, replica_sets.run]

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        budgets = self._budgets.by_index(by_namespace, key[:2])
        if not budgets or _pod_facts(old) == _pod_facts(new):
            return
        labels = [pod["metadata"].get("labels") for pod in (old, new) if pod is not None]
        for budget in budgets:
            selector = selector_of(budget)
            if any(selector.matches(one) for one in labels):
                self._throttle.enqueue(key_of(budget))

    async def reconcile(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            self._throttle.forget(key)
            self._status_expectations.forget(key)
            return None
        if not self._cache_sync.allow(key) or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        if not self._status_expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        selector, namespace_pods = selector_of(budget), self._pods.by_index(by_namespace, key[:2])
        pods = [pod for pod in namespace_pods if selector.matches(pod["metadata"].get("labels"))]
        self._throttle.record_cost(key, len(namespace_pods))
        now = self._clock.now()
        try:
            scales = await self._scales.for_pods(key, pods) if needs_scales(budget) else {}
        except ScaleUnknown as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            await self._write_status(
                key,
                budget,
                sync_failed_status(budget, str(error), rfc3339(now)),
                "CalculateExpectedPodCountFailed",
                message,
            )
            return None
        result = pdb_status(budget, pods, scales, now, rfc3339(now))
        self._record_events(key, budget, pods, result)
        await self._write_status(key, budget, result.status)
        return None if result.recheck_after is None else result.recheck_after + REQUEUE_MARGIN_SECONDS

    def _record_events(self, key: Key, budget: Object, pods: list[Object], result: PDBStatus) -> None:
        """Records Events only if the status changed."""
        if result.status != budget.get("status"):
            if not pods:
                self._recorder.record(PDB_EVENT_SOURCE, key[0], budget, "Normal", "NoPods", "No matching pods found")
            if unmanaged_pods(budget, pods):
                message = UNMANAGED_MESSAGE.format(selector_of(budget))
                self._recorder.record(PDB_EVENT_SOURCE, key[0], budget, "Warning", "UnmanagedPods", message)
        for pod in result.overdue:
            message = f"Pod was expected by PDB {key[1]}/{key[2]} to be deleted but it wasn't"
            self._recorder.record(POD_EVENT_SOURCE, key[0], pod, "Warning", "NotDeleted", message)

    async def _write_status(
        self, key: Key, budget: Object, status: Object, reason: str = "", message: str = ""
    ) -> None:
        if status == budget.get("status"):
            return
        if reason:
            self._recorder.record(PDB_EVENT_SOURCE, key[0], budget, "Warning", reason, message)
        try:
            self._status_expectations.expect(
                key, await self._client.in_cluster(key[0]).update(PDBS, {**budget, "status": status}, "status")
            )
        except NotFound:
            return


class StaleDisruptionReconciler:
    """Keys are pods with the condition DisruptionTarget."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter) -> None:
        self._client, self._clock, self._hosted_filter = client, clock, hosted
        self._pods = Informer(client.in_cluster("*"), PODS, clock)
        self.controller: Controller[Key] = Controller("stale-disruptions", clock, self.reconcile, 1)
        self.controller.watch(self._pods, self._on_pod)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and seconds_until_stale(new, self._clock.now()) is not None:
            self.controller.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        remaining = seconds_until_stale(pod, self._clock.now()) if pod is not None else None
        if pod is None or remaining is None or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        if remaining > 0:
            return remaining + REQUEUE_MARGIN_SECONDS
        condition: Object = {
            "type": DISRUPTION_TARGET,
            "status": "False",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        condition |= {"reason": None, "message": None}
        metadata = pod["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": [condition]},
        }
        client = self._client.in_cluster(key[0])
        path = client.resource_path(PODS, key[2], key[1], "status")
        with suppress(NotFound):
            await client.request("PATCH", path, body=body, content_type="application/strategic-merge-patch+json")
        return None


def _pod_facts(pod: Object | None) -> tuple[object, ...] | None:
    if pod is None:
        return None
    metadata = pod["metadata"]
    owner = (controller_of(pod) or {}).get("uid")
    return metadata.get("uid"), metadata.get("labels"), "deletionTimestamp" in metadata, is_ready(pod), owner
