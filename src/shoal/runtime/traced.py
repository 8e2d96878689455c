"""Runs one reconcile in a trace span if the change that caused it is traced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from shoal.runtime.queue import WorkQueue
from shoal.telemetry import tracing

K = TypeVar("K", bound=Hashable)


async def work_on(name: str, queue: WorkQueue[K], key: K, work: Callable[[], Awaitable[float | None]]) -> float | None:
    """Reconciles a key taken from the queue. If it fails, the retry continues the same trace."""
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
