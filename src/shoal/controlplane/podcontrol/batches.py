"""Runs a call many times concurrently, with a slow start so that a call that cannot succeed fails once and not many
times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

MAX_CONCURRENT = 256
"""Enough for full group commits of the store."""


async def slow_start(count: int, call: Callable[[], Awaitable[object]]) -> Exception | None:
    """Runs one, two, four calls and so on, up to `MAX_CONCURRENT` at once. Stops after a batch with a failure and
    returns the first one.
    """
    size = 1
    while count > 0:
        results = await asyncio.gather(*(_capture_error(call) for _ in range(min(size, count))))
        failure = next((result for result in results if result is not None), None)
        if failure is not None:
            return failure
        count -= len(results)
        size = min(size * 2, MAX_CONCURRENT)
    return None


async def run_all(calls: list[Callable[[], Awaitable[object]]]) -> Exception | None:
    """Runs all calls regardless of failures and returns the first failure."""
    failure: Exception | None = None
    for start in range(0, len(calls), MAX_CONCURRENT):
        results = await asyncio.gather(*(_capture_error(call) for call in calls[start : start + MAX_CONCURRENT]))
        failure = failure or next((result for result in results if result is not None), None)
    return failure


async def _capture_error(call: Callable[[], Awaitable[object]]) -> Exception | None:
    """Any error: the key must not be retried while other calls of the batch still run."""
    try:
        await call()
    except Exception as error:
        return error
    return None
