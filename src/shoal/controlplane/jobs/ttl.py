"""Deletes finished Jobs and their pods after `ttlSecondsAfterFinished`."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.jobs.controller import JOBS
from shoal.kinds.jobs import expiry
from shoal.objects.errors import NotFound
from shoal.runtime.alarms import Alarms
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop

Object = dict[str, Any]


class ExpiryLoop:
    """Keys are Jobs."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusters, jobs: Dependents) -> None:
        self._client, self._clock, self._hosted, self._jobs = client, clock, hosted, jobs
        self.loop: Loop[Key] = Loop("job-expiry", clock, self.reconcile)
        self._alarms = Alarms(clock, self.loop.queue.add)
        self.loop.sources.append(self._alarms.run)
        jobs.listeners.append(lambda key, before, now: self._alarms.set(key, expiry(now)))

    async def reconcile(self, key: Key) -> None:
        if not self._is_due(key, self._jobs.get(key)) or not self._hosted.admits(key[0], self.loop.queue.add, key):
            return
        client = self._client.at(key[0])
        try:
            fresh = await client.get(JOBS, key[2], key[1])  # its TTL may have been extended
            if self._is_due(key, fresh):
                body = {"propagationPolicy": "Foreground", "preconditions": {"uid": fresh["metadata"]["uid"]}}
                await client.call("DELETE", client.path(JOBS, key[2], key[1]), body=body)
        except NotFound:
            return

    def _is_due(self, key: Key, job: Object | None) -> bool:
        at = expiry(job)
        if at is not None and at > self._clock.now():
            self._alarms.set(key, at)
            return False
        return at is not None
