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
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.routes import AuthorizedRoute, ExtraRoute
from shoal.apiserver.server import ServerComponents
from shoal.assemble.server.routes import RouteFactory
from shoal.assemble.storage.backup_stream import encode_backup
from shoal.assemble.storage.identity import read_identity
from shoal.clock import Clock
from shoal.kinds.fleet import logicalcluster
from shoal.objects.errors import BadRequest, MethodNotSupported, NotFound, StoreError, TooManyRequests
from shoal.objects.wire import Answer, Request, Sink, StreamResponse
from shoal.store.backup.format import error_chunk
from shoal.store.backup.snapshot import OpenSnapshot

BACKUP_PATH = "/backup"
MAX_PENDING_BYTES = 4 << 20
"""The most that is read ahead of the client."""
MAX_CONCURRENT_BACKUPS, RETRY_SECONDS = 2, 10
"""Each backup reads the whole store and holds back compaction."""
CLIENT_TIMEOUT_SECONDS = 60.0
"""A client that reads nothing for so long is disconnected: while it is read, the store cannot drop history."""


def backup_routes(open_snapshot: OpenSnapshot, directory: Path, other_routes: RouteFactory) -> RouteFactory:
    def routes(core: ServerComponents) -> Mapping[str, ExtraRoute]:
        route = BackupRoute(open_snapshot, directory, core.clock)
        return {**other_routes(core), BACKUP_PATH[1:]: AuthorizedRoute(route.handle, backup_attributes)}

    return routes


def backup_attributes(path: str) -> Attributes:
    """Requires `get` on the subresource `backup` of stores, which are not a resource of their own."""
    if path != BACKUP_PATH:
        raise NotFound("the server could not find the requested resource")
    group, version = logicalcluster.GROUP, logicalcluster.VERSION
    return Attributes(ROOT, "get", group, version, "stores", "backup")


class BackupRoute:
    def __init__(self, open_snapshot: OpenSnapshot, directory: Path, clock: Clock) -> None:
        self._open_snapshot, self._directory, self._clock = open_snapshot, directory, clock
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: Request) -> Answer:
        if request.method != "GET":
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        query = parse_qs(request.query)
        revision = query.get("revision", ["0"])[-1]
        if not revision.isdecimal():
            raise BadRequest("revision must be a number")
        if len(self._tasks) >= MAX_CONCURRENT_BACKUPS:
            raise TooManyRequests(
                f"{MAX_CONCURRENT_BACKUPS} backups are in progress; try again later",
                retry_after=RETRY_SECONDS,
            )
        keys = read_identity(self._directory) if query.get("keys") == ["true"] else None

        def start(sink: Sink) -> None:
            task = asyncio.ensure_future(self._send(sink, int(revision), keys))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return StreamResponse(200, start, "application/octet-stream")

    async def _send(self, sink: Sink, revision: int, keys: Mapping[str, str] | None) -> None:
        drained, started = asyncio.Event(), False
        sink.on_drain(drained.set)
        sink.on_close(drained.set)
        try:
            async with aclosing(self._chunks(revision, keys)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    started = True
                    sink.write(chunk)
                    while sink.pending_bytes > MAX_PENDING_BYTES and not sink.closed:
                        drained.clear()
                        await asyncio.wait_for(drained.wait(), CLIENT_TIMEOUT_SECONDS)
                    if sink.closed:
                        return
        except StoreError as error:
            sink.write(error_chunk(str(error), started=started))
        except TimeoutError:
            sink.abort()
        sink.close()

    async def _chunks(self, revision: int, keys: Mapping[str, str] | None) -> AsyncIterator[bytes]:
        snapshot = await self._open_snapshot(revision)
        try:
            async for chunk in encode_backup(snapshot, self._clock.now(), keys):
                yield chunk
        finally:
            await snapshot.close()
