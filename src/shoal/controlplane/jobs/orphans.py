"""Removes the tracking finalizer from pods that no Job counts any more.

Their Job was deleted or is finished, or they have none. The deletion of a Job is confirmed with the server: the
informer may lag.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.jobs.controller import JOBS, UNLISTED_SECONDS, unhold
from shoal.controlplane.jobs.pods import is_held
from shoal.kinds.jobs import is_finished, is_managed_elsewhere
from shoal.objects.errors import NotFound
from shoal.objects.ownership import controller_named, controller_of
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop

Object = dict[str, Any]


class OrphanLoop:
    """Keys are pods."""

    def __init__(
        self, client: Client, clock: Clock, hosted: HostedClusters, jobs: Dependents, pods: Dependents
    ) -> None:
        self._client, self._hosted, self._jobs, self._pods = client, hosted, jobs, pods
        self.loop: Loop[Key] = Loop("job-orphans", clock, self.reconcile)
        jobs.listeners.append(self._job_changed)
        pods.listeners.append(self._pod_changed)

    def _job_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is not None and before is not None and _state(now) == _state(before):
            return
        for job in (before, now):
            for pod in self._pods.owned(key, job["metadata"]["uid"]) if job is not None else ():
                self._pod_changed((key[0], key[1], pod["metadata"]["name"]), None, pod)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is not None and is_held(now) and not self._is_counted(key, now):
            self.loop.queue.add(key)

    def _is_counted(self, key: Key, pod: Object) -> bool:
        """Returns whether, according to the informer, an unfinished Job or another kind of controller takes care of the
        pod.
        """
        reference = controller_of(pod)
        if reference is None:
            return False
        name = controller_named(pod, "batch", "Job")
        job = self._jobs.get((key[0], key[1], name)) if name else None
        return not name or (job is not None and job["metadata"]["uid"] == reference["uid"] and _counts(job))

    async def reconcile(self, key: Key) -> float | None:
        if not self._jobs.synced:
            return UNLISTED_SECONDS
        pod = self._pods.get(key)
        if pod is None or not is_held(pod) or self._is_counted(key, pod):
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        client, reference = self._client.at(key[0]), controller_of(pod)
        try:
            if reference is not None:
                job = await client.get(JOBS, reference["name"], key[1])
                if job["metadata"]["uid"] == reference["uid"] and _counts(job):
                    return None
        except NotFound:
            pass
        with suppress(NotFound):
            await unhold(client, key[2], key[1])
        return None


def _state(job: Object) -> tuple[str, bool]:
    return job["metadata"]["uid"], is_finished(job)


def _counts(job: Object) -> bool:
    return is_managed_elsewhere(job) or not is_finished(job)
