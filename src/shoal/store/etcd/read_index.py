"""Linearizable read barrier (raft ReadIndex): waits until this server has delivered everything that any server of the
store had acknowledged. One etcd read serves all waiters.

A caller that comes while a read is in flight waits for the next one, because the first may have been answered before. A
read costs as much as ten responses from memory, so after one for many waiters the next is delayed for a moment: their
clients come again and share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shoal.objects.errors import StoreError
from shoal.store.interface import StoreUnavailable

TIMEOUT_SECONDS = 15.0
REST_THRESHOLD = 4
REST_SECONDS = 0.001


class ReadIndexBatcher:
    def __init__(
        self, newest_revision: Callable[[], Awaitable[int]], wait_for_revision: Callable[[int], Awaitable[None]]
    ) -> None:
        self._newest_revision, self._wait_for_revision = newest_revision, wait_for_revision
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._rest_until = 0.0

    def __call__(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiters.append(future)
        if self._task is None:
            self._task = loop.create_task(self._run())
        return future

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiters:
                if loop.time() < self._rest_until:
                    await asyncio.sleep(REST_SECONDS)
                waiters, self._waiters = self._waiters, []
                error = await self._read_once()
                if len(waiters) >= REST_THRESHOLD:
                    self._rest_until = loop.time() + REST_SECONDS
                for future in waiters:
                    if future.done():
                        continue
                    if error is None:
                        future.set_result(None)
                    else:
                        future.set_exception(error)
        finally:
            self._task = None

    async def _read_once(self) -> StoreError | None:
        try:
            revision = await self._newest_revision()
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._wait_for_revision(revision)
        except TimeoutError:
            return StoreUnavailable("etcd answers, but its watch delivers no changes")
        except StoreError as error:
            return error
        return None
