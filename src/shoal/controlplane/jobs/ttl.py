"""Deletes finished Jobs and their pods after `ttlSecondsAfterFinished`."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.jobs.controller import JOBS
from shoal.kinds.batch.job import expiry_time
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.delay_queue import DelayQueue
from shoal.runtime.informer import Informer

Object = dict[str, Any]


class TTLAfterFinishedReconciler:
    """Keys are Jobs."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter) -> None:
        self._client, self._clock, self._hosted_filter = client, clock, hosted
        self._jobs = Informer(client.in_cluster("*"), JOBS, clock)
        self.controller: Controller[Key] = Controller("job-expiry", clock, self.reconcile)
        self._delay_queue = DelayQueue(clock, self.controller.queue.add)
        self.controller.sources.append(self._delay_queue.run)
        self.controller.watch(self._jobs, lambda key, old, new: self._delay_queue.schedule(key, expiry_time(new)))

    async def reconcile(self, key: Key) -> None:
        if not self._is_expired(key, self._jobs.get(key)) or not self._hosted_filter.accepts(
            key[0], self.controller.queue.add, key
        ):
            return
        client = self._client.in_cluster(key[0])
        try:
            live = await client.get(JOBS, key[2], key[1])  # its TTL may have been extended
            if self._is_expired(key, live):
                body = {"propagationPolicy": "Foreground", "preconditions": {"uid": live["metadata"]["uid"]}}
                await client.request("DELETE", client.resource_path(JOBS, key[2], key[1]), body=body)
        except NotFound:
            return

    def _is_expired(self, key: Key, job: Object | None) -> bool:
        expires_at = expiry_time(job)
        if expires_at is not None and expires_at > self._clock.now():
            self._delay_queue.schedule(key, expires_at)
            return False
        return expires_at is not None
