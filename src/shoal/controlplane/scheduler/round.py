"""One scheduling cycle of one hosted cluster: binds schedulable pods, evicts victims and reports unschedulable pods.

The next pods are decided while earlier bindings are being written. No write is in flight at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shoal.client.transport import Unreachable
from shoal.controlplane.scheduler import metrics
from shoal.controlplane.scheduler.home import Bind, Evict, Home, Refusal
from shoal.controlplane.scheduler.snapshot import Resident
from shoal.controlplane.scheduler.writing import Writer
from shoal.objects.errors import StatusError

BATCH = 64
"""Pods decided before other tasks run: the store commits their bindings together."""
UNDER_WAY = 4 * BATCH
"""Maximum number of concurrent writes."""


class Round:
    def __init__(self, home: Home, writer: Writer, monotonic: Callable[[], float]) -> None:
        self._home, self._writer, self._monotonic = home, writer, monotonic
        self._under_way: set[asyncio.Task[None]] = set()
        self._through = asyncio.Event()
        self._not_bound: list[Bind] = []
        self.failures: list[Exception] = []

    async def run(self) -> None:
        home, now = self._home, self._monotonic()
        try:
            while binds := metrics.choose(home, BATCH, self._monotonic):
                for bind in binds:
                    self._bind(bind)
                await self._until(UNDER_WAY - BATCH)
            for evict in home.evictions():
                for victim in evict.plan.victims:
                    self._evict(evict, victim)
            await self._until(0)
            metrics.failed(len(self._not_bound))
            # Only now, so that a failed binding is not retried at once.
            for bind in self._not_bound:
                home.not_bound(bind)
            for refusal in home.refusals(now):
                self._tell(refusal)
                await self._until(UNDER_WAY)
            await self._until(0)
        finally:
            for task in self._under_way:
                task.cancel()

    def _bind(self, bind: Bind) -> None:
        self._start(self._writer.bind(bind), lambda: self._not_bound.append(bind))

    def _evict(self, evict: Evict, victim: Resident) -> None:
        self._start(self._writer.evict(evict, victim), lambda: self._home.not_evicted(victim))

    def _tell(self, refusal: Refusal) -> None:
        async def tell() -> None:
            await self._writer.tell(refusal)
            self._home.told(refusal)

        self._start(tell(), lambda: self._home.not_told(refusal))

    def _start(self, work: Awaitable[None], failed: Callable[[], None]) -> None:
        task = asyncio.ensure_future(self._attempt(work, failed))
        self._under_way.add(task)
        task.add_done_callback(self._done)

    async def _attempt(self, work: Awaitable[None], failed: Callable[[], None]) -> None:
        try:
            await work
        except (StatusError, Unreachable) as error:
            self.failures.append(error)
            failed()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._through.set()

    async def _until(self, few: int) -> None:
        """Waits until at most that many writes are in flight."""
        await asyncio.sleep(0)
        while len(self._under_way) > few:
            self._through.clear()
            await self._through.wait()
