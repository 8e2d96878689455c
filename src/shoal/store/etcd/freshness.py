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

PATIENCE_SECONDS = 15.0
MANY = 4
REST_SECONDS = 0.001


class Freshness:
    def __init__(self, newest: Callable[[], Awaitable[int]], reached: Callable[[int], Awaitable[None]]) -> None:
        self._newest, self._reached = newest, reached
        self._waiting: list[asyncio.Future[None]] = []
        self._asking: asyncio.Task[None] | None = None
        self._rest_until = 0.0

    def __call__(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiting)
        if self._asking is None:
            self._asking = loop.create_task(self._rounds())
        return waiting

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _rounds(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                if loop.time() < self._rest_until:
                    await asyncio.sleep(REST_SECONDS)
                answered, self._waiting = self._waiting, []
                error = await self._round()
                if len(answered) >= MANY:
                    self._rest_until = loop.time() + REST_SECONDS
                for waiting in answered:
                    if waiting.done():
                        continue
                    if error is None:
                        waiting.set_result(None)
                    else:
                        waiting.set_exception(error)
        finally:
            self._asking = None

    async def _round(self) -> StoreError | None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._reached(await self._newest())
        except TimeoutError:
            return StoreUnavailable("etcd answers, but does not tell of changes; the watch of it is cut")
        except StoreError as error:
            return error
        return None
