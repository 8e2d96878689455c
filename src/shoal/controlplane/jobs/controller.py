"""Reconciles Jobs: runs pods until the Job is finished and counts each finished pod exactly once.

The writes of a reconcile have a fixed order: create or delete pods, record uncounted pods in the status, remove
finalizers, flush the uncounted pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.jobs.backoff import Backoff
from shoal.controlplane.jobs.decide import Plan, decide
from shoal.controlplane.jobs.ledger import Done, Event, closed, entered
from shoal.controlplane.jobs.pods import UNHOLD, is_held, made_pod
from shoal.controlplane.jobs.reading import Reading, read
from shoal.controlplane.podcontrol.batches import each
from shoal.controlplane.podcontrol.changes import adopters
from shoal.controlplane.podcontrol.control import PODS, PodControl
from shoal.controlplane.podcontrol.telling import pod_events
from shoal.kinds.jobs import TRACKING, is_finished, is_managed_elsewhere
from shoal.objects.errors import NotFound
from shoal.objects.ownership import claim, controller_reference
from shoal.runtime.alarms import Alarms
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnStatuses
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

JOBS = Kind("batch", "v1", "jobs")
SOURCE = Source("job-controller", "batch/v1", "Job")
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
UNLISTED_SECONDS = 0.1
"""Requeue delay at startup while an informer has not synced."""


class JobLoop:
    """Keys are Jobs. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        jobs: Dependents,
        pods: Dependents,
        recorder: Recorder,
    ) -> None:
        self._client, self._clock, self._hosted, self._recorder = client, clock, hosted, recorder
        self._jobs, self._pods = jobs, pods
        self._control = PodControl(
            client, pods, JOBS, "batch/v1", "Job", pod_events(recorder, SOURCE), finalizer=TRACKING
        )
        self._statuses = OwnStatuses(client, JOBS, jobs)
        self._released: dict[Key, dict[str, int]] = {}
        """By uid: the resourceVersion up to which the informer still shows the finalizer of a pod that was released."""
        self._backoffs: dict[Key, tuple[str, Backoff]] = {}
        self.loop: Loop[Key] = Loop("jobs", clock, self.reconcile)
        self._alarms = Alarms(clock, self.loop.queue.add)
        self.loop.sources.append(self._alarms.run)
        jobs.listeners.append(lambda key, before, now: self.loop.queue.add(key))
        pods.listeners.append(self._pod_changed)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner in self._control.owners(key, before, now):
            self.loop.queue.add(owner)
        for owner in adopters(now, self._jobs.beside(key)):
            self.loop.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None or is_finished(job) or is_managed_elsewhere(job):
            self._forget(key)
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        if not self._pods.synced:
            return UNLISTED_SECONDS
        if not self._control.in_sight(key) or not self._statuses.in_sight(key):
            return UNSEEN_SECONDS
        claims = claim(job, self._pods.owned(key, job["metadata"]["uid"]), self._pods.orphans(key))
        if await self._control.settle(key, job, claims):
            return UNSEEN_SECONDS
        await self._step(key, job, claims.kept)
        return None

    def _forget(self, key: Key) -> None:
        self._control.forget(key)
        self._statuses.forget(key)
        self._released.pop(key, None)
        self._backoffs.pop(key, None)
        self._alarms.set(key, None)

    async def _step(self, key: Key, job: Object, pods: list[Object]) -> None:
        uid, known = job["metadata"]["uid"], self._backoffs.get(key)
        backoff = known[1] if known is not None and known[0] == uid else None
        let_go = self._let_go(key, pods)
        self._released[key] = {one: version for one, version in self._released.get(key, {}).items() if one in let_go}
        found = read(job, pods, self._control.deleted(key, pods), let_go, backoff)
        now = self._clock.now()
        plan = decide(job, found, now)
        self._alarms.set(key, plan.at)
        done, failure = await self._carry_out(key, job, found, plan)
        entry = entered(job, found, plan, done, rfc3339(now))
        written = await self._write(key, job, entry.status, entry.events)
        if written is None:
            return
        self._backoffs[key] = uid, found.backoff
        failure = await self._release(key, entry.release) or failure
        status, events = closed(
            job, written["status"], entry.ending, found.held - self._let_go(key, pods), rfc3339(self._clock.now())
        )
        await self._write(key, written, status, events)
        if failure is not None:
            raise failure

    async def _carry_out(self, key: Key, job: Object, found: Reading, plan: Plan) -> tuple[Done, Exception | None]:
        if plan.create:
            reference = controller_reference(job, "batch/v1", "Job")
            made = [
                made_pod(job, reference, index, found.last_failed.get(index) if index is not None else None)
                for index in plan.create
            ]
            failure = await self._control.create_pods(key, job, made)
            return Done(created=len(made) if failure is None else 0), failure
        failure, going = None, list(plan.delete)
        if going and plan.ending is None:  # surplus pods count neither as succeeded nor as failed
            failure = await self._release(key, going)
            let_go = self._let_go(key, going)
            going = [pod for pod in going if pod["metadata"]["uid"] in let_go or not is_held(pod)]
        if going:
            failure = await self._control.delete(key, job, going) or failure
        deleted = self._control.deleted(key, found.pods)
        return Done(deleted=frozenset(deleted)), failure

    async def _release(self, key: Key, pods: Iterable[Object]) -> Exception | None:
        client, released = self._client.at(key[0]), self._released.setdefault(key, {})

        async def one(pod: Object) -> None:
            metadata = pod["metadata"]
            version = int(metadata["resourceVersion"])
            try:
                answer = await unhold(client, metadata["name"], key[1])
                version = max(version, int(answer["metadata"]["resourceVersion"]))
            except NotFound:
                pass
            released[metadata["uid"]] = version

        return await each([partial(one, pod) for pod in pods if is_held(pod)])

    def _let_go(self, key: Key, pods: list[Object]) -> set[str]:
        """Returns the uids of pods that still show the finalizer in the informer but were released."""
        released = self._released.get(key)
        if not released:
            return set()
        return {
            metadata["uid"]
            for metadata in (pod["metadata"] for pod in pods if is_held(pod))
            if int(metadata["resourceVersion"]) <= released.get(metadata["uid"], -1)
        }

    async def _write(self, key: Key, job: Object, status: Object, events: Iterable[Event]) -> Object | None:
        """Returns the updated Job; None if it was deleted."""
        written = await self._statuses.write(key, job, status)
        for type_, reason, message in events if written is not None else ():
            self._recorder.record(SOURCE, key[0], job, type_, reason, message)
        return written


async def unhold(client: Client, name: str, namespace: str) -> Object:
    """Removes the finalizer from a pod, regardless of concurrent writes."""
    path = client.path(PODS, name, namespace)
    return await client.call("PATCH", path, body=UNHOLD, content="application/strategic-merge-patch+json")
