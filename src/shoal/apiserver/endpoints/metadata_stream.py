"""`/clusters/*/metadata`: one watch with the metadata garbage collection needs, over every object of every kind.

It delivers objects with owner references, objects that wait for a propagation finalizer, and every deletion. All other
objects cost one byte search. An update that changes none of the delivered fields is skipped. An object is sent as
PartialObjectMetadata, and annotations give its cluster and served resource. A deletion only names the object, because
nothing was decoded for it. A plain GET with `resource` and `name` finds the objects of that name in all logical
clusters.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import orjson

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, ResourceCache
from shoal.apiserver.cache.storage_form import CLUSTER_ANNOTATION
from shoal.apiserver.request.info import WILDCARD, RequestInfo
from shoal.apiserver.request.options import parse_bool, parse_int, parse_revision
from shoal.apiserver.server import ServerComponents
from shoal.objects.errors import BadRequest, Expired, StatusError
from shoal.objects.wire import Answer, Response, Sink, StreamResponse

Object = dict[str, Any]

PATH = "/metadata"
RESOURCE_ANNOTATION = "shoal.dev/resource"
"""`group/version/plural` under which the object can be read and written. The core group is empty."""
INITIAL_END = "k8s.io/initial-events-end"
BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT = 1800


class _GCMetadata(msgspec.Struct):
    """The fields delivered for an object, beside its revision."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str = ""  # noqa: N815 - as the wire has them
    deletionTimestamp: str = ""  # noqa: N815
    finalizers: list[str] = []
    ownerReferences: list[Object] = []  # noqa: N815


class _ObjectHeader(msgspec.Struct):
    apiVersion: str  # noqa: N815
    metadata: _GCMetadata


_HEADER_DECODER = msgspec.json.Decoder(_ObjectHeader)
"""Several times faster than decoding the whole object."""


def is_metadata_path(info: RequestInfo) -> bool:
    return info.cluster == WILDCARD and info.path.rstrip("/") == PATH


def metadata_response(server: ServerComponents, query: dict[str, str]) -> Answer:
    """Reachable only for users of the wildcard view."""
    if not parse_bool(query, "watch"):
        return _list_by_name(server, query)
    since = parse_revision(query.get("resourceVersion", ""))
    return StreamResponse(200, MetadataWatcher(server, since, parse_int(query, "timeoutSeconds")).start)


def _list_by_name(server: ServerComponents, query: dict[str, str]) -> Response:
    group, slash, plural = query.get("resource", "").rpartition("/")
    name = query.get("name", "")
    if not name or not slash or not plural:
        raise BadRequest("watch=1 is required, or resource=GROUP/PLURAL and name")
    kind = server.cache.resource_caches.get(f"{group or 'core'}/{plural}")
    key = f"{query.get('namespace', '')}/{name}"
    items = []
    if kind is not None:
        candidates = [(cluster, kind.tables[cluster].entries.get(key)) for cluster in kind.clusters()]
        items = [_partial_metadata(server, kind, cluster, entry) for cluster, entry in candidates if entry is not None]
    answer = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(server.cache.revision)},
        "items": items,
    }
    return Response(200, orjson.dumps(answer))


