"""Worker health: a fresh Lease makes a Worker Running, silence makes it Lost. Moves and deletes nothing.

Keys are Workers that joined. A Worker declared in another namespace has no Lease and stays Pending. A Worker that is
being deleted stays as long as ManagedClusters are assigned to it.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.health.decide import Heartbeat, health, heartbeat, was_ready
from shoal.fleet.health.standing import Standing
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

SOON = 0.05
"""Seconds by which a timer may fire early."""


def health_loops(client: Client, clock: Clock) -> list[Loop[Key]]:
    workers = WorkerHealth(client, clock)
    return [workers.loop, workers.standing.loop]


class WorkerHealth:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._heard: dict[str, Heartbeat] = {}
        self._due: dict[Key, float] = {}
        """When each Worker is reconciled again: one timer per Worker, however often it changes meanwhile."""
        self.loop: Loop[Key] = Loop("fleet-health", clock, self.reconcile)
        self._workers = Reflector(client, WORKERS, clock, self._worker_changed, listed=self._listed, shared=True)
        self._leases = Reflector(
            client, LEASES, clock, self._lease_changed, fields=f"metadata.namespace={fleet.NAMESPACE}", shared=True
        )
        self.standing = Standing(client, clock, self._workers, self._hosting_changed, self._awaited_changed)
        self.loop.sources += [self._workers.run, self._leases.run]

    def _listed(self) -> None:
        self.standing.sweep()

    def _worker_changed(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._due.pop(key, None)
            if key[1] == fleet.NAMESPACE:
                self._heard.pop(key[2], None)
        self.standing.worker_changed(key, obj)
        self.loop.queue.add(key)

    def _lease_changed(self, key: Key, obj: Object | None) -> None:
        if obj is not None and fleet.worker_of_lease(key[2]):
            self.loop.queue.add(("", fleet.NAMESPACE, fleet.worker_of_lease(key[2])))

    def _hosting_changed(self, worker: str) -> None:
        """Requeues a Worker that is being deleted."""
        key = "", fleet.NAMESPACE, worker
        obj = self._workers.objects.get(key)
        if obj is not None and fleet.is_deleting(obj):
            self.loop.queue.add(key)

    def _awaited_changed(self, worker: str) -> None:
        self.loop.queue.add(("", fleet.NAMESPACE, worker))

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.objects.get(key)
        if worker is None:
            return None
        if not self._leases.synced:
            raise Later("the Leases have not been listed yet")
        try:
            return self._once(key, await self._look(key, worker))
        except NotFound:
            return None

    async def _look(self, key: Key, worker: Object) -> float | None:
        """Updates the Worker and returns when to reconcile again."""
        held = fleet.WORKER_FINALIZER in (worker["metadata"].get("finalizers") or ())
        if key[1] == fleet.NAMESPACE and not held and not fleet.is_deleting(worker):
            # Before it is ready, and so before anything is assigned to it.
            worker = await self._hold(worker, True)
        hosted = self.standing.hosted(key[2]) if key[1] == fleet.NAMESPACE else []
        awaited = self.standing.awaited(key[2]) if hosted is not None and key[1] == fleet.NAMESPACE else None
        heard = self._listen(key, worker)
        found = health(worker, heard, self._clock.monotonic(), rfc3339(self._clock.now()), hosted, awaited)
        if found.status is not None:
            # Others write conditions as well, so the patch carries the resourceVersion that was read.
            version = {"resourceVersion": worker["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": found.status}
            worker = await self._client.merge(WORKERS, key[2], patch, key[1], "status")
        if held and fleet.is_deleting(worker) and hosted == [] and await self._is_empty(key[2]):
            await self._hold(worker, False)
        return found.again

    async def _hold(self, worker: Object, hold: bool) -> Object:
        metadata = worker["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != fleet.WORKER_FINALIZER]
        finalizers = [*others, fleet.WORKER_FINALIZER] if hold else others
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        return await self._client.merge(WORKERS, metadata["name"], patch, metadata["namespace"])

    async def _is_empty(self, worker: str) -> bool:
        """Reads from the API, not from the cache."""
        found, _ = await self._client.list_all(MANAGED_CLUSTERS, fields=f"status.assignedWorker={worker}")
        return not found

    def _once(self, key: Key, again: float | None) -> float | None:
        now = self._clock.monotonic()
        if again is None or self._due.get(key, 0.0) - now > SOON:
            return None
        self._due[key] = now + again
        return again

    def _listen(self, key: Key, worker: Object) -> Heartbeat | None:
        """Returns the last heartbeat. A missing Lease changes nothing."""
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
