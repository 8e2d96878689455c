"""Worker health: a fresh Lease makes a Worker Running, silence makes it Lost. Moves and deletes nothing.

Keys are Workers that joined. A Worker declared in another namespace has no Lease and stays Pending. A Worker that is
being deleted stays as long as ManagedClusters are assigned to it.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.health.decide import Heartbeat, decide_health, observe_heartbeat, was_ready
from shoal.fleet.health.reachability import WorkerReachability
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]


def new_health_controllers(client: Client, clock: Clock) -> list[Controller[Key]]:
    reconciler = WorkerHealthReconciler(client, clock)
    return [reconciler.controller, reconciler.reachability.controller]


class WorkerHealthReconciler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._heartbeats: dict[str, Heartbeat] = {}
        self.controller: Controller[Key] = Controller("fleet-health", clock, self.reconcile)
        self._workers = Informer(client, WORKERS, clock)
        self._workers.on_sync(self._on_sync)
        self._leases = Informer(client, LEASES, clock, fields=f"metadata.namespace={infrav1.NAMESPACE}")
        self.reachability = WorkerReachability(client, clock, self._workers, self._on_hosting, self._on_awaited)
        self.controller.watch(self._workers, self._on_worker)
        self.controller.watch(self._leases, self._on_lease)

    def _on_sync(self) -> None:
        self.reachability.enqueue_stale()

    def _on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and key[1] == infrav1.NAMESPACE:
            self._heartbeats.pop(key[2], None)
        self.reachability.on_worker(key, old, new)
        self.controller.queue.add(key)

    def _on_lease(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and infrav1.worker_of_lease(key[2]):
            self.controller.queue.add(("", infrav1.NAMESPACE, infrav1.worker_of_lease(key[2])))

    def _on_hosting(self, worker: str) -> None:
        """Requeues a Worker that is being deleted."""
        key = "", infrav1.NAMESPACE, worker
        obj = self._workers.get(key)
        if obj is not None and infrav1.is_deleting(obj):
            self.controller.queue.add(key)

    def _on_awaited(self, worker: str) -> None:
        self.controller.queue.add(("", infrav1.NAMESPACE, worker))

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.get(key)
        if worker is None:
            return None
        if not self._leases.has_synced:
            raise RequeueError("informer of Leases has not synced yet")
        try:
            return await self._update_health(key, worker)
        except NotFound:
            return None

    async def _update_health(self, key: Key, worker: Object) -> float | None:
        """Updates the Worker and returns when to reconcile again."""
        has_finalizer = infrav1.WORKER_FINALIZER in (worker["metadata"].get("finalizers") or ())
        if key[1] == infrav1.NAMESPACE and not has_finalizer and not infrav1.is_deleting(worker):
            # Before it is ready, and so before anything is assigned to it.
            worker = await self._set_finalizer(worker, True)
        clusters = self.reachability.clusters_of(key[2]) if key[1] == infrav1.NAMESPACE else []
        awaited = self.reachability.awaited_of(key[2]) if clusters is not None and key[1] == infrav1.NAMESPACE else None
        last_heartbeat = self._last_heartbeat(key, worker)
        health_update = decide_health(
            worker, last_heartbeat, self._clock.monotonic(), rfc3339(self._clock.now()), clusters, awaited
        )
        if health_update.status is not None:
            # Others write conditions as well, so the patch carries the resourceVersion that was read.
            version = {"resourceVersion": worker["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": health_update.status}
            worker = await self._client.merge_patch(WORKERS, key[2], patch, key[1], "status")
        if has_finalizer and infrav1.is_deleting(worker) and clusters == [] and await self._hosts_nothing(key[2]):
            await self._set_finalizer(worker, False)
        return health_update.requeue_after

    async def _set_finalizer(self, worker: Object, present: bool) -> Object:
        metadata = worker["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != infrav1.WORKER_FINALIZER]
        finalizers = [*others, infrav1.WORKER_FINALIZER] if present else others
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        return await self._client.merge_patch(WORKERS, metadata["name"], patch, metadata["namespace"])

    async def _hosts_nothing(self, worker: str) -> bool:
        """Reads from the API, not from the cache."""
        clusters, _ = await self._client.list_all(MANAGED_CLUSTERS, fields=f"status.assignedWorker={worker}")
        return not clusters

    def _last_heartbeat(self, key: Key, worker: Object) -> Heartbeat | None:
        """Returns the last heartbeat. A missing Lease changes nothing."""
        name = key[2]
        if key[1] != infrav1.NAMESPACE:
            return None
        lease = self._leases.get(("", infrav1.NAMESPACE, infrav1.lease_name(name)))
        previous = self._heartbeats.get(name)
        if lease is None:
            return previous
        last_heartbeat = observe_heartbeat(
            previous, lease, was_ready(worker), self._clock.now(), self._clock.monotonic()
        )
        self._heartbeats[name] = last_heartbeat
        return last_heartbeat
