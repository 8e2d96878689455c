"""Removes the tracking finalizer from pods that no Job counts any more.

Their Job was deleted or is finished, or they have none. The deletion of a Job is confirmed with the server: the
informer may lag.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.jobs.controller import JOBS, SYNC_RETRY_SECONDS, remove_tracking_finalizer
from shoal.controlplane.jobs.pods import has_tracking_finalizer
from shoal.kinds.batch.job import is_finished, is_managed_elsewhere
from shoal.objects.errors import NotFound
from shoal.objects.ownership import controller_name, controller_of
from shoal.runtime.controller import Controller
from shoal.runtime.indexed_informer import IndexedInformer

Object = dict[str, Any]


class OrphanPodReconciler:
    """Keys are pods."""

    def __init__(
        self, client: Client, clock: Clock, hosted: HostedClusterFilter, jobs: IndexedInformer, pods: IndexedInformer
    ) -> None:
        self._client, self._hosted_filter, self._jobs, self._pods = client, hosted, jobs, pods
        self.controller: Controller[Key] = Controller("job-orphans", clock, self.reconcile)
        jobs.event_handlers.append(self._on_job)
        pods.event_handlers.append(self._on_pod)

    def _on_job(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and old is not None and _uid_and_finished(new) == _uid_and_finished(old):
            return
        for job in (old, new):
            for pod in self._pods.by_controller(key, job["metadata"]["uid"]) if job is not None else ():
                self._on_pod((key[0], key[1], pod["metadata"]["name"]), None, pod)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and has_tracking_finalizer(new) and not self._is_tracked(key, new):
            self.controller.queue.add(key)

    def _is_tracked(self, key: Key, pod: Object) -> bool:
        """Returns whether, according to the informer, an unfinished Job or another kind of controller takes care of the
        pod.
        """
        reference = controller_of(pod)
        if reference is None:
            return False
        name = controller_name(pod, "batch", "Job")
        job = self._jobs.get((key[0], key[1], name)) if name else None
        return not name or (job is not None and job["metadata"]["uid"] == reference["uid"] and _tracks_pods(job))

    async def reconcile(self, key: Key) -> float | None:
        if not self._jobs.has_synced:
            return SYNC_RETRY_SECONDS
        pod = self._pods.get(key)
        if pod is None or not has_tracking_finalizer(pod) or self._is_tracked(key, pod):
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        client, reference = self._client.in_cluster(key[0]), controller_of(pod)
        try:
            if reference is not None:
                job = await client.get(JOBS, reference["name"], key[1])
                if job["metadata"]["uid"] == reference["uid"] and _tracks_pods(job):
                    return None
        except NotFound:
            pass
        with suppress(NotFound):
            await remove_tracking_finalizer(client, key[2], key[1])
        return None


def _uid_and_finished(job: Object) -> tuple[str, bool]:
    return job["metadata"]["uid"], is_finished(job)


def _tracks_pods(job: Object) -> bool:
    return is_managed_elsewhere(job) or not is_finished(job)
