"""Watches over Workers: a fresh Lease makes one Running, silence makes it Lost. Nothing is moved or deleted.

Keys are names of Workers that joined. A Worker declared elsewhere has nobody who beats for it, and stays Pending.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.health.decide import Heartbeat, health, heartbeat, was_ready
from shoal.fleet.resources import LEASES, WORKERS
from shoal.kinds import fleet
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

SOON = 0.05
"""Seconds: a timer that is about to go off may have gone off a little early."""


def health_loop(client: Client, clock: Clock) -> Loop[Key]:
    return WorkerHealth(client, clock).loop


class WorkerHealth:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._heard: dict[str, Heartbeat] = {}
        self._due: dict[Key, float] = {}
        """When each is looked at again: one timer per Worker, however often it changes meanwhile."""
        self.loop: Loop[Key] = Loop("fleet-health", clock, self.reconcile)
        self._workers = Reflector(client, WORKERS, clock, self._worker_changed)
        self._leases = Reflector(
            client, LEASES, clock, self._lease_changed, fields=f"metadata.namespace={fleet.NAMESPACE}"
        )
        self.loop.sources += [self._workers.run, self._leases.run]

    def _worker_changed(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._due.pop(key, None)
            if key[1] == fleet.NAMESPACE:
                self._heard.pop(key[2], None)
        self.loop.queue.add(key)

    def _lease_changed(self, key: Key, obj: Object | None) -> None:
        if obj is not None and fleet.worker_of_lease(key[2]):
            self.loop.queue.add(("", fleet.NAMESPACE, fleet.worker_of_lease(key[2])))

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.objects.get(key)
        if worker is None:
            return None
        if not self._leases.synced:
            raise Later("the Leases have not been listed yet")
        found = health(worker, self._listen(key, worker), self._clock.monotonic(), rfc3339(self._clock.now()))
        if found.status is not None:
            try:
                await self._client.merge(WORKERS, key[2], {"status": found.status}, key[1], "status")
            except NotFound:
                return None
        return self._once(key, found.again)

    def _once(self, key: Key, again: float | None) -> float | None:
        now = self._clock.monotonic()
        if again is None or self._due.get(key, 0.0) - now > SOON:
            return None
        self._due[key] = now + again
        return again

    def _listen(self, key: Key, worker: Object) -> Heartbeat | None:
        """The last sign of life. A Lease that is not there says nothing, and takes nothing back."""
        name = key[2]
        if key[1] != fleet.NAMESPACE:
            return None
        lease = self._leases.objects.get(("", fleet.NAMESPACE, fleet.lease_name(name)))
        before = self._heard.get(name)
        if lease is None:
            return before
        heard = heartbeat(before, lease, was_ready(worker), self._clock.now(), self._clock.monotonic())
        self._heard[name] = heard
        return heard
