"""Controller: informers and other sources feed one work queue, and workers call `reconcile(key)`. Level-triggered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from shoal.client.reflector import Key
from shoal.client.transport import Unreachable, is_task_cancelled
from shoal.clock import Clock
from shoal.objects.errors import Forbidden, ShoalError, StatusError
from shoal.runtime.informer import EventHandler, Informer
from shoal.runtime.workqueue import WorkQueue
from shoal.telemetry import tracing

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
K = TypeVar("K", bound=Hashable)
Source = Callable[[], Awaitable[None]]
"""Runs for ever and adds keys to the controller's queue, for example `Informer.run`."""

FailureHandler = Callable[[str, str], None]
"""Called with the name of a controller and its error; an empty error: it is healthy again."""

WORKERS = 4
ROOT = "root"


def _ignore_failure(name: str, error: str) -> None:
    """Used without a manager."""


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
        self.on_failure: FailureHandler = _ignore_failure
        self._forbidden: set[K] = set()
        """Keys whose last reconcile was refused: the controller's account lacks a permission."""
        self._reconcile, self._workers = reconcile, workers

    def watch(self, informer: Informer, handler: EventHandler) -> None:
        """Runs the informer as a source of this controller. The handler adds keys to the queue."""
        informer.add_event_handler(handler)
        self.sources.append(informer.run)

    async def run(self) -> None:
        """Runs until it is cancelled or a source fails. May be called again afterwards; keys are kept."""
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
                requeue_after = await _reconcile_in_span(self.name, self.queue, key, partial(self._reconcile, key))
            except (StatusError, Unreachable, RequeueError) as error:
                if _is_missing_permission(error):
                    self._forbidden.add(key)
                    self.on_failure(self.name, str(error))
                delay = self.queue.retry(key)
                log.info("%s: reconciling %s failed: %s; retrying in %.1f s", self.name, _key_text(key), error, delay)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_task_cancelled():
                    raise
                log.exception("%s: reconciling %s failed", self.name, _key_text(key))
                self.queue.retry(key)
            else:
                self.queue.done(key, requeue_after)
                if key in self._forbidden:
                    self._forbidden.discard(key)
                    if not self._forbidden:
                        self.on_failure(self.name, "")
            # Reads of a server in the same process never suspend, so a long queue would hold the loop.
            await asyncio.sleep(0)


def new_kind_controller(
    name: str,
    informer: Informer,
    clock: Clock,
    predicate: Callable[[Object], bool],
    reconcile: Callable[[Key, Object], Awaitable[float | None]],
    workers: int = WORKERS,
) -> Controller[Key]:
    """A controller of one kind: `reconcile` is called with the newest object while the predicate selects it."""

    async def reconcile_object(key: Key) -> float | None:
        obj = informer.get(key)
        return await reconcile(key, obj) if obj is not None and predicate(obj) else None

    def enqueue(key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and predicate(new):
            controller.queue.add(key)

    controller: Controller[Key] = Controller(name, clock, reconcile_object, workers)
    controller.watch(informer, enqueue)
    return controller


def _is_missing_permission(error: Exception) -> bool:
    """Reports whether the controller's account lacks a permission of the server. Users of other logical clusters may
    remove theirs, which is no failure of the server.
    """
    return isinstance(error, Forbidden) and error.is_permission_missing and error.cluster in ("", ROOT)


async def _run_source(source: Source) -> None:
    """A task group ignores a task that ends with a CancelledError. From a source that was not asked to end it is an
    error like any other.
    """
    try:
        await source()
    except asyncio.CancelledError as error:
        if is_task_cancelled():
            raise
        raise ShoalError("a source was cancelled from within") from error


async def _reconcile_in_span(
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
            name.partition(" ")[0], f"reconcile {name}", tracing.SPAN_KIND_INTERNAL, context, key=_key_text(key)
        ):
            return await reconcile()
    except Exception:
        queue.set_trace(key, context)
        raise


def _key_text(key: Hashable) -> str:
    if isinstance(key, tuple) and not hasattr(key, "title"):
        return "/".join(str(part) for part in key if part)
    return str(key if isinstance(key, str) else getattr(key, "title", key))
