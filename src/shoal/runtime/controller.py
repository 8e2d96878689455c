"""Controller: several sources feed one work queue, and workers call `reconcile(key)`. Level-triggered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import ShoalError, StatusError
from shoal.runtime.reconcile_tracing import reconcile_in_span
from shoal.runtime.workqueue import WorkQueue

log = logging.getLogger("shoal.runtime")

K = TypeVar("K", bound=Hashable)
Source = Callable[[], Awaitable[None]]
"""Runs for ever and adds keys to the controller's queue, for example `Reflector.run`."""

WORKERS = 4


class RequeueError(ShoalError):
    """Raised by `reconcile` when nothing can be done yet. The key is requeued with exponential backoff and logged
    without a traceback.
    """


class Controller(Generic[K]):
    def __init__(
        self, name: str, clock: Clock, reconcile: Callable[[K], Awaitable[float | None]], workers: int = WORKERS
    ) -> None:
        """`reconcile` returns seconds until the key is requeued, or None to wait for the next change. The part of the
        name after a space distinguishes controllers of one type; it is left out of metrics.
        """
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(clock, name.partition(" ")[0])
        self.sources: list[Source] = []
        self._reconcile, self._workers = reconcile, workers

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for source in self.sources:
                    group.create_task(_run_source(source))
                for _ in range(self._workers):
                    group.create_task(self._run_worker())
        finally:
            self.queue.close()

    async def _run_worker(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                requeue_after = await reconcile_in_span(self.name, self.queue, key, partial(self._reconcile, key))
            except (StatusError, Unreachable, RequeueError) as error:
                delay = self.queue.retry(key)
                log.info("%s: reconciling %s failed: %s; retrying in %.1f s", self.name, key, error, delay)
            except Exception:
                log.exception("%s: reconciling %s failed", self.name, key)
                self.queue.retry(key)
            else:
                self.queue.done(key, requeue_after)


async def _run_source(source: Source) -> None:
    await source()
