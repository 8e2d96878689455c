"""Removes the tracking finalizer from pods that no Job counts any more.

Their Job was deleted or is finished, or they have none. The deletion of a Job is confirmed with the server: the
informer may lag.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.jobs.controller import JOBS, remove_tracking_finalizer
from shoal.controlplane.jobs.pods import has_tracking_finalizer
from shoal.controlplane.podcontrol.control import PODS
from shoal.kinds.batch.job import is_finished, is_managed_elsewhere
from shoal.objects.errors import NotFound
from shoal.objects.ownership import controller_name, controller_of
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller

Object = dict[str, Any]


class OrphanPodReconciler:
    """Keys are pods."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter) -> None:
        self._client, self._hosted_filter, wildcard = client, hosted, client.in_cluster("*")
        self._jobs = Informer(wildcard, JOBS, clock)
        self._pods = Informer(wildcard, PODS, clock, indexers=(by_controller,))
        self.controller: Controller[Key] = Controller("job-orphans", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, self._jobs, self._pods)
        self.controller.watch(self._jobs, self._on_job)
        self.controller.watch(self._pods, self._on_pod)

    def _on_job(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and old is not None and _uid_and_finished(new) == _uid_and_finished(old):
            return
        for uid in {job["metadata"]["uid"] for job in (old, new) if job is not None}:
            for pod in self._pods.by_index(by_controller, (*key[:2], uid)):
                self._on_pod(key_of(pod), None, pod)

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

    async def reconcile(self, key: Key) -> None:
        if not self._cache_sync.allow(key):
            return
        pod = self._pods.get(key)
        if pod is None or not has_tracking_finalizer(pod) or self._is_tracked(key, pod):
            return
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return
        client, reference = self._client.in_cluster(key[0]), controller_of(pod)
        try:
            if reference is not None:
                job = await client.get(JOBS, reference["name"], key[1])
                if job["metadata"]["uid"] == reference["uid"] and _tracks_pods(job):
                    return
        except NotFound:
            pass
        with suppress(NotFound):
            await remove_tracking_finalizer(client, key[2], key[1])


def _uid_and_finished(job: Object) -> tuple[str, bool]:
    return job["metadata"]["uid"], is_finished(job)


def _tracks_pods(job: Object) -> bool:
    return is_managed_elsewhere(job) or not is_finished(job)
