"""Makes slices of a plain function, such as an evaluation of CEL, that calls `pause` every few milliseconds.

The function runs in a thread, but only while the thread of the event loop waits for it. The two never run at once, so
the function may read what belongs to the event loop. It may not await.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Generic, TypeVar

from shoal.objects.errors import TooCostlyForLoopError

T = TypeVar("T")

PauseFunc = Callable[[], None]
SlicedFunc = Callable[[PauseFunc], T]

STEP_SECONDS = 0.001
"""Least time between two changes of thread, which take some 20 µs."""


class CallEnded(BaseException):
    """Raised by `pause` when the slices are closed."""


def limited_pause(seconds: float) -> PauseFunc:
    """Returns a `pause` that raises TooCostlyForLoopError when the time is over."""
    end = perf_counter() + seconds

    def pause() -> None:
        if perf_counter() > end:
            raise TooCostlyForLoopError

    return pause


def sliced_call(func: SlicedFunc[T]) -> Generator[None, None, T]:
    """Returns or raises what the function does. Closing the generator ends the function at its next pause."""
    call = _SlicedCall(func)
    try:
        while not call.step():
            yield
    finally:
        call.end()
    if call.error is not None:
        raise call.error
    return call.results[0]


class _SlicedCall(Generic[T]):
    """Two locks pass the turn between the threads. Each thread waits for its own."""

    def __init__(self, func: SlicedFunc[T]) -> None:
        self._func = func
        self._may_run, self._may_look = threading.Lock(), threading.Lock()
        self._may_run.acquire()
        self._may_look.acquire()
        self._resumed_at = 0.0
        self._has_ended = False
        self._thread: threading.Thread | None = None
        self.results: list[T] = []
        self.error: BaseException | None = None

    def step(self) -> bool:
        """Runs the function up to its next pause. Returns whether it has returned."""
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="sliced-call", daemon=True)
            self._thread.start()
        self._may_run.release()
        self._may_look.acquire()
        return bool(self.results) or self.error is not None

    def end(self) -> None:
        self._has_ended = True
        if self._thread is not None:
            while not self.results and self.error is None:
                self.step()
            self._thread.join()

    def _run(self) -> None:
        self._may_run.acquire()
        self._resumed_at = perf_counter()
        try:
            self.results.append(self._func(self._pause))
        except BaseException as error:
            self.error = error
        self._may_look.release()

    def _pause(self) -> None:
        if perf_counter() < self._resumed_at + STEP_SECONDS:
            return
        self._may_look.release()
        self._may_run.acquire()
        self._resumed_at = perf_counter()
        if self._has_ended:
            raise CallEnded
