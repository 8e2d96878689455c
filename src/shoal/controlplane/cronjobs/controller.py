"""Reconciles CronJobs: one Job for every scheduled time. One delay queue serves all CronJobs of the store."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.cronjobs.decide import Decision, Event, decide, job_name, made_job, next_look, started, without
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.jobs.controller import JOBS, UNLISTED_SECONDS, UNSEEN_SECONDS
from shoal.controlplane.podcontrol.control import NAMESPACE_ENDS
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.objects.ownership import controller_named, is_controlled_by
from shoal.runtime.alarms import Alarms
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnStatuses, OwnWrites
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

CRON_JOBS = Kind("batch", "v1", "cronjobs")
SOURCE = Source("cronjob-controller", "batch/v1", "CronJob")


class CronJobLoop:
    """Keys are CronJobs. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        cron_jobs: Dependents,
        jobs: Dependents,
        recorder: Recorder,
    ) -> None:
        self._client, self._clock, self._hosted, self._recorder = client, clock, hosted, recorder
        self._cron_jobs, self._jobs = cron_jobs, jobs
        self._statuses = OwnStatuses(client, CRON_JOBS, cron_jobs)
        self._writes: OwnWrites[Key] = OwnWrites(jobs)
        self.loop: Loop[Key] = Loop("cronjobs", clock, self.reconcile)
        self._alarms = Alarms(clock, self.loop.queue.add)
        self.loop.sources.append(self._alarms.run)
        cron_jobs.listeners.append(self._cron_job_changed)
        jobs.listeners.append(self._job_changed)

    def _cron_job_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if before is not None and now is not None and _rhythm(before) != _rhythm(now):
            self._alarms.set(key, next_look(now, self._clock.now()))
        else:
            self.loop.queue.add(key)

    def _job_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for name in {controller_named(before, "batch", "CronJob"), controller_named(now, "batch", "CronJob")} - {""}:
            self.loop.queue.add((key[0], key[1], name))

    async def reconcile(self, key: Key) -> float | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            self._statuses.forget(key)
            self._writes.forget(key)
            self._alarms.set(key, None)
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        if not self._jobs.synced:
            return UNLISTED_SECONDS
        if not self._statuses.in_sight(key) or not self._writes.in_sight(key):
            return UNSEEN_SECONDS
        client = self._client.at(key[0])
        jobs = self._jobs.owned(key, cron_job["metadata"]["uid"])
        decision = decide(cron_job, jobs, await self._gone(client, cron_job, jobs), self._clock.now())
        self._alarms.set(key, decision.at)
        self._tell(key, cron_job, *decision.events)
        for job in decision.delete:
            await self._delete(client, key, cron_job, job["metadata"])
        status = decision.status
        if decision.start is not None:
            status = await self._start(client, key, cron_job, decision)
        await self._statuses.write(key, cron_job, status)
        return None

    async def _gone(self, client: Client, cron_job: Object, jobs: list[Object]) -> set[str]:
        """Returns the uids of active Jobs that no longer exist. They are read from the server because an informer may
        lag.
        """
        there, gone = {job["metadata"]["uid"] for job in jobs}, set[str]()
        for one in (cron_job.get("status") or {}).get("active") or ():
            if one.get("uid") not in there:
                try:
                    found = await client.get(JOBS, one["name"], cron_job["metadata"]["namespace"])
                except NotFound:
                    found = None
                if found is None or found["metadata"]["uid"] != one.get("uid"):
                    gone.add(one.get("uid", ""))
        return gone

    async def _start(self, client: Client, key: Key, cron_job: Object, decision: Decision) -> Object:
        """Creates the due Job and returns the resulting status."""
        assert decision.start is not None
        for one in decision.replaces:
            await self._delete(client, key, cron_job, one)
        status = without(decision.status, (one.get("uid", "") for one in decision.replaces))
        job = self._jobs.get((*key[:2], job_name(cron_job, decision.start)))
        if job is None:
            job = await self._create(client, key, cron_job, decision.start)
        if not is_controlled_by(job, cron_job):
            return status
        self._writes.wrote(key, job)
        return started(status, job, rfc3339(decision.start))

    async def _create(self, client: Client, key: Key, cron_job: Object, scheduled: float) -> Object:
        try:
            job = await client.create(JOBS, made_job(cron_job, scheduled), key[1])
        except AlreadyExists:  # created before an interruption, or by another client
            return await client.get(JOBS, job_name(cron_job, scheduled), key[1])
        except StatusError as error:
            if not any(cause.reason == NAMESPACE_ENDS for cause in error.causes):
                self._tell(key, cron_job, ("Warning", "FailedCreate", f"Error creating job: {error}"))
            raise
        self._tell(key, cron_job, ("Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}"))
        return job

    async def _delete(self, client: Client, key: Key, cron_job: Object, job: Object) -> None:
        """`job` is an object's metadata or an object reference."""
        body: Object = {"propagationPolicy": "Background", "preconditions": {"uid": job["uid"]}}
        try:
            await client.call("DELETE", client.path(JOBS, job["name"], key[1]), body=body)
        except NotFound:
            return
        except StatusError as error:
            self._tell(key, cron_job, ("Warning", "FailedDelete", f"Deleted job: {error}"))
            raise
        self._tell(key, cron_job, ("Normal", "SuccessfulDelete", f"Deleted job {job['name']}"))

    def _tell(self, key: Key, cron_job: Object, *events: Event) -> None:
        for type_, reason, message in events:
            self._recorder.record(SOURCE, key[0], cron_job, type_, reason, message)


def _rhythm(cron_job: Object) -> tuple[Any, Any]:
    return cron_job["spec"].get("schedule"), cron_job["spec"].get("timeZone")
