"""Reads of a kind whose versions a webhook converts: the requested objects are converted first, then read as usual."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent
from shoal.apiserver.request.info import WILDCARD
from shoal.apiserver.request.options import parse_list_options
from shoal.apiserver.server import ReadVerb, RequestContext, ServerComponents
from shoal.apiserver.verbs.list import list_revision
from shoal.apiserver.verbs.watch import INITIAL_END, MAX_PENDING_BYTES, CacheWatcher, watch
from shoal.apiserver.webhooks.conversion import ConversionMissing, convert_entries, converted_entry
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, Response, Sink, StreamResponse, Upgrade

log = logging.getLogger("shoal.apiserver")

MAX_ATTEMPTS = 10
"""Attempts of a list that is written to while it is converted. Each converts only what changed meanwhile."""


def with_conversion(
    read: ReadVerb,
) -> Callable[[ServerComponents, RequestContext], Awaitable[Answer]]:
    async def read_converted(server: ServerComponents, ctx: RequestContext) -> Answer:
        if ctx.verb == "watch":
            return watch(server, ctx, ConvertingWatcher)
        for _ in range(MAX_ATTEMPTS):
            await _convert_requested(server, ctx)
            with suppress(ConversionMissing):
                return await _answer(read(server, ctx))
        await _convert_requested(server, ctx)
        return await _answer(read(server, ctx))

    return read_converted


async def _answer(answer: Answer | Awaitable[Answer]) -> Answer:
    return answer if isinstance(answer, (Response, StreamResponse, Upgrade)) else await answer


async def _convert_requested(server: ServerComponents, ctx: RequestContext) -> None:
    calls, resource = server.webhooks.client, ctx.resource
    if ctx.verb == "get":
        entry = ctx.cached_object()
        await convert_entries(calls, ctx.info.cluster, resource, [entry] if entry is not None else [])
        return
    if ctx.info.cluster == WILDCARD:
        for cluster, table in list(ctx.resource_cache.tables.items()):
            await convert_entries(calls, cluster, resource, table.select(ctx.namespace))
        return
    options = parse_list_options(ctx.query, watching=False)
    at, exact = list_revision(server, ctx, options)
    table = (
        ctx.resource_cache.at_revision(ctx.info.cluster, at) if exact else ctx.resource_cache.table(ctx.info.cluster)
    )
    entries = table.select(ctx.namespace, options.continue_key)
    if options.limit > 0 and not (options.label_selector or options.field_selector):
        entries = entries[: options.limit]
    await convert_entries(calls, ctx.info.cluster, resource, entries)


MAX_QUEUED_EVENTS = 10_000
"""Events that may wait for a webhook that does not respond, or for a client that does not read."""
CONVERTED_AT_ONCE = 200


class ConvertingWatcher(CacheWatcher):
    """Queues events until they are converted, so that they are sent in order."""

    def start(self, sink: Sink) -> None:
        self._queue: deque[Callable[[], None] | CacheEvent] = deque()
        self._has_queued = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._send_queued(), name="converting watch")
        self._has_room = asyncio.Event()
        sink.on_close(self._cancel)
        sink.on_drain(self._has_room.set)
        super().start(sink)

    def _cancel(self) -> None:
        self._task.cancel()

    def deliver(self, event: CacheEvent) -> None:
        self._enqueue(event)
        if len(self._queue) > MAX_QUEUED_EVENTS:
            self.terminate()  # the client reconnects and gets only the newest state

    def _enqueue(self, item: Callable[[], None] | CacheEvent) -> None:
        self._queue.append(item)
        self._has_queued.set()

    def _send_first_events(self, initial: bool, since: int) -> None:
        if initial:
            for cluster, entry in self._initial_objects():
                self._enqueue(CacheEvent(entry.revision, cluster, None, entry))
        elif since:
            for change in self._resource_cache.missed_events(self._cluster, since, self.trigger):
                self.deliver(change)
        if self._options.send_initial_events:
            self._bookmark({INITIAL_END: "true"})
        elif self._confirm:
            self._bookmark()

    def _bookmark(self, annotations: dict[str, str] | None = None, revision: int = 0) -> None:
        send_bookmark, revision_now = super()._bookmark, self._server.cache.revision
        self._enqueue(lambda: send_bookmark(annotations, revision_now))

    def _close(self) -> None:
        self._enqueue(super()._close)

    async def _send_queued(self) -> None:
        while True:
            await self._has_queued.wait()
            while self._sink is not None and self._sink.pending_bytes > MAX_PENDING_BYTES:
                self._has_room.clear()
                await self._has_room.wait()
            queued = [self._queue.popleft() for _ in range(min(len(self._queue), CONVERTED_AT_ONCE))]
            if not self._queue:
                self._has_queued.clear()
            try:
                await self._convert([each for each in queued if isinstance(each, CacheEvent)])
                for each in queued:
                    if isinstance(each, CacheEvent):
                        self._send_event(self._converted_event(each))
                    else:
                        each()
            except StatusError as error:
                self._fail(error)
                return
            except Exception:
                log.exception("ending watch of %s: object cannot be converted", self._resource.plural)
                self.terminate()
                return

    async def _convert(self, changes: list[CacheEvent]) -> None:
        by_cluster: dict[str, list[CachedObject]] = {}
        for change in changes:
            states: Iterable[CachedObject | None] = (change.old, change.new)
            by_cluster.setdefault(change.cluster, []).extend(each for each in states if each is not None)
        for cluster, entries in by_cluster.items():
            await convert_entries(self._server.webhooks.client, cluster, self._resource, entries)

    def _converted_event(self, event: CacheEvent) -> CacheEvent:
        old, new = (None if each is None else converted_entry(self._resource, each) for each in (event.old, event.new))
        return CacheEvent(event.revision, event.cluster, old, new)
