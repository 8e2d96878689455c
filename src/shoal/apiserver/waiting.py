"""Forwards the result of one asyncio future to another."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


def hand_on(made: asyncio.Future[T], answer: asyncio.Future[T]) -> None:
    """Copies result, exception or cancellation of `source` to `destination`. Cancelling `destination` cancels
    `source`.
    """

    def done(_: object) -> None:
        error = None if made.cancelled() else made.exception()
        if answer.done() or made.cancelled():
            answer.cancel()
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(made.result())

    made.add_done_callback(done)
    answer.add_done_callback(lambda _: made.cancel() if answer.cancelled() else None)
