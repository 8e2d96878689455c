"""Runs one reconcile in a trace span if the change that caused it is traced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from shoal.runtime.workqueue import WorkQueue
from shoal.telemetry import tracing

K = TypeVar("K", bound=Hashable)


async def reconcile_in_span(
    name: str, queue: WorkQueue[K], key: K, reconcile: Callable[[], Awaitable[float | None]]
) -> float | None:
    """Reconciles a key taken from the queue. If it fails, the retry continues the same trace."""
    tracer = tracing.tracer
    if tracer is None:
        return await reconcile()
    context = queue.pop_trace(key)
    tracing.current_context.set(None)
    if context is None:
        return await reconcile()
    try:
        with tracer.span(
            name.partition(" ")[0], f"reconcile {name}", tracing.SPAN_KIND_INTERNAL, context, key=key_text(key)
        ):
            return await reconcile()
    except Exception:
        queue.set_trace(key, context)
        raise


def key_text(key: Hashable) -> str:
    if isinstance(key, tuple) and not hasattr(key, "title"):
        return "/".join(str(part) for part in key if part)
    return str(key if isinstance(key, str) else getattr(key, "title", key))
