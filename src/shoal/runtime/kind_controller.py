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
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import StatusError
from shoal.runtime.reconcile_tracing import reconcile_in_span
from shoal.runtime.workqueue import WorkQueue

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
ReconcileFunc = Callable[[Key, Object], Awaitable[float | None]]
"""Receives a key and the newest cached object. Returns seconds until the key is requeued, or None to wait for the next
change.
"""
Predicate = Callable[[Object], bool]

WORKERS = 4


class KindController:
    def __init__(
        self,
        name: str,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        predicate: Predicate,
        reconcile: ReconcileFunc,
        workers: int = WORKERS,
    ) -> None:
        self.name = name
        self._workers = workers
        self._queue: WorkQueue[Key] = WorkQueue(clock, name)
        self._predicate, self._reconcile = predicate, reconcile
        self.reflector = Reflector(client, gvr, clock, self._handle_object, shared=True)

    def _handle_object(self, key: Key, obj: Object | None) -> None:
        if obj is not None and self._predicate(obj):
            self._queue.add(key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.reflector.run())
                for _ in range(self._workers):
                    group.create_task(self._run_worker())
        finally:
            self._queue.close()

    async def _run_worker(self) -> None:
        while True:
            key = await self._queue.get()
            obj = self.reflector.objects.get(key)
            if obj is None or not self._predicate(obj):
                self._queue.done(key)
                continue
            try:
                requeue_after = await reconcile_in_span(self.name, self._queue, key, partial(self._reconcile, key, obj))
            except (StatusError, Unreachable) as error:
                delay = self._queue.retry(key)
                log.info(
                    "%s: reconciling %s failed: %s; retrying in %.1f s",
                    self.name,
                    "/".join(filter(None, key)),
                    error,
                    delay,
                )
                continue
            except Exception:
                log.exception("%s: reconciling %s failed", self.name, "/".join(filter(None, key)))
                self._queue.retry(key)
                continue
            self._queue.done(key, requeue_after)
