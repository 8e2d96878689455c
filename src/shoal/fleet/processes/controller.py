"""Runs the processes of Workers with infrastructure process: starts, restarts and finally stops them.

Every hub replica runs this supervisor, whichever replica leads the other controllers: an annotation on the Worker names
its supervisor. A hub that runs no worker processes reports that on Workers that wait for one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.processes.decide import (
    CLAIM,
    REMOVE,
    START,
    STOP,
    Decision,
    claim_of,
    claimed,
    decide,
    may_be_leaving,
    released,
    told,
)
from shoal.fleet.processes.interface import Here, Processes
from shoal.fleet.processes.places import Places
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]


class Supervisor:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock, processes: Processes | None) -> None:
        self._client, self._clock, self._processes = client, clock, processes
        self._place = processes.id if processes is not None else ""
        self.loop: Loop[Key] = Loop("fleet-processes", clock, self.reconcile)
        self._workers = Reflector(client, WORKERS, clock, lambda key, _: self.loop.queue.add(key), shared=True)
        self._places = Places(client, clock, self._place)
        self.loop.sources += [self._workers.run, self._places.leases.run, self._places.beat]
        if processes is not None:
            processes.listen(lambda name: self.loop.queue.add(("", fleet.NAMESPACE, name)))

    async def reconcile(self, key: Key) -> float | None:
        if not self._workers.synced:
            raise Later("the Workers have not been listed yet")
        worker = self._workers.objects.get(key)
        try:
            if worker is not None:
                return await self._level(worker)
            await self._gone(key)
        except NotFound:
            pass  # The watch reports that as well.
        return None

    async def _level(self, worker: Object) -> float | None:
        decision = await self._decide(worker)
        while decision.act in (START, STOP, REMOVE):
            await self._act(worker, decision.act)
            decision = await self._decide(worker)
        if decision.act:
            patch = claimed(worker, self._place) if decision.act == CLAIM else released(worker)
            await self._client.merge(WORKERS, worker["metadata"]["name"], patch, fleet.NAMESPACE)
        status = told(worker, decision, rfc3339(self._clock.now()))
        if status is not None:
            await self._client.update(WORKERS, {**worker, "status": status}, "status")
        return decision.again

    async def _decide(self, worker: Object) -> Decision:
        name = worker["metadata"]["name"]
        hosted = None
        if may_be_leaving(worker):
            found, _ = await self._client.list_all(MANAGED_CLUSTERS, fields=f"status.assignedWorker={name}")
            hosted = len(found)
        here = self._processes.look(name) if self._processes is not None else Here()
        left = self._places.left(claim_of(worker))
        return decide(worker, self._place, here, hosted, self._clock.monotonic(), left)

    async def _act(self, worker: Object, act: str) -> None:
        assert self._processes is not None
        name = worker["metadata"]["name"]
        log.info("worker %s: %s", name, act)
        if act == START:
            await self._processes.start(name, worker["metadata"]["uid"])
        elif act == STOP:
            await self._processes.stop(name)
        else:
            await self._processes.remove(name)

    async def _gone(self, key: Key) -> None:
        """The Worker's finalizers were removed by force: its process is stopped, and its data stays where it is."""
        _, namespace, name = key
        if self._processes is None or namespace != fleet.NAMESPACE or not self._processes.look(name).pid:
            return
        with suppress(NotFound):
            await self._client.get(WORKERS, name, namespace)
            raise Later(f"worker {name} is there again")
        await self._processes.stop(name)
