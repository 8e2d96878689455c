"""Reconciles Jobs: runs pods until the Job is finished and counts each finished pod exactly once.

The writes of a reconcile have a fixed order: create or delete pods, record uncounted pods in the status, remove
finalizers, flush the uncounted pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.jobs.backoff import JobBackoff
from shoal.controlplane.jobs.decide import JobPlan, decide
from shoal.controlplane.jobs.pods import REMOVE_FINALIZER_PATCH, has_tracking_finalizer, new_pod
from shoal.controlplane.jobs.state import JobState, job_state
from shoal.controlplane.jobs.tracking import JobEvent, PlanOutcome, flush_uncounted, record_finished
from shoal.controlplane.podcontrol.batches import run_all
from shoal.controlplane.podcontrol.control import PODS, PodControl
from shoal.controlplane.podcontrol.events import new_pod_event_sink
from shoal.controlplane.podcontrol.predicates import matching_owners
from shoal.kinds.batch.job import TRACKING_FINALIZER, is_finished, is_managed_elsewhere
from shoal.objects.errors import NotFound
from shoal.objects.ownership import claim_objects, controller_reference
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.delay_queue import DelayQueue
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import StatusWriter
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller, by_namespace

Object = dict[str, Any]

JOBS = GroupVersionResource("batch", "v1", "jobs")
EVENT_SOURCE = EventSource("job-controller", "batch/v1", "Job")
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""


class JobReconciler:
    """Keys are Jobs."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        wildcard = client.in_cluster("*")
        self._jobs = jobs = Informer(wildcard, JOBS, clock, indexers=(by_namespace,))
        self._pods = pods = Informer(wildcard, PODS, clock, indexers=(by_controller,))
        self._pod_control = PodControl(
            client,
            pods,
            JOBS,
            "batch/v1",
            "Job",
            new_pod_event_sink(recorder, EVENT_SOURCE),
            finalizer=TRACKING_FINALIZER,
        )
        self._status_writer = StatusWriter(client, JOBS, jobs)
        self._backoffs: dict[Key, tuple[str, JobBackoff]] = {}
        self.controller: Controller[Key] = Controller("jobs", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, jobs, pods)
        self._delay_queue = DelayQueue(clock, self.controller.queue.add)
        self.controller.sources.append(self._delay_queue.run)
        self.controller.watch(jobs, lambda key, old, new: self.controller.queue.add(key))
        self.controller.watch(pods, self._on_pod)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        for owner in self._pod_control.owners(key, old, new):
            self.controller.queue.add(owner)
        for owner in matching_owners(key, new, self._jobs):
            self.controller.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None or is_finished(job) or is_managed_elsewhere(job):
            self._forget(key)
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key) or not self._cache_sync.allow(key):
            return None
        if not self._pod_control.satisfied(key) or not self._status_writer.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        owned = self._pods.by_index(by_controller, (*key[:2], job["metadata"]["uid"]))
        claims = claim_objects(job, owned, self._pods.by_index(by_controller, (*key[:2], "")))
        if await self._pod_control.adopt_and_release(key, job, claims):
            return EXPECTATIONS_RETRY_SECONDS
        await self._sync_job(key, job, claims.owned)
        return None

    def _forget(self, key: Key) -> None:
        self._pod_control.forget(key)
        self._status_writer.forget(key)
        self._backoffs.pop(key, None)
        self._delay_queue.schedule(key, None)

    async def _sync_job(self, key: Key, job: Object, pods: list[Object]) -> None:
        uid, previous = job["metadata"]["uid"], self._backoffs.get(key)
        backoff = previous[1] if previous is not None and previous[0] == uid else None
        state = job_state(job, pods, self._pod_control.unobserved_deletions(key, pods), backoff)
        now = self._clock.now()
        plan = decide(job, state, now)
        self._delay_queue.schedule(key, plan.requeue_at)
        outcome, failure = await self._execute(key, job, state, plan)
        record = record_finished(job, state, plan, outcome, rfc3339(now))
        written = await self._write_status(key, job, record.status, record.events)
        if written is None:
            return
        self._backoffs[key] = uid, state.backoff
        failure = await self._remove_finalizers(key, record.release) or failure
        status, events = flush_uncounted(
            job,
            written["status"],
            record.finished,
            state.held_uids - self._released_uids(key, pods),
            rfc3339(self._clock.now()),
        )
        await self._write_status(key, written, status, events)
        if failure is not None:
            raise failure

    async def _execute(
        self, key: Key, job: Object, state: JobState, plan: JobPlan
    ) -> tuple[PlanOutcome, Exception | None]:
        if plan.create:
            reference = controller_reference(job, "batch/v1", "Job")
            pods = [
                new_pod(job, reference, index, state.last_failed_pods.get(index) if index is not None else None)
                for index in plan.create
            ]
            failure = await self._pod_control.create_pods(key, job, pods)
            return PlanOutcome(created=len(pods) if failure is None else 0), failure
        failure, to_delete = None, list(plan.delete)
        if to_delete and plan.finished is None:  # surplus pods count neither as succeeded nor as failed
            failure = await self._remove_finalizers(key, to_delete)
            released = self._released_uids(key, to_delete)
            to_delete = [
                pod for pod in to_delete if pod["metadata"]["uid"] in released or not has_tracking_finalizer(pod)
            ]
        if to_delete:
            failure = await self._pod_control.delete(key, job, to_delete) or failure
        deleted = self._pod_control.unobserved_deletions(key, state.pods)
        return PlanOutcome(deleted=frozenset(deleted)), failure

    async def _remove_finalizers(self, key: Key, pods: Iterable[Object]) -> Exception | None:
        client = self._client.in_cluster(key[0])

        async def release_pod(pod: Object) -> None:
            try:
                released = await remove_tracking_finalizer(client, pod["metadata"]["name"], key[1])
                self._pods.observe_write(released, key[0])
            except NotFound:
                self._pods.observe_missing(pod)

        return await run_all([partial(release_pod, pod) for pod in pods if has_tracking_finalizer(pod)])

    def _released_uids(self, key: Key, pods: list[Object]) -> set[str]:
        """Returns the uids of those pods whose finalizer was removed since they were read."""
        uids = set()
        for metadata in (pod["metadata"] for pod in pods if has_tracking_finalizer(pod)):
            current = self._pods.get((key[0], key[1], metadata["name"]))
            if current is None or current["metadata"]["uid"] != metadata["uid"] or not has_tracking_finalizer(current):
                uids.add(metadata["uid"])
        return uids

    async def _write_status(self, key: Key, job: Object, status: Object, events: Iterable[JobEvent]) -> Object | None:
        """Returns the updated Job; None if it was deleted."""
        updated = await self._status_writer.write(key, job, status)
        for type_, reason, message in events if updated is not None else ():
            self._recorder.record(EVENT_SOURCE, key[0], job, type_, reason, message)
        return updated


async def remove_tracking_finalizer(client: Client, name: str, namespace: str) -> Object:
    """Removes the finalizer from a pod, regardless of concurrent writes."""
    path = client.resource_path(PODS, name, namespace)
    return await client.request(
        "PATCH", path, body=REMOVE_FINALIZER_PATCH, content_type="application/strategic-merge-patch+json"
    )
