"""Runs the processes of Workers with infrastructure process: starts, restarts and finally stops them.

Every hub replica runs this supervisor, whichever replica leads the other controllers: an annotation on the Worker names
its supervisor. A hub that runs no worker processes reports that on Workers that wait for one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.fleet.workerprocesses.decide import (
    CLAIM,
    REMOVE,
    START,
    STOP,
    ProcessDecision,
    claim_patch,
    decide,
    needs_cluster_count,
    release_patch,
    supervised_status,
    supervisor_of,
)
from shoal.fleet.workerprocesses.interface import ProcessState, WorkerProcesses
from shoal.fleet.workerprocesses.supervisor_leases import SupervisorLeases
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]


class WorkerProcessSupervisor:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock, processes: WorkerProcesses | None) -> None:
        self._client, self._clock, self._processes = client, clock, processes
        self._supervisor_id = processes.id if processes is not None else ""
        self.controller: Controller[Key] = Controller("fleet-processes", clock, self.reconcile)
        self._workers = Informer(client, WORKERS, clock)
        self.controller.watch(self._workers, lambda key, old, new: self.controller.queue.add(key))
        self._supervisor_leases = SupervisorLeases(client, clock, self._supervisor_id)
        self.controller.sources += [self._supervisor_leases.leases.run, self._supervisor_leases.run_heartbeat]
        if processes is not None:
            processes.add_exit_handler(lambda name: self.controller.queue.add(("", infrav1.NAMESPACE, name)))

    async def reconcile(self, key: Key) -> float | None:
        if not self._workers.has_synced:
            raise RequeueError("informer of Workers has not synced yet")
        worker = self._workers.get(key)
        try:
            if worker is not None:
                return await self._reconcile_worker(worker)
            await self._stop_deleted(key)
        except NotFound:
            pass  # The watch reports that as well.
        return None

    async def _reconcile_worker(self, worker: Object) -> float | None:
        decision = await self._decide(worker)
        while decision.action in (START, STOP, REMOVE):
            await self._execute(worker, decision.action)
            decision = await self._decide(worker)
        if decision.action:
            patch = claim_patch(worker, self._supervisor_id) if decision.action == CLAIM else release_patch(worker)
            await self._client.merge_patch(WORKERS, worker["metadata"]["name"], patch, infrav1.NAMESPACE)
        status = supervised_status(worker, decision, rfc3339(self._clock.now()))
        if status is not None:
            await self._client.update(WORKERS, {**worker, "status": status}, "status")
        return decision.requeue_after

    async def _decide(self, worker: Object) -> ProcessDecision:
        name = worker["metadata"]["name"]
        cluster_count = None
        if needs_cluster_count(worker):
            clusters, _ = await self._client.list_all(MANAGED_CLUSTERS, fields=f"status.assignedWorker={name}")
            cluster_count = len(clusters)
        process = self._processes.state_of(name) if self._processes is not None else ProcessState()
        lease_remaining = self._supervisor_leases.remaining(supervisor_of(worker))
        return decide(worker, self._supervisor_id, process, cluster_count, self._clock.monotonic(), lease_remaining)

    async def _execute(self, worker: Object, action: str) -> None:
        assert self._processes is not None
        name = worker["metadata"]["name"]
        log.info("worker %s: %s", name, action)
        if action == START:
            await self._processes.start(name, worker["metadata"]["uid"])
        elif action == STOP:
            await self._processes.stop(name)
        else:
            await self._processes.remove(name)

    async def _stop_deleted(self, key: Key) -> None:
        """The Worker's finalizers were removed by force: its process is stopped, and its data stays where it is."""
        _, namespace, name = key
        if self._processes is None or namespace != infrav1.NAMESPACE or not self._processes.state_of(name).pid:
            return
        with suppress(NotFound):
            await self._client.get(WORKERS, name, namespace)
            raise RequeueError(f"Worker {name} exists again")
        await self._processes.stop(name)