class MetadataWatcher:
    def __init__(self, server: ServerComponents, since: int, seconds: int) -> None:
        self._server, self._since = server, since
        usual = DEFAULT_TIMEOUT * (1 + server.name_generator.fraction())
        self._seconds = min(seconds, usual) if seconds > 0 else usual
        self._sink: Sink | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._last_bookmark = 0

    def start(self, sink: Sink) -> None:
        self._sink = sink
        cache = self._server.cache
        oldest = cache.history.oldest_revision_of(WILDCARD)
        if self._since and self._since < oldest:
            self._fail(Expired(f"too old resource version: {self._since} ({oldest})"))
            return
        if self._since:
            for kind, change in cache.history.events_since(self._since):
                self.deliver(kind, change)
        else:
            self._send_initial_events()
            self._bookmark({INITIAL_END: "true"})
        cache.observe(self.deliver)
        sink.on_close(self._stop)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._seconds, self._finish))
        self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick, loop))

    def deliver(self, resource_cache: ResourceCache, event: CacheEvent) -> None:
        old, new = event.old, event.new
        if new is None:
            self._send("DELETED", _deleted_metadata(resource_cache, event))
        elif _is_relevant(new.data) or (old is not None and _is_relevant(old.data)):
            if old is not None and _HEADER_DECODER.decode(old.data) == _HEADER_DECODER.decode(new.data):
                return
            self._send(
                "ADDED" if old is None else "MODIFIED",
                _partial_metadata(self._server, resource_cache, event.cluster, new),
            )

    def _send_initial_events(self) -> None:
        # Copies, because building the metadata may add bootstrap objects to a table that is being iterated.
        for kind in list(self._server.cache.resource_caches.values()):
            for cluster, table in list(kind.tables.items()):
                for entry in list(table.entries.values()):
                    if _is_relevant(entry.data):
                        self._send("ADDED", _partial_metadata(self._server, kind, cluster, entry))

    def _send(self, event: str, obj: Object) -> None:
        assert self._sink is not None
        self._sink.write(b'{"type":"%b","object":%b}\n' % (event.encode(), orjson.dumps(obj)))

    def _bookmark(self, annotations: dict[str, str] | None = None) -> None:
        current = self._server.cache.revision
        if annotations or current != self._last_bookmark:
            self._last_bookmark = current
            self._send("BOOKMARK", _partial_object({"resourceVersion": str(current), "annotations": annotations or {}}))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bookmark()
        self._timers[1] = loop.call_later(BOOKMARK_SECONDS, self._tick, loop)

    def _finish(self) -> None:
        assert self._sink is not None
        self._bookmark()
        self._sink.close()

    def _fail(self, error: StatusError) -> None:
        assert self._sink is not None
        self._send("ERROR", error.to_status())
        self._sink.close()

    def _stop(self) -> None:
        self._server.cache.unobserve(self.deliver)
        for timer in self._timers:
            timer.cancel()


def _is_relevant(data: bytes) -> bool:
    """Reports whether the object may own or be owned. A match elsewhere in its bytes does no harm."""
    if b'"ownerReferences":' in data:
        return True
    return b'"deletionTimestamp":' in data and (b'"foregroundDeletion"' in data or b'"orphan"' in data)


def _partial_metadata(
    server: ServerComponents, resource_cache: ResourceCache, cluster: str, entry: CachedObject
) -> Object:
    header = _HEADER_DECODER.decode(entry.data)
    annotations = {
        CLUSTER_ANNOTATION: cluster,
        RESOURCE_ANNOTATION: _served_as(server, resource_cache, cluster, header.apiVersion),
    }
    fields = {field: value for field in _GCMetadata.__struct_fields__ if (value := getattr(header.metadata, field))}
    return _partial_object({**fields, "resourceVersion": str(entry.revision), "annotations": annotations})


def _deleted_metadata(resource_cache: ResourceCache, event: CacheEvent) -> Object:
    last = event.latest
    group, _, plural = resource_cache.key.partition("/")
    resource = f"{'' if group == 'core' else group}//{plural}"
    annotations = {CLUSTER_ANNOTATION: event.cluster, RESOURCE_ANNOTATION: resource}
    metadata: Object = {"name": last.name, "resourceVersion": str(event.revision), "annotations": annotations}
    if last.namespace:
        metadata["namespace"] = last.namespace
    return _partial_object(metadata)


def _served_as(server: ServerComponents, resource_cache: ResourceCache, cluster: str, api_version: str) -> str:
    """The stored version if it is served, else any served version."""
    group, _, version = api_version.rpartition("/")
    plural = resource_cache.key.partition("/")[2]
    logical_cluster = server.clusters.get(cluster)
    if logical_cluster is not None:
        registry = server.clusters.registry(logical_cluster)
        if registry.find(group, version, plural) is None:
            served = [v for v in registry.versions(group) if registry.find(group, v, plural) is not None]
            version = served[0] if served else version
    return f"{group}/{version}/{plural}"


def _partial_object(metadata: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
