"""Encodes the events of a watch: as JSON, as table rows or as protobuf frames."""

from __future__ import annotations

from collections.abc import Generator

import orjson

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent
from shoal.apiserver.cache.storage_form import decode, inject_cluster_annotation, replace_revision
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.negotiation import PROTOBUF, OutputMediaType
from shoal.apiserver.response.render import (
    encode_object,
    encode_protobuf,
    is_long_message,
    message_steps,
    to_table_or_metadata,
)
from shoal.clock import Clock
from shoal.objects import protobuf

EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")


class WatchEncoder:
    def __init__(
        self, resource: Resource, output: OutputMediaType, clock: Clock, include_object: str, *, everywhere: bool
    ) -> None:
        self._resource, self._output, self._clock = resource, output, clock
        self._include_object = include_object
        self._everywhere = everywhere
        """Whether the watch is one of all logical clusters: objects are annotated with theirs."""
        self._headers_sent = False
        served_as = (resource.api_version, resource.schema_hash)
        self.frame_keys = {kind: str((kind, served_as, output, everywhere)) for kind in EVENT_TYPES}
        """Of the encoded events that watches share, by event type."""
        self.is_protobuf = output.media_type == PROTOBUF
        self.uses_cached_protobuf = self.is_protobuf and output.mode == "object" and not everywhere
        """Events are built from the protobuf messages cached with the objects."""
        self.uses_cached_json = not self.is_protobuf and output.mode == "object" and not everywhere

    def event(self, kind: str, event: CacheEvent, old: CachedObject | None, new: CachedObject | None) -> bytes:
        if new is not None:
            return self.state(kind, new, event.cluster)
        assert old is not None
        return self._encode(kind, replace_revision(encode_object(self._resource, old), event.revision), event.cluster)

    def state(self, kind: str, entry: CachedObject, cluster: str) -> bytes:
        """An event with the object's current state."""
        if self.uses_cached_protobuf:
            return self._protobuf_frame(kind, encode_protobuf(self._resource, entry))
        return self._encode(kind, encode_object(self._resource, entry), cluster)

    def takes_steps(self, *states: CachedObject | None) -> bool:
        """Whether an event with these states is encoded in small steps."""
        return self.uses_cached_protobuf and any(state is not None and is_long_message(state) for state in states)

    def event_steps(
        self, kind: str, event: CacheEvent, old: CachedObject | None, new: CachedObject | None
    ) -> Generator[None, None, bytes]:
        """As `event`, a large object in small steps."""
        if new is not None:
            return (yield from self.state_steps(kind, new, event.cluster))
        assert old is not None
        data = replace_revision(encode_object(self._resource, old), event.revision)
        return self._protobuf_frame(kind, (yield from protobuf.message_steps(decode(data))))

    def state_steps(self, kind: str, entry: CachedObject, cluster: str) -> Generator[None, None, bytes]:
        """As `state`, a large object in small steps."""
        if not self.uses_cached_protobuf:
            return self.state(kind, entry, cluster)
        return self._protobuf_frame(kind, (yield from message_steps(self._resource, entry)))

    def wrap(self, kind: str, data: bytes) -> bytes:
        """An event with what is given as JSON."""
        if self.is_protobuf:
            return protobuf.watch_frame(kind, protobuf.encode(orjson.loads(data)))
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), data)

    def _protobuf_frame(self, kind: str, message: bytes) -> bytes:
        return protobuf.watch_frame(kind, protobuf.envelope(self._resource.api_version, self._resource.kind, message))

    def _encode(self, kind: str, data: bytes, cluster: str) -> bytes:
        if self._everywhere:
            data = inject_cluster_annotation(data, cluster)
        if self._output.mode != "object":
            headers = not self._headers_sent
            self._headers_sent = True
            now = self._clock.now()
            data = orjson.dumps(
                to_table_or_metadata(self._resource, self._output, data, now, self._include_object, headers)
            )
        return self.wrap(kind, data)
