"""WATCH: initial events if requested, then every event, in one order for all watchers.

An event is encoded once per output and shared. A client that does not read is disconnected by its sink. Nothing here
waits: the cache calls `CacheWatcher.deliver` for each event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import orjson

from shoal.apiserver.cache import Change, Entry
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import respliced, with_cluster
from shoal.apiserver.forms import WATCH_PROTOBUF
from shoal.apiserver.negotiate import JSON, PROTOBUF, View
from shoal.apiserver.options import ListOptions, list_options
from shoal.apiserver.paths import WILDCARD
from shoal.apiserver.registry import Resource
from shoal.apiserver.render import message, served, transformed
from shoal.apiserver.selection import Selection, name_pin, selection
from shoal.apiserver.table import check_include
from shoal.apiserver.verbs.list import too_large
from shoal.objects import protobuf
from shoal.objects.errors import Expired, StatusError
from shoal.objects.wire import Answer, Sink, StreamResponse

KINDS = ("ADDED", "MODIFIED", "DELETED")
INITIAL_END = "k8s.io/initial-events-end"
CONFIRM = "confirm"
"""For a watch with bookmarks: requests one immediately. A resuming client learns from it that its revision was not too
old and that no further events are pending.
"""
BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT = 1800
LONGEST_TIMEOUT = 366 * 86400
"""The most a timer can hold."""


class Watcher:
    def __init__(self, core: Core, call: Call, options: ListOptions, name: str, chosen: Selection | None) -> None:
        self._core = core
        self._resource: Resource = call.resource
        self._view: View = call.view
        self._kind = call.kind
        self._cluster = call.target.cluster
        self._namespace = call.namespace
        self._name = name
        self._chosen = chosen
        pinned = chosen is not None and call.resource.conversion is None
        self._pin = name_pin(name) if name else chosen.pin if chosen is not None and pinned else None
        self._options = options
        self._came = call.cluster.oldest
        self._include = call.query.get("includeObject", "")
        self._confirm = options.bookmarks and call.query.get(CONFIRM) == "true"
        self._headers_sent = False
        self._sink: Sink | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._marked = 0
        served_as = (call.resource.api_version, call.resource.schema_hash)
        self._frames = {kind: str((kind, served_as, self._view, self._cluster == WILDCARD)) for kind in KINDS}
        """Keys of this watcher's frames, by event type."""
        self._all = not self._namespace and not name and chosen is None
        self._protobuf = self._view.form == PROTOBUF
        self._cached = self._protobuf and self._view.mode == "object" and self._cluster != WILDCARD
        """Events are built from the protobuf messages cached with the objects."""

    def start(self, sink: Sink) -> None:
        self._sink = sink
        options = self._options
        since = options.revision
        initial = options.send_initial if options.send_initial is not None else since == 0
        oldest = max(self._core.cache.oldest, self._came)
        if not initial and since and since < oldest:
            self._fail(Expired(f"too old resource version: {since} ({oldest})"))
            return
        if options.send_initial and since > self._core.cache.revision:
            self._fail(too_large(since, self._core.cache.revision))
            return
        self._kind.listen(self._cluster, self.deliver, self._pin)
        if initial:
            self._send_state()
        elif since:
            for change in self._kind.missed(self._cluster, since, self._pin):
                self.deliver(change)
        if options.send_initial:
            self._bookmark({INITIAL_END: "true"})
        elif self._confirm:
            self._bookmark()
        sink.on_close(self._stop)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._seconds(), self._finish))
        if options.bookmarks:
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick, loop))

    def _seconds(self) -> float:
        """The requested timeout, else 30 to 60 minutes, so that watches do not all reconnect at once."""
        if self._options.timeout:
            return min(self._options.timeout, LONGEST_TIMEOUT)
        return DEFAULT_TIMEOUT * (1 + self._core.dice.fraction())

    def deliver(self, change: Change) -> None:
        old, new = change.old, change.new
        if not self._all:
            old, new = self._belonging(change)
            if old is None and new is None:
                return
        kind = "ADDED" if old is None else "DELETED" if new is None else "MODIFIED"
        self._kind.sent += 1
        assert self._sink is not None
        if self._view.mode == "table":
            self._sink.write(self._event(kind, change, old, new))
            return
        shared = self._frames[kind]
        frame = change.frames.get(shared)
        if frame is None:
            frame = self._event(kind, change, old, new)
            if change.traceparent and not self._protobuf:
                frame = b'%b,"traceparent":"%b"}\n' % (frame[:-2], change.traceparent.encode())
            change.frames[shared] = frame
        self._sink.write(frame)

    def _belonging(self, change: Change) -> tuple[Entry | None, Entry | None]:
        """The states before and after the event, each None if this watch does not select it."""
        last, old, new = change.last, change.old, change.new
        if (self._namespace and last.namespace != self._namespace) or (self._name and last.name != self._name):
            return None, None
        if self._chosen is not None:
            old = old if old is not None and self._chosen.matches(old) else None
            new = new if new is not None and self._chosen.matches(new) else None
        return old, new

    def _event(self, kind: str, change: Change, old: Entry | None, new: Entry | None) -> bytes:
        if new is not None:
            return self._state(kind, new, change.cluster)
        assert old is not None
        return self._frame(kind, respliced(served(self._resource, old), change.revision), change.cluster)

    def _state(self, kind: str, entry: Entry, cluster: str) -> bytes:
        """Encodes an event with the object's current state."""
        if self._cached:
            resource = self._resource
            encoded = protobuf.envelope(resource.api_version, resource.kind, message(resource, entry))
            return protobuf.watch_frame(kind, encoded)
        return self._frame(kind, served(self._resource, entry), cluster)

    def _frame(self, kind: str, data: bytes, cluster: str) -> bytes:
        if self._cluster == WILDCARD:
            data = with_cluster(data, cluster)
        if self._view.mode != "object":
            headers = not self._headers_sent
            self._headers_sent = True
            now = self._core.clock.now()
            data = orjson.dumps(transformed(self._resource, self._view, data, now, self._include, headers))
        return self._wrapped(kind, data)

    def _wrapped(self, kind: str, data: bytes) -> bytes:
        if self._protobuf:
            return protobuf.watch_frame(kind, protobuf.encode(orjson.loads(data)))
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), data)

    def _send_state(self) -> None:
        assert self._sink is not None
        for cluster, entry in self._state_entries():
            if self._chosen is None or self._chosen.matches(entry):
                self._sink.write(self._state("ADDED", entry, cluster))

    def _state_entries(self) -> Iterator[tuple[str, Entry]]:
        """All objects in the scope of the watch, selected or not."""
        everywhere = self._cluster == WILDCARD
        for cluster in self._kind.clusters() if everywhere else [self._cluster]:
            table = self._kind.tables[cluster] if everywhere else self._kind.table(cluster)
            for entry in table.select(self._namespace, "", self._pin):
                if not ((everywhere and entry.virtual) or (self._name and entry.name != self._name)):
                    yield cluster, entry

    def _bookmark(self, annotations: dict[str, str] | None = None, revision: int = 0) -> None:
        """`revision` is the revision up to which everything was sent; defaults to that of the cache."""
        assert self._sink is not None
        revision = revision or self._core.cache.revision
        if annotations is None and revision == self._marked:
            return
        self._marked = revision
        metadata: dict[str, object] = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        kind, api_version = self._resource.kind, self._resource.api_version
        obj: dict[str, object] = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._view.mode == "partial":
            obj.update(kind="PartialObjectMetadata", apiVersion=f"meta.k8s.io/{self._view.version}")
        elif self._view.mode == "table":
            version = f"meta.k8s.io/{self._view.version}"
            row = {
                "cells": [],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata},
            }
            obj = {"kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": str(revision)}}
            obj.update(columnDefinitions=None, rows=[row])
        self._sink.write(self._wrapped("BOOKMARK", orjson.dumps(obj)))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bookmark()
        self._timers[1] = loop.call_later(BOOKMARK_SECONDS, self._tick, loop)

    def end(self) -> None:
        """Ends the watch early. Nothing more is sent."""
        if self._sink is not None:
            self._sink.close()

    def _finish(self) -> None:
        assert self._sink is not None
        if self._options.bookmarks:
            self._bookmark()
        self._close()

    def _close(self) -> None:
        assert self._sink is not None
        self._sink.close()

    def _fail(self, error: StatusError) -> None:
        assert self._sink is not None
        self._sink.write(self._wrapped("ERROR", orjson.dumps(error.wire())))
        self._sink.close()

    def _stop(self) -> None:
        self._kind.forget(self._cluster, self.deliver, self._pin)
        for timer in self._timers:
            timer.cancel()


def end_watches(core: Core, cluster: str) -> None:
    """Ends the watches of a cluster that moves to another server. Clients reconnect there and see no deletions here."""
    for kind in core.cache.kinds.values():
        for listener in list(kind.listeners.get(cluster, ())):
            watcher = getattr(listener, "__self__", None)
            if isinstance(watcher, Watcher):
                watcher.end()


def watch(core: Core, call: Call, sort: type[Watcher] = Watcher) -> Answer:
    options = list_options(call.query, watching=True)
    _ = options.revision
    if call.view.mode == "table":
        check_include(call.query.get("includeObject", ""))
    chosen = selection(call.resource, options.labels, options.fields)
    watcher = sort(core, call, options, call.name, chosen)
    start: Callable[[Sink], None] = watcher.start
    return StreamResponse(200, start, content_type=WATCH_PROTOBUF if call.view.form == PROTOBUF else JSON)
