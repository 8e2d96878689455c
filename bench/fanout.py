"""The load of many watchers: updates go in, every watcher must get every one; latency is from PUT to event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import orjson

from bench.connection import BodyConnection, WatchConnection
from bench.load import Figures, Job, Meter, Source, ask, connect, drive
from bench.subject import FIRST_SEQUENCE, collection
from bench.verbs import Updates, fresh_sequences, updaters

GIVE_UP = 60.0
"""Seconds without a single event, after which the missing ones are called lost."""
_SEQUENCE = b'"sequence":'
_DIGITS = len(str(FIRST_SEQUENCE))


class EventArrivals:
    """Counts events and how long each took since its update was sent."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.sent: dict[bytes, float] = {}
        self.last = time.perf_counter()
        self._wanted = 0
        self._all = asyncio.Event()

    def event(self, line: bytes) -> None:
        at = line.index(_SEQUENCE) + len(_SEQUENCE)
        self.last = time.perf_counter()
        self.latencies.append(self.last - self.sent[line[at : at + _DIGITS]])
        if len(self.latencies) == self._wanted:
            self._all.set()

    def expect(self, count: int) -> None:
        self.latencies.clear()
        self._all.clear()
        self._wanted = count

    async def wait_complete(self) -> None:
        """Returns when all have come, or none has for a while."""
        self.last = time.perf_counter()
        while not self._all.is_set() and time.perf_counter() < self.last + GIVE_UP:
            try:
                await asyncio.wait_for(self._all.wait(), 1.0)
            except TimeoutError:
                continue

    def next_update(self, updates: Updates, sequence: int) -> bytes:
        request = updates.next(sequence)
        self.sent[b"%d" % sequence] = time.perf_counter()
        return request


async def watch(job: Job) -> Figures:
    arrivals = EventArrivals()
    writers = await connect(job, BodyConnection, job.connections)
    owned = await updaters(job, writers)
    newest = orjson.loads(await ask(writers[0], job.head("GET", f"{collection(job.namespace)}?limit=1")))
    path = f"{collection(job.namespace)}?watch=1&resourceVersion={newest['metadata']['resourceVersion']}"
    watchers = await connect(job, lambda: WatchConnection(arrivals.event), job.watchers)
    ended: list[int] = []
    for watcher in watchers:
        watcher.send(job.head("GET", path), lambda connection: ended.append(connection.status))
        watcher.on_lost = lambda: ended.append(0)
    sequences = fresh_sequences()
    await _one_round(arrivals, owned[writers[0]], next(sequences), job)
    figures = Figures()
    arrivals.expect(job.updates * job.watchers)
    with Meter(job, figures):
        before = sum(watcher.received for watcher in watchers)
        await _write(job, owned, arrivals, sequences, figures)
        await arrivals.wait_complete()
    _summarize(figures, arrivals, job.updates * job.watchers)
    figures.received = sum(watcher.received for watcher in watchers) - before
    for status in ended:
        figures.record_failure(f"watch ended with {status}")
    return figures


async def _one_round(arrivals: EventArrivals, updates: Updates, sequence: int, job: Job) -> None:
    """One event for everybody: all watches are open and the paths are warm."""
    arrivals.expect(job.watchers)
    await ask(updates.connection, arrivals.next_update(updates, sequence))
    await arrivals.wait_complete()


async def _write(
    job: Job, owned: dict[BodyConnection, Updates], arrivals: EventArrivals, sequences: Iterator[int], figures: Figures
) -> None:
    left = iter(range(job.updates))
    answers = Figures()
    if not job.rate:

        def source(connection: BodyConnection) -> Source:
            updates = owned[connection]
            return lambda: None if next(left, None) is None else arrivals.next_update(updates, next(sequences))

        await drive(list(owned), source, answers)
    else:
        began, (connection, updates) = time.perf_counter(), next(iter(owned.items()))
        for number in left:
            await asyncio.sleep(max(0.0, began + number / job.rate - time.perf_counter()))
            await ask(connection, arrivals.next_update(updates, next(sequences)))
            if connection.status >= 300:
                answers.record_failure(f"status {connection.status}")
    figures.errors |= answers.errors


def _summarize(figures: Figures, arrivals: EventArrivals, wanted: int) -> None:
    figures.latencies = list(arrivals.latencies)
    figures.operations = len(figures.latencies)
    if figures.operations != wanted:
        figures.errors["events missing"] = wanted - figures.operations
