"""`GET /backup`: streams the store of a running server, in the file format of `shoal backup`, to authorized users.

Reading and compressing run in threads, no faster than the client reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from urllib.parse import parse_qs

from shoal.apiserver.authz import Attributes
from shoal.apiserver.core import Core
from shoal.apiserver.paths import ROOT
from shoal.apiserver.routes import GuardedRoute, Route
from shoal.assemble.backup_file import encoded
from shoal.assemble.identity import read_identity
from shoal.assemble.routes import RoutesOf
from shoal.clock import Clock
from shoal.kinds import logicalcluster
from shoal.objects.errors import BadRequest, MethodNotSupported, NotFound, StoreError, TooManyRequests
from shoal.objects.wire import Answer, Request, Sink, StreamResponse
from shoal.store.backup.format import failed
from shoal.store.backup.snapshot import OpenSnapshot

PATH = "/backup"
HELD_BYTES = 4 << 20
"""The most that is read ahead of the client."""
MOST, RETRY_SECONDS = 2, 10
"""Each backup reads the whole store and holds back compaction."""
PATIENCE_SECONDS = 60.0
"""A client that reads nothing for so long is disconnected: while it is read, the store cannot drop history."""


def backup_routes(open_snapshot: OpenSnapshot, directory: Path, others: RoutesOf) -> RoutesOf:
    def routes(core: Core) -> Mapping[str, Route]:
        route = BackupRoute(open_snapshot, directory, core.clock)
        return {**others(core), PATH[1:]: GuardedRoute(route.answer, wanted)}

    return routes


def wanted(path: str) -> Attributes:
    """Requires `get` on the subresource `backup` of stores, which are not a resource of their own."""
    if path != PATH:
        raise NotFound("the server could not find the requested resource")
    group, version = logicalcluster.GROUP, logicalcluster.VERSION
    return Attributes(ROOT, "get", group, version, "stores", "backup")


class BackupRoute:
    def __init__(self, open_snapshot: OpenSnapshot, directory: Path, clock: Clock) -> None:
        self._open, self._directory, self._clock = open_snapshot, directory, clock
        self._running: set[asyncio.Task[None]] = set()

    def answer(self, request: Request) -> Answer:
        if request.method != "GET":
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        query = parse_qs(request.query)
        revision = query.get("revision", ["0"])[-1]
        if not revision.isdecimal():
            raise BadRequest("revision is a number")
        if len(self._running) >= MOST:
            raise TooManyRequests(
                f"{MOST} backups are being sent; ask again when one has ended", retry_after=RETRY_SECONDS
            )
        keys = read_identity(self._directory) if query.get("keys") == ["true"] else None

        def start(sink: Sink) -> None:
            task = asyncio.ensure_future(self._send(sink, int(revision), keys))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

        return StreamResponse(200, start, "application/octet-stream")

    async def _send(self, sink: Sink, revision: int, keys: Mapping[str, str] | None) -> None:
        drained, begun = asyncio.Event(), False
        sink.on_drain(drained.set)
        sink.on_close(drained.set)
        try:
            async with aclosing(self._pieces(revision, keys)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    begun = True
                    sink.write(piece)
                    while sink.pending > HELD_BYTES and not sink.closed:
                        drained.clear()
                        await asyncio.wait_for(drained.wait(), PATIENCE_SECONDS)
                    if sink.closed:
                        return
        except StoreError as error:
            sink.write(failed(str(error), begun=begun))
        except TimeoutError:
            sink.abort()
        sink.close()

    async def _pieces(self, revision: int, keys: Mapping[str, str] | None) -> AsyncIterator[bytes]:
        snapshot = await self._open(revision)
        try:
            async for piece in encoded(snapshot, self._clock.now(), keys):
                yield piece
        finally:
            await snapshot.close()
