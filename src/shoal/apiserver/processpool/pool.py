"""A pool of child processes, and the queue before it. Started on demand; ended when idle and with the server.

Logical clusters take turns. One of them never has all processes while there is more than one, so another one does not
wait for its tasks. What is queued is bounded in number and bytes; beyond that clients get 429.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from shoal.apiserver.processpool.process import ChildProcess, ProcessDied
from shoal.objects.errors import InternalError, TimedOut, TooLarge, TooManyRequests, Unavailable, from_status

log = logging.getLogger("shoal.apiserver")

_MIB = 1024 * 1024
Reply = tuple[dict[str, Any], list[bytes]]


@dataclass(frozen=True, slots=True)
class ProcessPoolConfig:
    max_processes: int = field(default_factory=lambda: max(1, min(4, os.cpu_count() or 1)))
    cpu_seconds: int = 5
    """CPU time of one task, in whole seconds."""
    wall_seconds: float = 30.0
    """A process that takes longer for a task is killed, whatever it waits for."""
    memory_bytes: int = 1024 * _MIB
    """Address space of a process."""
    max_queued: int = 256
    max_queued_per_cluster: int = 32
    max_queued_bytes: int = 64 * _MIB
    idle_seconds: float = 60.0
    """A process without work ends after this time."""


@dataclass(slots=True)
class HeavyLimits:
    """A write is heavy above one of these. The costliest shapes take 1 µs for each byte of JSON, and 2 µs for YAML."""

    body_bytes: int = 32 * 1024
    yaml_bytes: int = 16 * 1024
    """Of YAML or protobuf."""
    dense_bytes: int = 4 * 1024
    """Bodies up to this size are never heavy."""
    dense_elements: int = 1000
    """Of a body, by its commas."""
    object_bytes: int = 32 * 1024
    """Of the object as it is stored."""
    mendable_errors: int = 100
    """A heavy object with more of them is refused before built-in admission, which adds a few fields."""


@dataclass(eq=False, slots=True)
class QueuedTask:
    cluster: str
    header: Mapping[str, Any]
    blobs: Sequence[bytes]
    reply: asyncio.Future[Reply]

    @property
    def size(self) -> int:
        return sum(map(len, self.blobs))


class ProcessPool:
    def __init__(self, module: str, config: ProcessPoolConfig | None = None) -> None:
        """`module` has the functions that the processes run."""
        self._module = module
        self.config = config or ProcessPoolConfig()
        self._queues: OrderedDict[str, deque[QueuedTask]] = OrderedDict()
        """By logical cluster. The next one is at the front."""
        self._queued, self._queued_bytes = 0, 0
        self._running: dict[str, int] = {}
        """Number of running tasks by logical cluster."""
        self._idle: list[tuple[ChildProcess, asyncio.TimerHandle]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self.processes: set[ChildProcess] = set()
        self.outcomes: dict[str, int] = dict.fromkeys(
            ("completed", "cpu_limit", "memory_limit", "timeout", "died", "rejected"), 0
        )

    @property
    def queue_length(self) -> int:
        return self._queued

    @property
    def busy(self) -> set[ChildProcess]:
        return self.processes - {process for process, _ in self._idle}

    async def call(self, cluster: str, task: str, header: Mapping[str, Any], blobs: Sequence[bytes]) -> Reply:
        """Runs a task in a process. Raises what the task raised as a StatusError."""
        header = {**header, "task": task, "cpu_seconds": self.config.cpu_seconds}
        queued = QueuedTask(cluster, header, blobs, asyncio.get_running_loop().create_future())
        self._enqueue(queued)
        self._start_queued()
        try:
            answer, answered_blobs = await queued.reply
        finally:
            self._discard(queued)
        if "status" in answer:
            raise from_status(answer["status"], 500)
        if "failure" in answer:
            log.error("unexpected error in a child process: %s", answer["traceback"])
            raise InternalError(f"Internal error occurred: {answer['failure']}")
        return answer, answered_blobs

    def render_metrics(self, only_cluster: str | None = None) -> str:
        """For /metrics. Empty for the scrape of one logical cluster."""
        if only_cluster is not None:
            return ""
        total, queued, running = "shoal_heavy_requests_total", "shoal_heavy_requests_queued", "shoal_heavy_processes"
        return "\n".join(
            [
                f"# HELP {total} Tasks of heavy requests, by outcome.",
                f"# TYPE {total} counter",
                *(f'{total}{{outcome="{outcome}"}} {count}' for outcome, count in self.outcomes.items()),
                f"# HELP {queued} Tasks of heavy requests that wait for a child process.",
                f"# TYPE {queued} gauge",
                f"{queued} {self._queued}",
                f"# HELP {running} Child processes for heavy requests.",
                f"# TYPE {running} gauge",
                f"{running} {len(self.processes)}",
                "",
            ]
        )

    async def close(self) -> None:
        """Ends all processes. Called when no more requests come."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, timer in self._idle:
            timer.cancel()
        self._idle.clear()
        await asyncio.gather(*(self._end(process) for process in list(self.processes)))

    # --- the queue ---

    def _enqueue(self, task: QueuedTask) -> None:
        config, queue = self.config, self._queues.get(task.cluster)
        if (
            self._queued >= config.max_queued
            or (queue is not None and len(queue) >= config.max_queued_per_cluster)
            or self._queued_bytes + task.size > config.max_queued_bytes
        ):
            self.outcomes["rejected"] += 1
            raise TooManyRequests("Too many requests, please try again later.", retry_after=1)
        self._queues.setdefault(task.cluster, deque()).append(task)
        self._queued += 1
        self._queued_bytes += task.size

    def _discard(self, task: QueuedTask) -> None:
        """Of a client that no longer waits."""
        queue = self._queues.get(task.cluster)
        if queue is not None and task in queue:
            queue.remove(task)
            self._discount(task)

    def _discount(self, task: QueuedTask) -> None:
        self._queued -= 1
        self._queued_bytes -= task.size
        if not self._queues[task.cluster]:
            del self._queues[task.cluster]

    def _start_queued(self) -> None:
        while len(self._tasks) < self.config.max_processes and (queued := self._next()) is not None:
            self._running[queued.cluster] = self._running.get(queued.cluster, 0) + 1
            task = asyncio.get_running_loop().create_task(self._run(queued), name="heavy request")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> QueuedTask | None:
        most = max(1, self.config.max_processes - 1)
        for cluster, queue in self._queues.items():
            if self._running.get(cluster, 0) < most:
                self._queues.move_to_end(cluster)
                task = queue.popleft()
                self._discount(task)
                return task
        return None

    # --- the processes ---

    async def _run(self, queued: QueuedTask) -> None:
        """The task goes on if its client disconnects: a process is dearer than what it still has to compute."""
        try:
            reply = await self._call(queued)
            if not queued.reply.done():
                queued.reply.set_result(reply)
        except Exception as error:
            if not queued.reply.done():
                queued.reply.set_exception(error)
        finally:
            queued.reply.cancel()
            self._running[queued.cluster] -= 1
            if not self._running[queued.cluster]:
                del self._running[queued.cluster]
            current = asyncio.current_task()
            assert current is not None
            self._tasks.discard(current)
            self._start_queued()

    async def _call(self, queued: QueuedTask) -> Reply:
        """A process that was killed by somebody else is replaced once."""
        for _ in range(2):
            with suppress(ProcessDied):
                return await self._call_once(queued)
        self.outcomes["died"] += 1
        raise Unavailable("the process that handled the request has ended; please try again", retry_after=1)

    async def _call_once(self, queued: QueuedTask) -> Reply:
        process, healthy = await self._acquire(), False
        try:
            async with asyncio.timeout(self.config.wall_seconds):
                answer, blobs = await process.call(queued.header, queued.blobs)
            healthy = "out_of_memory" not in answer
        except TimeoutError:
            self.outcomes["timeout"] += 1
            raise TimedOut(_too_heavy(f"{self.config.wall_seconds:g} seconds")) from None
        except ProcessDied as died:
            if not died.cpu_limit:
                raise
            self.outcomes["cpu_limit"] += 1
            raise TimedOut(_too_heavy(f"{self.config.cpu_seconds} seconds of CPU time")) from None
        finally:
            if healthy:
                self._release(process)
            else:
                await self._end(process)
        if not healthy:
            self.outcomes["memory_limit"] += 1
            raise TooLarge(_too_heavy(f"{self.config.memory_bytes // _MIB} MiB of memory"))
        self.outcomes["completed"] += 1
        return answer, blobs

    async def _acquire(self) -> ChildProcess:
        if self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            return process
        process = await ChildProcess.start(self._module, self.config.memory_bytes)
        self.processes.add(process)
        return process

    def _release(self, process: ChildProcess) -> None:
        timer = asyncio.get_running_loop().call_later(self.config.idle_seconds, self._on_idle, process)
        self._idle.append((process, timer))

    def _on_idle(self, process: ChildProcess) -> None:
        self._idle = [each for each in self._idle if each[0] is not process]
        ending = asyncio.get_running_loop().create_task(self._end(process))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _end(self, process: ChildProcess) -> None:
        await asyncio.shield(process.close())
        self.processes.discard(process)


def _too_heavy(limit: str) -> str:
    return f"the request needs more than {limit}; send a smaller object or a smaller patch"
