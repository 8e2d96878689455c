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
from shoal.runtime.queue import WorkQueue
from shoal.runtime.traced import work_on

log = logging.getLogger("shoal.runtime")

K = TypeVar("K", bound=Hashable)
Source = Callable[[], Awaitable[None]]
"""Runs for ever and adds keys to the controller's queue, for example `Reflector.run`."""

WORKERS = 4


class Later(ShoalError):
    """Raised by `reconcile` when nothing can be done yet. The key is requeued with exponential backoff and logged
    without a traceback.
    """


class Loop(Generic[K]):
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
                    group.create_task(_forever(source))
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                later = await work_on(self.name, self.queue, key, partial(self._reconcile, key))
            except (StatusError, Unreachable, Later) as error:
                pause = self.queue.failed(key)
                log.info("%s: %s: %s; again in %.1f s", self.name, key, error, pause)
            except Exception:
                log.exception("%s: %s", self.name, key)
                self.queue.failed(key)
            else:
                self.queue.done(key, later)


async def _forever(source: Source) -> None:
    await source()
