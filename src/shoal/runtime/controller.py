"""KindController: one reflector of one kind, a predicate, a work queue and workers that call `reconcile` with the
newest object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import StatusError
from shoal.runtime.queue import WorkQueue
from shoal.runtime.traced import work_on

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
Reconcile = Callable[[Key, Object], Awaitable[float | None]]
"""Receives a key and the newest cached object. Returns seconds until the key is requeued, or None to wait for the next
change.
"""
Wanted = Callable[[Object], bool]

WORKERS = 4


class Controller:
    def __init__(
        self,
        name: str,
        client: Client,
        kind: Kind,
        clock: Clock,
        wanted: Wanted,
        reconcile: Reconcile,
        workers: int = WORKERS,
    ) -> None:
        self.name = name
        self._workers = workers
        self._queue: WorkQueue[Key] = WorkQueue(clock, name)
        self._wanted, self._reconcile = wanted, reconcile
        self.reflector = Reflector(client, kind, clock, self._changed, shared=True)

    def _changed(self, key: Key, obj: Object | None) -> None:
        if obj is not None and self._wanted(obj):
            self._queue.add(key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.reflector.run())
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._queue.close()

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            obj = self.reflector.objects.get(key)
            if obj is None or not self._wanted(obj):
                self._queue.done(key)
                continue
            try:
                later = await work_on(self.name, self._queue, key, partial(self._reconcile, key, obj))
            except (StatusError, Unreachable) as error:
                pause = self._queue.failed(key)
                log.info("%s: %s: %s; again in %.1f s", self.name, "/".join(filter(None, key)), error, pause)
                continue
            except Exception:
                log.exception("%s: %s", self.name, "/".join(filter(None, key)))
                self._queue.failed(key)
                continue
            self._queue.done(key, later)
