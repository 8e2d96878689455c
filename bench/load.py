"""What every load has in common: the job, connections kept busy, wall and CPU time, the figures."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bench.connection import BodyConnection, LoadConnection, tls
from bench.processes import cpu_seconds

CONNECTING = 32
"""TLS handshakes under way at once."""

C = TypeVar("C", bound=LoadConnection)
Source = Callable[[], bytes | None]
"""The next request of one connection; None is the end."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one run of the generator does; `bench.verbs` and `bench.fanout` have the meanings."""

    host: str
    port: int
    token: str
    verb: str
    namespace: str
    pids: dict[str, list[int]]
    connections: int = 1
    seconds: float = 5.0
    """How long requests are sent, for verbs that can repeat."""
    warm: float = 0.5
    count: int = 0
    """How many objects, for verbs that use each once."""
    gzip: bool = False
    watchers: int = 0
    updates: int = 0
    rate: float = 0.0
    """Updates per second; 0 is as fast as possible."""

    def head(self, method: str, path: str, length: int = 0) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", f"Authorization: Bearer {self.token}"]
        lines += ["Accept: application/json", f"Accept-Encoding: {'gzip' if self.gzip else 'identity'}"]
        lines += ["User-Agent: shoal-bench"]
        if length:
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(slots=True)
class Figures:
    """What came of it; times in seconds."""

    operations: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    received: int = 0
    cpu: dict[str, float] = field(default_factory=dict)
    client_cpu: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)

    def record_failure(self, reason: str) -> None:
        self.errors[reason] = self.errors.get(reason, 0) + 1

    def summary(self) -> dict[str, Any]:
        ordered = sorted(self.latencies)
        return {
            "operations": self.operations,
            "seconds": self.seconds,
            "p50_ms": quantile(ordered, 0.50) * 1000,
            "p99_ms": quantile(ordered, 0.99) * 1000,
            "bytes": self.received / max(1, self.operations),
            "cpu": self.cpu,
            "client_cpu": self.client_cpu,
            "errors": self.errors,
        }


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Meter:
    """Wall and CPU time between entering and leaving, into the figures."""

    def __init__(self, job: Job, figures: Figures) -> None:
        self._job, self._figures = job, figures

    def _cpu(self) -> dict[str, float]:
        return {program: cpu_seconds(pids) for program, pids in self._job.pids.items()}

    def __enter__(self) -> None:
        self._before = self._cpu()
        self._client = own_cpu()
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._figures.seconds = time.perf_counter() - self._began
        self._figures.client_cpu = own_cpu() - self._client
        self._figures.cpu = {program: value - self._before[program] for program, value in self._cpu().items()}


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class RequestLane:
    """One connection's share of a run: the next request follows the last answer at once."""

    def __init__(self, connection: LoadConnection, source: Source, figures: Figures) -> None:
        self._connection, self._source, self._figures = connection, source, figures
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection.on_lost = self._on_connection_lost
        self._next()

    def _next(self) -> None:
        request = self._source()
        if request is None:
            self.ended.set_result(None)
            return
        self._sent = time.perf_counter()
        self._connection.send(request, self._on_answer)

    def _on_answer(self, connection: LoadConnection) -> None:
        self._figures.latencies.append(time.perf_counter() - self._sent)
        if connection.status >= 300:
            self._figures.record_failure(f"status {connection.status}")
        self._next()

    def _on_connection_lost(self) -> None:
        if not self.ended.done():
            self._figures.record_failure("connection lost")
            self.ended.set_result(None)


async def drive(connections: list[C], source: Callable[[C], Source], figures: Figures) -> None:
    """All connections at once, each until its source ends."""
    before = sum(connection.received for connection in connections)
    lanes = [RequestLane(connection, source(connection), figures) for connection in connections]
    await asyncio.gather(*(lane.ended for lane in lanes))
    figures.operations = len(figures.latencies)
    figures.received = sum(connection.received for connection in connections) - before


async def connect(job: Job, make: Callable[[], C], count: int) -> list[C]:
    context, gate = tls(), asyncio.Semaphore(CONNECTING)

    async def one() -> C:
        async with gate:
            connection = make()
            await connection.open(job.host, job.port, context)
            return connection

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def ask(connection: BodyConnection, request: bytes) -> bytes:
    """One request, awaited; for preparation."""
    answered = asyncio.get_running_loop().create_future()
    connection.send(request, answered.set_result)
    await answered
    return connection.body
