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

from shoal.apiserver.cache import Change, Entry, Kind
from shoal.apiserver.core import Core
from shoal.apiserver.encoding import CLUSTER_ANNOTATION
from shoal.apiserver.options import boolean, integer, revision
from shoal.apiserver.paths import WILDCARD, Target
from shoal.objects.errors import BadRequest, Expired, StatusError
from shoal.objects.wire import Answer, Response, Sink, StreamResponse

Object = dict[str, Any]

PATH = "/metadata"
RESOURCE_ANNOTATION = "shoal.dev/resource"
"""`group/version/plural` under which the object can be read and written. The core group is empty."""
INITIAL_END = "k8s.io/initial-events-end"
BOOKMARK_SECONDS = 60.0
DEFAULT_TIMEOUT = 1800


class _Metadata(msgspec.Struct):
    """The fields delivered for an object, beside its revision."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str = ""  # noqa: N815 - as the wire has them
    deletionTimestamp: str = ""  # noqa: N815
    finalizers: list[str] = []
    ownerReferences: list[Object] = []  # noqa: N815


class _Read(msgspec.Struct):
    apiVersion: str  # noqa: N815
    metadata: _Metadata


_READER = msgspec.json.Decoder(_Read)
"""Several times faster than decoding the whole object."""


def is_metadata(target: Target) -> bool:
    return target.cluster == WILDCARD and target.path.rstrip("/") == PATH


def metadata(core: Core, query: dict[str, str]) -> Answer:
    """Reachable only for users of the wildcard view."""
    if not boolean(query, "watch"):
        return _named(core, query)
    since = revision(query.get("resourceVersion", ""))
    return StreamResponse(200, MetadataWatcher(core, since, integer(query, "timeoutSeconds")).start)


def _named(core: Core, query: dict[str, str]) -> Response:
    group, slash, plural = query.get("resource", "").rpartition("/")
    name = query.get("name", "")
    if not name or not slash or not plural:
        raise BadRequest("give watch=1, or resource=GROUP/PLURAL and name, for objects of that name in all clusters")
    kind = core.cache.kinds.get(f"{group or 'core'}/{plural}")
    key = f"{query.get('namespace', '')}/{name}"
    items = []
    if kind is not None:
        found = [(cluster, kind.tables[cluster].entries.get(key)) for cluster in kind.clusters()]
        items = [_described(core, kind, cluster, entry) for cluster, entry in found if entry is not None]
    answer = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(core.cache.revision)},
        "items": items,
    }
    return Response(200, orjson.dumps(answer))


class MetadataWatcher:
    def __init__(self, core: Core, since: int, seconds: int) -> None:
        self._core, self._since = core, since
        usual = DEFAULT_TIMEOUT * (1 + core.dice.fraction())
        self._seconds = min(seconds, usual) if seconds > 0 else usual
        self._sink: Sink | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._marked = 0

    def start(self, sink: Sink) -> None:
        self._sink = sink
        cache = self._core.cache
        if self._since and self._since < cache.oldest:
            self._fail(Expired(f"too old resource version: {self._since} ({cache.oldest})"))
            return
        if self._since:
            for kind, change in cache.since(self._since):
                self.deliver(kind, change)
        else:
            self._send_state()
            self._bookmark({INITIAL_END: "true"})
        cache.observe(self.deliver)
        sink.on_close(self._stop)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._seconds, self._finish))
        self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick, loop))

    def deliver(self, kind: Kind, change: Change) -> None:
        old, new = change.old, change.new
        if new is None:
            self._send("DELETED", _gone(kind, change))
        elif _matters(new.data) or (old is not None and _matters(old.data)):
            if old is not None and _READER.decode(old.data) == _READER.decode(new.data):
                return
            self._send("ADDED" if old is None else "MODIFIED", _described(self._core, kind, change.cluster, new))

    def _send_state(self) -> None:
        # Copies, because building the metadata may add bootstrap objects to a table that is being iterated.
        for kind in list(self._core.cache.kinds.values()):
            for cluster, table in list(kind.tables.items()):
                for entry in list(table.entries.values()):
                    if _matters(entry.data):
                        self._send("ADDED", _described(self._core, kind, cluster, entry))

    def _send(self, event: str, obj: Object) -> None:
        assert self._sink is not None
        self._sink.write(b'{"type":"%b","object":%b}\n' % (event.encode(), orjson.dumps(obj)))

    def _bookmark(self, annotations: dict[str, str] | None = None) -> None:
        current = self._core.cache.revision
        if annotations or current != self._marked:
            self._marked = current
            self._send("BOOKMARK", _partial({"resourceVersion": str(current), "annotations": annotations or {}}))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bookmark()
        self._timers[1] = loop.call_later(BOOKMARK_SECONDS, self._tick, loop)

    def _finish(self) -> None:
        assert self._sink is not None
        self._bookmark()
        self._sink.close()

    def _fail(self, error: StatusError) -> None:
        assert self._sink is not None
        self._send("ERROR", error.wire())
        self._sink.close()

    def _stop(self) -> None:
        self._core.cache.unobserve(self.deliver)
        for timer in self._timers:
            timer.cancel()


def _matters(data: bytes) -> bool:
    """Reports whether the object may own or be owned. A match elsewhere in its bytes does no harm."""
    if b'"ownerReferences":' in data:
        return True
    return b'"deletionTimestamp":' in data and (b'"foregroundDeletion"' in data or b'"orphan"' in data)


def _described(core: Core, kind: Kind, cluster: str, entry: Entry) -> Object:
    read = _READER.decode(entry.data)
    annotations = {CLUSTER_ANNOTATION: cluster, RESOURCE_ANNOTATION: _served_as(core, kind, cluster, read.apiVersion)}
    found = {field: value for field in _Metadata.__struct_fields__ if (value := getattr(read.metadata, field))}
    return _partial({**found, "resourceVersion": str(entry.revision), "annotations": annotations})


def _gone(kind: Kind, change: Change) -> Object:
    last = change.last
    group, _, plural = kind.key.partition("/")
    resource = f"{'' if group == 'core' else group}//{plural}"
    annotations = {CLUSTER_ANNOTATION: change.cluster, RESOURCE_ANNOTATION: resource}
    metadata: Object = {"name": last.name, "resourceVersion": str(change.revision), "annotations": annotations}
    if last.namespace:
        metadata["namespace"] = last.namespace
    return _partial(metadata)


def _served_as(core: Core, kind: Kind, cluster: str, api_version: str) -> str:
    """The stored version if it is served, else any served version."""
    group, _, version = api_version.rpartition("/")
    plural = kind.key.partition("/")[2]
    home = core.clusters.get(cluster)
    if home is not None:
        registry = core.clusters.registry(home)
        if registry.find(group, version, plural) is None:
            served = [v for v in registry.versions(group) if registry.find(group, v, plural) is not None]
            version = served[0] if served else version
    return f"{group}/{version}/{plural}"


def _partial(metadata: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
