"""The same call many times over, some at once: carefully at first, so that what cannot work fails once, not often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shoal.client.transport import Unreachable
from shoal.objects.errors import StatusError

AT_ONCE = 256
"""Enough for full group commits of the store."""


async def slow_start(count: int, call: Callable[[], Awaitable[object]]) -> Exception | None:
    """One, two, four calls and so on, up to `AT_ONCE` together; ends after the batch that had a failure, the first
    of which is answered."""
    size = 1
    while count > 0:
        results = await asyncio.gather(*(_tried(call) for _ in range(min(size, count))))
        failure = next((result for result in results if result is not None), None)
        if failure is not None:
            return failure
        count -= len(results)
        size = min(size * 2, AT_ONCE)
    return None


async def each(calls: list[Callable[[], Awaitable[object]]]) -> Exception | None:
    """All of them, whatever becomes of the others; answers the first failure."""
    failure: Exception | None = None
    for start in range(0, len(calls), AT_ONCE):
        results = await asyncio.gather(*(_tried(call) for call in calls[start : start + AT_ONCE]))
        failure = failure or next((result for result in results if result is not None), None)
    return failure


async def _tried(call: Callable[[], Awaitable[object]]) -> Exception | None:
    try:
        await call()
    except (StatusError, Unreachable) as error:
        return error
    return None
