"""WATCH: initial events if requested, then every event, in one order for all watchers.

An event is encoded once per output and shared. A client that does not read is disconnected by its sink. Nothing here
waits: the cache calls `CacheWatcher.deliver` for each event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import orjson

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent
from shoal.apiserver.cache.storage_form import inject_cluster_annotation, replace_revision
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.request.info import WILDCARD
from shoal.apiserver.request.options import ListOptions, parse_list_options
from shoal.apiserver.response.negotiation import JSON, PROTOBUF, OutputMediaType
from shoal.apiserver.response.render import encode_object, encode_protobuf, to_table_or_metadata
from shoal.apiserver.response.serializer import WATCH_PROTOBUF
from shoal.apiserver.response.table import check_include_object
from shoal.apiserver.selection import SelectionPredicate, name_trigger, selection_predicate
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.list import revision_too_large
from shoal.objects import protobuf
from shoal.objects.errors import Expired, StatusError
from shoal.objects.wire import Answer, Sink, StreamResponse

EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")
INITIAL_END = "k8s.io/initial-events-end"
CONFIRM_PARAMETER = "confirm"
"""For a watch with bookmarks: requests one immediately. A resuming client learns from it that its revision was not too
old and that no further events are pending.
"""
BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT = 1800
MAX_TIMEOUT = 366 * 86400
"""The most a timer can hold."""


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
        self._namespace = ctx.namespace
        self._name = name
        self._predicate = predicate
        indexable = predicate is not None and ctx.resource.conversion is None
        self._trigger = (
            name_trigger(name) if name else predicate.trigger if predicate is not None and indexable else None
        )
        self._options = options
        self._oldest_revision = ctx.cluster.oldest_revision
        self._include_object = ctx.query.get("includeObject", "")
        self._confirm = options.allow_bookmarks and ctx.query.get(CONFIRM_PARAMETER) == "true"
        self._headers_sent = False
        self._sink: Sink | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._last_bookmark = 0
        served_as = (ctx.resource.api_version, ctx.resource.schema_hash)
        self._frame_keys = {
            kind: str((kind, served_as, self._output, self._cluster == WILDCARD)) for kind in EVENT_TYPES
        }
        """Keys of this watcher's frames, by event type."""
        self._matches_all = not self._namespace and not name and predicate is None
        self._protobuf = self._output.media_type == PROTOBUF
        self._uses_cached_protobuf = self._protobuf and self._output.mode == "object" and self._cluster != WILDCARD
        """Events are built from the protobuf messages cached with the objects."""

    def start(self, sink: Sink) -> None:
        self._sink = sink
        options = self._options
        since = options.revision
        initial = options.send_initial_events if options.send_initial_events is not None else since == 0
        oldest = max(self._server.cache.oldest_revision, self._oldest_revision)
        if not initial and since and since < oldest:
            self._fail(Expired(f"too old resource version: {since} ({oldest})"))
            return
        if options.send_initial_events and since > self._server.cache.revision:
            self._fail(revision_too_large(since, self._server.cache.revision))
            return
        self._resource_cache.add_event_handler(self._cluster, self.deliver, self._trigger)
        if initial:
            self._send_initial_events()
        elif since:
            for change in self._resource_cache.missed_events(self._cluster, since, self._trigger):
                self.deliver(change)
        if options.send_initial_events:
            self._bookmark({INITIAL_END: "true"})
        elif self._confirm:
            self._bookmark()
        sink.on_close(self._stop)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._timeout_seconds(), self._finish))
        if options.allow_bookmarks:
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick, loop))

    def _timeout_seconds(self) -> float:
        """The requested timeout, else 30 to 60 minutes, so that watches do not all reconnect at once."""
        if self._options.timeout_seconds:
            return min(self._options.timeout_seconds, MAX_TIMEOUT)
        return DEFAULT_TIMEOUT * (1 + self._server.name_generator.fraction())

    def deliver(self, event: CacheEvent) -> None:
        old, new = event.old, event.new
        if not self._matches_all:
            old, new = self._selected_states(event)
            if old is None and new is None:
                return
        kind = "ADDED" if old is None else "DELETED" if new is None else "MODIFIED"
        self._resource_cache.events_sent += 1
        assert self._sink is not None
        if self._output.mode == "table":
            self._sink.write(self._encode_event(kind, event, old, new))
            return
        shared = self._frame_keys[kind]
        frame = event.encoded_frames.get(shared)
        if frame is None:
            frame = self._encode_event(kind, event, old, new)
            if event.traceparent and not self._protobuf:
                frame = b'%b,"traceparent":"%b"}\n' % (frame[:-2], event.traceparent.encode())
            event.encoded_frames[shared] = frame
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

    def _encode_event(self, kind: str, event: CacheEvent, old: CachedObject | None, new: CachedObject | None) -> bytes:
        if new is not None:
            return self._encode_state(kind, new, event.cluster)
        assert old is not None
        return self._encode_frame(
            kind, replace_revision(encode_object(self._resource, old), event.revision), event.cluster
        )

    def _encode_state(self, kind: str, entry: CachedObject, cluster: str) -> bytes:
        """Encodes an event with the object's current state."""
        if self._uses_cached_protobuf:
            resource = self._resource
            encoded = protobuf.envelope(resource.api_version, resource.kind, encode_protobuf(resource, entry))
            return protobuf.watch_frame(kind, encoded)
        return self._encode_frame(kind, encode_object(self._resource, entry), cluster)

    def _encode_frame(self, kind: str, data: bytes, cluster: str) -> bytes:
        if self._cluster == WILDCARD:
            data = inject_cluster_annotation(data, cluster)
        if self._output.mode != "object":
            headers = not self._headers_sent
            self._headers_sent = True
            now = self._server.clock.now()
            data = orjson.dumps(
                to_table_or_metadata(self._resource, self._output, data, now, self._include_object, headers)
            )
        return self._wrap_event(kind, data)

    def _wrap_event(self, kind: str, data: bytes) -> bytes:
        if self._protobuf:
            return protobuf.watch_frame(kind, protobuf.encode(orjson.loads(data)))
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), data)

    def _send_initial_events(self) -> None:
        assert self._sink is not None
        for cluster, entry in self._initial_objects():
            if self._predicate is None or self._predicate.matches(entry):
                self._sink.write(self._encode_state("ADDED", entry, cluster))

    def _initial_objects(self) -> Iterator[tuple[str, CachedObject]]:
        """All objects in the scope of the watch, selected or not."""
        everywhere = self._cluster == WILDCARD
        for cluster in self._resource_cache.clusters() if everywhere else [self._cluster]:
            table = self._resource_cache.tables[cluster] if everywhere else self._resource_cache.table(cluster)
            for entry in table.select(self._namespace, "", self._trigger):
                if not ((everywhere and entry.virtual) or (self._name and entry.name != self._name)):
                    yield cluster, entry

    def _bookmark(self, annotations: dict[str, str] | None = None, revision: int = 0) -> None:
        """`revision` is the revision up to which everything was sent; defaults to that of the cache."""
        assert self._sink is not None
        revision = revision or self._server.cache.revision
        if annotations is None and revision == self._last_bookmark:
            return
        self._last_bookmark = revision
        metadata: dict[str, object] = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        kind, api_version = self._resource.kind, self._resource.api_version
        obj: dict[str, object] = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._output.mode == "partial":
            obj.update(kind="PartialObjectMetadata", apiVersion=f"meta.k8s.io/{self._output.meta_version}")
        elif self._output.mode == "table":
            version = f"meta.k8s.io/{self._output.meta_version}"
            row = {
                "cells": [],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata},
            }
            obj = {"kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": str(revision)}}
            obj.update(columnDefinitions=None, rows=[row])
        self._sink.write(self._wrap_event("BOOKMARK", orjson.dumps(obj)))

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
        self._sink.write(self._wrap_event("ERROR", orjson.dumps(error.to_status())))
        self._sink.close()

    def _stop(self) -> None:
        self._resource_cache.remove_event_handler(self._cluster, self.deliver, self._trigger)
        for timer in self._timers:
            timer.cancel()


def terminate_watches(server: ServerComponents, cluster: str) -> None:
    """Ends the watches of a cluster that moves to another server. Clients reconnect there and see no deletions here."""
    for kind in server.cache.resource_caches.values():
        for handler in kind.event_handlers(cluster):
            watcher = getattr(handler, "__self__", None)
            if isinstance(watcher, CacheWatcher):
                watcher.terminate()


def watch(server: ServerComponents, ctx: RequestContext, watcher_class: type[CacheWatcher] = CacheWatcher) -> Answer:
    options = parse_list_options(ctx.query, watching=True)
    _ = options.revision
    if ctx.output.mode == "table":
        check_include_object(ctx.query.get("includeObject", ""))
    predicate = selection_predicate(ctx.resource, options.label_selector, options.field_selector)
    watcher = watcher_class(server, ctx, options, ctx.name, predicate)
    start: Callable[[Sink], None] = watcher.start
    return StreamResponse(200, start, content_type=WATCH_PROTOBUF if ctx.output.media_type == PROTOBUF else JSON)
