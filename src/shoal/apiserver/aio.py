"""Results and errors of asyncio futures."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from shoal.objects.errors import InternalError

T = TypeVar("T")


def forward_result(source: asyncio.Future[T], destination: asyncio.Future[T]) -> None:
    """Copies result, exception or cancellation of `source` to `destination`. Cancelling `destination` cancels
    `source`.
    """

    def on_done(_: object) -> None:
        error = None if source.cancelled() else source.exception()
        if destination.done() or source.cancelled():
            destination.cancel()
        elif error is not None:
            destination.set_exception(error)
        else:
            destination.set_result(source.result())

    source.add_done_callback(on_done)
    destination.add_done_callback(lambda _: source.cancel() if destination.cancelled() else None)


def error_of(task: asyncio.Future[T]) -> BaseException | None:
    """Returns why a request that is done has failed. None if it has not."""
    return InternalError("the request was cancelled") if task.cancelled() else task.exception()
