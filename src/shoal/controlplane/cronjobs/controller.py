"""Reconciles CronJobs: one Job for every scheduled time. One delay queue serves all CronJobs of the store."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.cronjobs.decide import (
    CronJobDecision,
    CronJobEvent,
    decide,
    job_from_template,
    job_name,
    next_schedule_time,
    with_active_job,
    without_active_jobs,
)
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.jobs.controller import EXPECTATIONS_RETRY_SECONDS, JOBS
from shoal.controlplane.podcontrol.control import NAMESPACE_TERMINATING
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.objects.ownership import controller_name, is_controlled_by
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.delay_queue import DelayQueue
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import StatusWriter, WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]

CRON_JOBS = GroupVersionResource("batch", "v1", "cronjobs")
EVENT_SOURCE = EventSource("cronjob-controller", "batch/v1", "CronJob")


class CronJobReconciler:
    """Keys are CronJobs."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        wildcard = client.in_cluster("*")
        self._cron_jobs = cron_jobs = Informer(wildcard, CRON_JOBS, clock)
        self._jobs = jobs = Informer(wildcard, JOBS, clock, indexers=(by_controller,))
        self._status_writer = StatusWriter(client, CRON_JOBS, cron_jobs)
        self._job_expectations: WriteExpectations[Key] = WriteExpectations(jobs)
        self.controller: Controller[Key] = Controller("cronjobs", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, cron_jobs, jobs)
        self._delay_queue = DelayQueue(clock, self.controller.queue.add)
        self.controller.sources.append(self._delay_queue.run)
        self.controller.watch(cron_jobs, self._on_cron_job)
        self.controller.watch(jobs, self._on_job)

    def _on_cron_job(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _schedule_and_zone(old) != _schedule_and_zone(new):
            self._delay_queue.schedule(key, next_schedule_time(new, self._clock.now()))
        else:
            self.controller.queue.add(key)

    def _on_job(self, key: Key, old: Object | None, new: Object | None) -> None:
        for name in {controller_name(old, "batch", "CronJob"), controller_name(new, "batch", "CronJob")} - {""}:
            self.controller.queue.add((key[0], key[1], name))

    async def reconcile(self, key: Key) -> float | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            self._status_writer.forget(key)
            self._job_expectations.forget(key)
            self._delay_queue.schedule(key, None)
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key) or not self._cache_sync.allow(key):
            return None
        if not self._status_writer.satisfied(key) or not self._job_expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        client = self._client.in_cluster(key[0])
        jobs = self._jobs.by_index(by_controller, (*key[:2], cron_job["metadata"]["uid"]))
        decision = decide(cron_job, jobs, await self._missing_active_jobs(client, cron_job, jobs), self._clock.now())
        self._delay_queue.schedule(key, decision.requeue_at)
        self._record_events(key, cron_job, *decision.events)
        for job in decision.delete:
            await self._delete_job(client, key, cron_job, job["metadata"])
        status = decision.status
        if decision.scheduled_time is not None:
            status = await self._start_job(client, key, cron_job, decision)
        await self._status_writer.write(key, cron_job, status)
        return None

    async def _missing_active_jobs(self, client: Client, cron_job: Object, jobs: list[Object]) -> set[str]:
        """Returns the uids of active Jobs that no longer exist. They are read from the server because an informer may
        lag.
        """
        cached = {(job["metadata"]["uid"], job["metadata"]["name"]) for job in jobs}
        missing = set[str]()
        for one in (cron_job.get("status") or {}).get("active") or ():
            if (one.get("uid"), one.get("name")) not in cached:
                try:
                    # References that a client wrote may have no name, or one that no Job can have.
                    job = await client.get(JOBS, one.get("name") or "-", cron_job["metadata"]["namespace"])
                except NotFound:
                    job = None
                if job is None or job["metadata"]["uid"] != one.get("uid"):
                    missing.add(one.get("uid") or "")
        return missing

    async def _start_job(self, client: Client, key: Key, cron_job: Object, decision: CronJobDecision) -> Object:
        """Creates the due Job and returns the resulting status."""
        assert decision.scheduled_time is not None
        for one in decision.replaced_jobs:
            await self._delete_job(client, key, cron_job, one)
        status = without_active_jobs(decision.status, (one.get("uid", "") for one in decision.replaced_jobs))
        job = self._jobs.get((*key[:2], job_name(cron_job, decision.scheduled_time)))
        if job is None:
            job = await self._create_job(client, key, cron_job, decision.scheduled_time)
        if not is_controlled_by(job, cron_job):
            return status
        self._job_expectations.expect(key, job)
        return with_active_job(status, job, rfc3339(decision.scheduled_time))

    async def _create_job(self, client: Client, key: Key, cron_job: Object, scheduled_time: float) -> Object:
        try:
            job = await client.create(JOBS, job_from_template(cron_job, scheduled_time), key[1])
        except AlreadyExists:  # created before an interruption, or by another client
            return await client.get(JOBS, job_name(cron_job, scheduled_time), key[1])
        except StatusError as error:
            if not any(cause.reason == NAMESPACE_TERMINATING for cause in error.causes):
                self._record_events(key, cron_job, ("Warning", "FailedCreate", f"Error creating job: {error}"))
            raise
        self._record_events(key, cron_job, ("Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}"))
        return job

    async def _delete_job(self, client: Client, key: Key, cron_job: Object, job: Object) -> None:
        """`job` is an object's metadata or an object reference."""
        body: Object = {"propagationPolicy": "Background", "preconditions": {"uid": job["uid"]}}
        try:
            await client.request("DELETE", client.resource_path(JOBS, job["name"], key[1]), body=body)
        except NotFound:
            return
        except StatusError as error:
            self._record_events(key, cron_job, ("Warning", "FailedDelete", f"Deleted job: {error}"))
            raise
        self._record_events(key, cron_job, ("Normal", "SuccessfulDelete", f"Deleted job {job['name']}"))

    def _record_events(self, key: Key, cron_job: Object, *events: CronJobEvent) -> None:
        for type_, reason, message in events:
            self._recorder.record(EVENT_SOURCE, key[0], cron_job, type_, reason, message)


def _schedule_and_zone(cron_job: Object) -> tuple[Any, Any]:
    return cron_job["spec"].get("schedule"), cron_job["spec"].get("timeZone")
