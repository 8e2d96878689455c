"""WATCH: initial events if requested, then every event, in one order for all watchers.

An event is encoded once per output and shared. Nothing here waits: the cache calls `CacheWatcher.deliver` for each
event. Initial events, and events for a client that does not read, are read from the cache when the client has room
(`watch_pacer`). A watch that has fallen so far behind that the cache has lost its next event ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import orjson

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent
from shoal.apiserver.inprocess import IN_PROCESS
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.request.info import WILDCARD
from shoal.apiserver.request.options import ListOptions, parse_list_options
from shoal.apiserver.response.negotiation import JSON, PROTOBUF, OutputMediaType
from shoal.apiserver.response.render import encode_object
from shoal.apiserver.response.serializer import WATCH_PROTOBUF
from shoal.apiserver.response.table import check_include_object
from shoal.apiserver.selection import SelectionPredicate, name_trigger, selection_predicate
from shoal.apiserver.server import RequestContext, ServerComponents, slice_path
from shoal.apiserver.verbs.bookmark import bookmark
from shoal.apiserver.verbs.list import revision_too_large
from shoal.apiserver.verbs.watch_encoder import WatchEncoder
from shoal.objects.errors import Expired, StatusError
from shoal.objects.wire import Answer, Sink, StreamResponse

INITIAL_END = "k8s.io/initial-events-end"
CONFIRM_PARAMETER = "confirm"
"""For a watch with bookmarks: requests one immediately. A resuming client learns from it that its revision was not too
old and that no further events are pending.
"""
BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT = 1800
MAX_TIMEOUT = 366 * 86400
"""The most a timer can hold."""
MAX_PENDING_BYTES = 256 * 1024
"""A watch falls behind when its client is this many bytes behind."""
REPLAY_PENDING_BYTES = 64 * 1024
"""Bytes that a watch which is behind keeps ready for its client."""
_CHECKED_BYTES = 64 * 1024
"""Bytes sent before it is checked how far the client is behind: that costs as much as sending a small event."""
_STEPS = 64
"""Objects or events that a watch which is behind reads before others have their turn."""
_SHARED_BYTES = 16 * 1024
"""Larger objects are sent as they are in the cache, not as part of an encoded event."""
_READ_EVENTS = 1000
"""Events that are read from the history at once."""


class CacheWatcher:
    def __init__(
        self,
        server: ServerComponents,
        ctx: RequestContext,
        options: ListOptions,
        name: str,
        predicate: SelectionPredicate | None,
    ) -> None:
        self._server = server
        self._resource: Resource = ctx.resource
        self._output: OutputMediaType = ctx.output
        self._resource_cache = ctx.resource_cache
        self._cluster = ctx.info.cluster
        self.user = ctx.user
        self._namespace = ctx.namespace
        self._name = name
        self._predicate = predicate
        indexable = predicate is not None and ctx.resource.conversion is None
        self.trigger = (
            name_trigger(name) if name else predicate.trigger if predicate is not None and indexable else None
        )
        self._options = options
        self._oldest_revision = ctx.cluster.oldest_revision
        self._confirm = options.allow_bookmarks and ctx.query.get(CONFIRM_PARAMETER) == "true"
        self._is_counted = ctx.info.cluster != WILDCARD and ctx.request.remote_addr != IN_PROCESS
        """Whether the watch is one of a client of the logical cluster. The server's own watches are not limited."""
        self._sink: Sink | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._last_bookmark = 0
        self._replay: Iterator[None] | None = None
        """Sends what the watch is behind with, one object or event a step. None: it is not behind."""
        self._cursor = 0
        """While the watch is behind: everything up to this revision was sent, or will be as initial events."""
        self._same_revision: list[CacheEvent] = []
        """Events of the revision of the cursor that came after it."""
        self._unchecked_bytes = 0
        self._matches_all = not self._namespace and not name and predicate is None
        include_object, everywhere = ctx.query.get("includeObject", ""), self._cluster == WILDCARD
        self._encoder = WatchEncoder(ctx.resource, ctx.output, server.clock, include_object, everywhere=everywhere)

    @property
    def sink(self) -> Sink | None:
        return self._sink

    def start(self, sink: Sink) -> None:
        self._sink = sink
        options = self._options
        since = options.revision
        initial = options.send_initial_events if options.send_initial_events is not None else since == 0
        oldest = self._oldest()
        if not initial and since and since < oldest:
            self._fail(Expired(f"too old resource version: {since} ({oldest})"))
            return
        if options.send_initial_events and since > self._server.cache.revision:
            self._fail(revision_too_large(since, self._server.cache.revision))
            return
        self._resource_cache.add_event_handler(self._cluster, self.deliver, self.trigger)
        if self._is_counted:
            self._server.limits.watches.add(self._cluster)
        sink.on_close(self._stop)
        self._send_first_events(initial, since)
        if sink.closed:
            return
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._timeout_seconds(), self._finish))
        if options.allow_bookmarks:
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick, loop))

    def _send_first_events(self, initial: bool, since: int) -> None:
        """Sends what comes before the first live event."""
        self._cursor = since if since and not initial else self._server.cache.revision
        self._replay = self._first_steps(initial)
        if self.catch_up() or self._replay is not None:
            self._wait_for_client()

    def _first_steps(self, initial: bool) -> Iterator[None]:
        if initial:
            yield from self._initial_steps()
        if self._options.send_initial_events:
            self._bookmark({INITIAL_END: "true"}, self._cursor)
        yield from self._event_steps()
        if self._confirm and not self._options.send_initial_events:
            self._bookmark(revision=self._server.cache.revision)

    def _timeout_seconds(self) -> float:
        """The requested timeout, else 30 to 60 minutes, so that watches do not all reconnect at once."""
        if self._options.timeout_seconds:
            return min(self._options.timeout_seconds, MAX_TIMEOUT)
        return DEFAULT_TIMEOUT * (1 + self._server.name_generator.fraction())

    def deliver(self, event: CacheEvent) -> None:
        if self._replay is not None:
            if event.revision == self._cursor:
                self._same_revision.append(event)
            return
        if self._encoder.takes_steps(event.old, event.new):
            self._same_revision.append(event)
            self._fall_behind(event.revision)
            return
        self._send_event(event)
        if self._unchecked_bytes > _CHECKED_BYTES:
            self._check_client(event.revision)

    def _send_event(self, event: CacheEvent) -> None:
        old, new = event.old, event.new
        if not self._matches_all:
            old, new = self._selected_states(event)
            if old is None and new is None:
                return
        kind = _event_type(old, new)
        self._resource_cache.events_sent += 1
        assert self._sink is not None
        if self._output.mode == "table":
            row = self._encoder.event(kind, event, old, new)
            self._unchecked_bytes += len(row)
            self._sink.write(row)
            return
        shared = self._encoder.frame_keys[kind]
        frame = event.encoded_frames.get(shared)
        if frame is None:
            frame = self._encoder.event(kind, event, old, new)
            if event.traceparent and not self._encoder.is_protobuf:
                frame = b'%b,"traceparent":"%b"}\n' % (frame[:-2], event.traceparent.encode())
            event.add_frame(shared, frame)
        self._unchecked_bytes += len(frame)
        self._sink.write(frame)

    def _selected_states(self, event: CacheEvent) -> tuple[CachedObject | None, CachedObject | None]:
        """The states before and after the event, each None if this watch does not select it."""
        last, old, new = event.latest, event.old, event.new
        if (self._namespace and last.namespace != self._namespace) or (self._name and last.name != self._name):
            return None, None
        if self._predicate is not None:
            old = old if old is not None and self._predicate.matches(old) else None
            new = new if new is not None and self._predicate.matches(new) else None
        return old, new

    def _frame_steps(self, event: CacheEvent) -> Iterator[None]:
        """Encodes the frame of a large object in small steps, for `_send_event`."""
        old, new = self._selected_states(event)
        if old is None and new is None:
            return
        kind = _event_type(old, new)
        key = self._encoder.frame_keys[kind]
        if key not in event.encoded_frames:
            event.add_frame(key, (yield from self._encoder.event_steps(kind, event, old, new)))

    # --- a client that is behind ---

    def _check_client(self, revision: int) -> None:
        self._unchecked_bytes = 0
        assert self._sink is not None
        if self._sink.pending_bytes > MAX_PENDING_BYTES:
            self._fall_behind(revision)

    def _fall_behind(self, revision: int) -> None:
        self._cursor = revision
        self._replay = self._event_steps()
        self._wait_for_client()

    def _wait_for_client(self) -> None:
        assert self._sink is not None
        pacer = self._server.watch_pacer
        self._sink.on_drain(lambda: pacer.resume(self))
        pacer.add(self)

    def catch_up(self) -> bool:
        """Sends a few events, as far as the client has room. Returns False if nothing more can be sent for now."""
        sink, replay = self._sink, self._replay
        assert sink is not None
        if replay is None or sink.closed:
            return False
        for _ in range(_STEPS):
            if sink.pending_bytes >= REPLAY_PENDING_BYTES:
                return False
            try:
                next(replay)
            except StopIteration:
                self._end_replay()
                return False
        return True

    def end_if_expired(self) -> None:
        oldest = self._oldest()
        if self._replay is not None and self._cursor < oldest:
            self._end_replay()
            self._server.watch_pacer.expired_total += 1
            self._fail(Expired(f"too old resource version: {self._cursor} ({oldest})"))

    def _oldest(self) -> int:
        """The revision from which on the cache has all events."""
        return max(self._server.cache.history.oldest_revision_of(self._cluster), self._oldest_revision)

    def _end_replay(self) -> None:
        self._replay = None
        self._server.watch_pacer.remove(self)

    def _event_steps(self) -> Iterator[None]:
        """Events after the cursor, until there are no more. The history is read in parts, so that a watch whose client
        does not read holds few of its events.
        """
        while True:
            events, self._same_revision = self._same_revision, []
            self.end_if_expired()
            if self._replay is None:
                return
            if not events:
                events = self._resource_cache.missed_events(self._cluster, self._cursor, self.trigger)[:_READ_EVENTS]
            if not events:
                return
            for number, event in enumerate(events, 1):
                if self._encoder.takes_steps(event.old, event.new):
                    yield from self._frame_steps(event)
                self._send_event(event)
                if number == len(events) or events[number].revision != event.revision:
                    self._cursor = event.revision
                yield

    def _initial_steps(self) -> Iterator[None]:
        assert self._sink is not None
        for cluster, entry in self._initial_objects():
            if self._predicate is None or self._predicate.matches(entry):
                yield from self._send_initial(entry, cluster)
            yield

    def _send_initial(self, entry: CachedObject, cluster: str) -> Iterator[None]:
        assert self._sink is not None
        if len(entry.data) < _SHARED_BYTES or not self._encoder.uses_cached_json:
            self._sink.write((yield from self._encoder.state_steps("ADDED", entry, cluster)))
            return
        # A copy of a large object for each client that does not read would add up.
        for piece in (b'{"type":"ADDED","object":', encode_object(self._resource, entry), b"}\n"):
            self._sink.write(piece)

    def _initial_objects(self) -> Iterator[tuple[str, CachedObject]]:
        """All objects in the scope of the watch, selected or not."""
        everywhere = self._cluster == WILDCARD
        for cluster in self._resource_cache.clusters() if everywhere else [self._cluster]:
            table = self._resource_cache.tables[cluster] if everywhere else self._resource_cache.table(cluster)
            for entry in table.select(self._namespace, "", self.trigger):
                if not ((everywhere and entry.virtual) or (self._name and entry.name != self._name)):
                    yield cluster, entry

    def _bookmark(self, annotations: dict[str, str] | None = None, revision: int = 0) -> None:
        """`revision` is the revision up to which everything was sent; defaults to that of the cache."""
        assert self._sink is not None
        if self._replay is not None and not revision:
            return  # not everything was sent
        revision = revision or self._server.cache.revision
        if annotations is None and revision == self._last_bookmark:
            return
        self._last_bookmark = revision
        obj = bookmark(self._resource, self._output, revision, annotations)
        self._sink.write(self._encoder.wrap("BOOKMARK", orjson.dumps(obj)))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bookmark()
        self._timers[1] = loop.call_later(BOOKMARK_SECONDS, self._tick, loop)

    def terminate(self) -> None:
        """Ends the watch early. Nothing more is sent."""
        if self._sink is not None:
            self._sink.close()

    def _finish(self) -> None:
        assert self._sink is not None
        if self._options.allow_bookmarks:
            self._bookmark()
        self._close()

    def _close(self) -> None:
        assert self._sink is not None
        self._sink.close()

    def _fail(self, error: StatusError) -> None:
        assert self._sink is not None
        self._sink.write(self._encoder.wrap("ERROR", orjson.dumps(error.to_status())))
        self._sink.close()

    def _stop(self) -> None:
        self._end_replay()
        self._same_revision = []
        self._resource_cache.remove_event_handler(self._cluster, self.deliver, self.trigger)
        for timer in self._timers:
            timer.cancel()
        if self._is_counted:
            self._is_counted = False
            self._server.limits.watches.remove(self._cluster)


