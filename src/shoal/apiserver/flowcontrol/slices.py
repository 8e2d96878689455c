"""Runs long reads in slices, so that no turn of the event loop is longer than a slice, whatever one client asks for.

A long read is a generator that yields after every small step and returns its answer. A function that cannot yield
calls a `pause` instead (`sliced_call`). A read that ends within its first
slice is answered at once, without a task. The others take turns in fair order, by the time they have had: one slice in
each turn of the event loop for all of them together. A read works on a snapshot that it took before its first step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar

from shoal.apiserver.flowcontrol.fairqueue import FairQueue
from shoal.apiserver.flowcontrol.sliced_call import SlicedFunc, limited_pause, sliced_call
from shoal.objects.errors import TooCostlyForLoopError, TooManyRequests

log = logging.getLogger("shoal.apiserver")

T = TypeVar("T")

Slices = Generator[None, None, T]
"""A read in small steps. Its return value is the answer."""
QueuePath = tuple[tuple[Hashable, float], ...]
"""Key and weight in every tier of the fair queue: logical cluster, priority level and flow."""


@dataclass(frozen=True, slots=True)
class SliceConfig:
    first_seconds: float = 0.005
    """Seconds a read may take before it becomes a long read."""
    crowded_seconds: float = 0.001
    """The same while its logical cluster has as many long reads as may run: what it has built by then must wait."""
    turn_seconds: float = 0.01
    """Seconds of one event loop turn that are given to long reads."""
    running_per_cluster: int = 4
    running: int = 32
    """Long reads that run at once. Each holds the part of its answer that it has built."""
    waiting_per_cluster: int = 100
    """Long reads that may wait. Further ones are rejected with 429."""


@dataclass(eq=False, slots=True)
class LongRead(Generic[T]):
    slices: Slices[T]
    path: QueuePath
    answer: asyncio.Future[T]

    @property
    def cluster(self) -> Hashable:
        return self.path[0][0]


@dataclass(frozen=True, slots=True)
class RemainingSlices(Generic[T]):
    """Awaits the rest of a read. Not a coroutine: a client may disconnect before anybody awaits it."""

    finish: Callable[[], Coroutine[Any, Any, T]]

    def __await__(self) -> Generator[Any, Any, T]:
        return self.finish().__await__()


class SliceScheduler:
    def __init__(self, config: SliceConfig | None = None) -> None:
        self._config = config or SliceConfig()
        self._ready: FairQueue[LongRead[Any]] = FairQueue()
        """Running reads, which get a slice each in fair order."""
        self._waiting: FairQueue[LongRead[Any]] = FairQueue()
        self._running_by_cluster: dict[Hashable, int] = {}
        self._waiting_by_cluster: dict[Hashable, int] = {}
        self._turn_scheduled = False
        self._tasks: set[asyncio.Future[None]] = set()
        self.on_slice: Callable[[QueuePath, float], None] = _ignore_slice
        """Called with the seconds that a flow has used outside of the dispatcher's queue."""

    @property
    def running_count(self) -> int:
        return sum(self._running_by_cluster.values())

    @property
    def waiting_count(self) -> int:
        return self._waiting.size

    def run(self, path: QueuePath, slices: Slices[T]) -> T | Awaitable[T]:
        """Runs the first slice. Returns the answer, or an awaitable if there is more to do."""
        seconds = self._config.crowded_seconds if self._is_full(path[0][0]) else self._config.first_seconds
        try:
            _advance(slices, perf_counter() + seconds)
        except StopIteration as done:
            answer: T = done.value
            return answer
        return RemainingSlices(partial(self._finish, path, slices))

    async def complete(self, path: QueuePath, slices: Slices[T]) -> T:
        """As `run`, for a caller that can wait."""
        try:
            _advance(slices, perf_counter() + self._config.crowded_seconds)
        except StopIteration as done:
            answer: T = done.value
            return answer
        return await self._finish(path, slices)

    async def call(self, path: QueuePath, func: SlicedFunc[T]) -> T:
        """Calls a function that calls `pause` often. It is called again from the start if it is a long one."""
        try:
            return func(limited_pause(self._config.first_seconds))
        except TooCostlyForLoopError:
            return await self._finish(path, sliced_call(func))

    def run_later(self, path: QueuePath, slices: Slices[None]) -> None:
        """As `run`, for work whose result nobody waits for."""
        rest = self.run(path, slices)
        if rest is not None:
            task = asyncio.ensure_future(rest)
            self._tasks.add(task)
            task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("work in slices failed: %s", error)

    async def _finish(self, path: QueuePath, slices: Slices[T]) -> T:
        """Runs the other slices. A client that disconnects cancels this, and the read gets no further slice."""
        read = LongRead(slices, path, asyncio.get_running_loop().create_future())
        if self._is_full(read.cluster):
            waiting = self._waiting_by_cluster.get(read.cluster, 0)
            if waiting >= self._config.waiting_per_cluster:
                raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
            self._waiting_by_cluster[read.cluster] = waiting + 1
            self._waiting.push(path, read)
        else:
            self._admit(read)
        answer: T = await read.answer
        return answer

    def _is_full(self, cluster: Hashable) -> bool:
        in_cluster = self._running_by_cluster.get(cluster, 0)
        return in_cluster >= self._config.running_per_cluster or self.running_count >= self._config.running

    def _is_eligible(self, level: Any) -> bool:
        """`level` is a key of the second tier, which names the cluster as well."""
        return not self._is_full(level[0])

    def _admit(self, read: LongRead[Any]) -> None:
        self._running_by_cluster[read.cluster] = self._running_by_cluster.get(read.cluster, 0) + 1
        self._ready.push(read.path, read)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Runs once in each event loop turn while there are long reads."""
        end = perf_counter() + self._config.turn_seconds
        while (popped := self._ready.pop()) is not None:
            (read, node), started = popped, perf_counter()
            if not read.answer.done() and self._advance_read(read, end):
                self._ready.push(read.path, read)
            else:
                read.slices.close()
                self._release(read)
            node.cost = perf_counter() - started
            self.on_slice(read.path, node.cost)
            if perf_counter() >= end:
                break
        self._turn_scheduled = self._ready.size > 0
        if self._turn_scheduled:
            asyncio.get_running_loop().call_soon(self._turn)

    def _advance_read(self, read: LongRead[Any], end: float) -> bool:
        """Returns whether there is more to do."""
        try:
            _advance(read.slices, end)
        except StopIteration as done:
            read.answer.set_result(done.value)
            return False
        except Exception as error:
            read.answer.set_exception(error)
            return False
        return True

    def _release(self, read: LongRead[Any]) -> None:
        _decrement(self._running_by_cluster, read.cluster)
        while (popped := self._waiting.pop(self._is_eligible)) is not None:
            next_read = popped[0]
            _decrement(self._waiting_by_cluster, next_read.cluster)
            if not next_read.answer.done():
                self._admit(next_read)


def _advance(slices: Slices[T], end: float) -> None:
    """Runs steps until that time. Raises StopIteration with the answer at the end."""
    while True:
        next(slices)
        if perf_counter() > end:
            return


def _decrement(counts: dict[Hashable, int], key: Hashable) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _ignore_slice(path: QueuePath, seconds: float) -> None:
    """Nobody counts the slices."""
