"""The work on one key as a span, where what led to it is traced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from shoal.runtime.queue import WorkQueue
from shoal.telemetry import tracing

K = TypeVar("K", bound=Hashable)


async def work_on(name: str, queue: WorkQueue[K], key: K, work: Callable[[], Awaitable[float | None]]) -> float | None:
    """The work on a key that was taken. One that fails goes on with its trace when it is tried again."""
    tracer = tracing.tracer
    if tracer is None:
        return await work()
    context = queue.trace(key)
    tracing.current.set(None)
    if context is None:
        return await work()
    try:
        with tracer.span(name.partition(" ")[0], f"reconcile {name}", tracing.INTERNAL, context, key=_said(key)):
            return await work()
    except Exception:
        queue.follow(key, context)
        raise


def _said(key: Hashable) -> str:
    if isinstance(key, tuple) and not hasattr(key, "title"):
        return "/".join(str(part) for part in key if part)
    return str(key if isinstance(key, str) else getattr(key, "title", key))