def _event_type(old: CachedObject | None, new: CachedObject | None) -> str:
    return "ADDED" if old is None else "DELETED" if new is None else "MODIFIED"


def terminate_watches(server: ServerComponents, cluster: str, user: str = "") -> None:
    """Ends the watches of a cluster, or only those of one user of it. No deletions are sent. Clients of a cluster that
    moves reconnect to its other server; users who have lost their rights are refused.
    """
    for kind in server.cache.resource_caches.values():
        for handler in kind.event_handlers(cluster):
            watcher = getattr(handler, "__self__", None)
            if isinstance(watcher, CacheWatcher) and user in ("", watcher.user.name):
                watcher.terminate()


def watch(server: ServerComponents, ctx: RequestContext, watcher_class: type[CacheWatcher] = CacheWatcher) -> Answer:
    if ctx.info.cluster != WILDCARD and ctx.request.remote_addr != IN_PROCESS:
        server.limits.watches.check(ctx.info.cluster, ctx.cluster.limits.watches)
    options = parse_list_options(ctx.query, watching=True)
    _ = options.revision
    if ctx.output.mode == "table":
        check_include_object(ctx.query.get("includeObject", ""))
    predicate = selection_predicate(ctx.resource, options.label_selector, options.field_selector)
    watcher = watcher_class(server, ctx, options, ctx.name, predicate)
    if watcher.trigger is not None and ctx.info.cluster != WILDCARD:
        table = ctx.resource_cache.table(ctx.info.cluster)
        server.slices.run_later(slice_path(ctx), table.build_index(watcher.trigger))
    start: Callable[[Sink], None] = watcher.start
    return StreamResponse(200, start, content_type=WATCH_PROTOBUF if ctx.output.media_type == PROTOBUF else JSON)
