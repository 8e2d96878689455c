"""The loads that ask and are answered: get, list, create, update, delete."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator

import orjson

from bench.connection import BodyConnection, LoadConnection
from bench.load import Figures, Job, Meter, Source, ask, connect, drive
from bench.subject import FIRST_SEQUENCE, collection, machine

_VERSION = b'"resourceVersion":"'
_MARK = "@name@"


def object_name(number: int) -> str:
    return f"m-{number:08d}"


async def get(job: Job) -> Figures:
    """The first object of the namespace, again and again."""
    return await _repeat(job, job.head("GET", f"{collection(job.namespace)}/{object_name(0)}"))


async def list_all(job: Job) -> Figures:
    """Every object of the namespace, consistent: without a resourceVersion."""
    return await _repeat(job, job.head("GET", collection(job.namespace)), least=2)


async def _repeat(job: Job, request: bytes, least: int = 0) -> Figures:
    connections = await connect(job, LoadConnection, job.connections)
    await drive(connections, lambda _: _until(job.warm, request, 1), Figures())
    figures = Figures()
    with Meter(job, figures):
        await drive(connections, lambda _: _until(job.seconds, request, least), figures)
    return figures


def _until(seconds: float, request: bytes, least: int) -> Source:
    end = time.perf_counter() + seconds
    left = least

    def source() -> bytes | None:
        nonlocal left
        left -= 1
        return request if left >= 0 or time.perf_counter() < end else None

    return source


async def create(job: Job) -> Figures:
    """`count` objects that were not there."""
    mark = _MARK.ljust(len(object_name(0)), "@")
    body = orjson.dumps(machine(job.namespace, mark))
    before, after = body.split(mark.encode())
    opening = job.head("POST", collection(job.namespace), len(body)) + before
    requests = (b"%b%b%b" % (opening, object_name(number).encode(), after) for number in range(job.count))
    return await _each(job, requests)


async def delete(job: Job) -> Figures:
    """The objects that `create` made."""
    path = collection(job.namespace)
    return await _each(job, (job.head("DELETE", f"{path}/{object_name(number)}") for number in range(job.count)))


async def _each(job: Job, requests: Iterator[bytes]) -> Figures:
    connections = await connect(job, LoadConnection, job.connections)
    figures = Figures()
    with Meter(job, figures):
        await drive(connections, lambda _: lambda: next(requests, None), figures)
    return figures


class Updates:
    """PUTs of the objects one connection owns, each with the resourceVersion of its last answer."""

    def __init__(self, job: Job, connection: BodyConnection, numbers: list[int]) -> None:
        self._job, self.connection = job, connection
        self._names = [object_name(number) for number in numbers]
        self._turn = 0
        self._versions: list[bytes] = []
        self._parts: list[tuple[bytes, bytes, bytes]] = []

    async def prepare(self) -> None:
        """Learns the versions; makes the bodies, cut where version and sequence go in."""
        path, sequence = collection(self._job.namespace), str(FIRST_SEQUENCE).encode()
        for name in self._names:
            self._versions.append(version_in(await ask(self.connection, self._job.head("GET", f"{path}/{name}"))))
            body = orjson.dumps(machine(self._job.namespace, name, version=_MARK))
            before, rest = body.split(_MARK.encode())
            middle, after = rest.split(b'"sequence":' + sequence)
            self._parts.append((before, middle + b'"sequence":', after))

    def learn(self) -> None:
        """From the answer to the last PUT, before the next is made."""
        if self.connection.status < 300:
            self._versions[(self._turn - 1) % len(self._names)] = version_in(self.connection.body)

    def next(self, sequence: int) -> bytes:
        if self._turn:
            self.learn()
        index = self._turn % len(self._names)
        self._turn += 1
        before, middle, after = self._parts[index]
        body = b"%b%b%b%d%b" % (before, self._versions[index], middle, sequence, after)
        path = f"{collection(self._job.namespace)}/{self._names[index]}"
        return self._job.head("PUT", path, len(body)) + body


def version_in(body: bytes) -> bytes:
    at = body.index(_VERSION) + len(_VERSION)
    return body[at : body.index(b'"', at)]


def fresh_sequences() -> Iterator[int]:
    """Numbers no earlier run has written: an update that changes nothing is no write and no event."""
    return itertools.count(time.time_ns() // 1000)


async def updaters(job: Job, connections: list[BodyConnection]) -> dict[BodyConnection, Updates]:
    """The namespace's objects, dealt out to the connections."""
    width = len(connections)
    found = {c: Updates(job, c, list(range(index, job.count, width))) for index, c in enumerate(connections)}
    await asyncio.gather(*(updates.prepare() for updates in found.values()))
    return found


async def update(job: Job) -> Figures:
    """The objects of the namespace in turn; every PUT changes one number."""
    connections = await connect(job, BodyConnection, job.connections)
    owned = await updaters(job, connections)
    sequences = fresh_sequences()

    def until(connection: BodyConnection, end: float) -> Source:
        updates = owned[connection]
        return lambda: updates.next(next(sequences)) if time.perf_counter() < end else None

    end = time.perf_counter() + job.warm
    await drive(connections, lambda connection: until(connection, end), Figures())
    figures = Figures()
    with Meter(job, figures):
        end = time.perf_counter() + job.seconds
        await drive(connections, lambda connection: until(connection, end), figures)
    return figures
