"""Builds responses from cached objects, in the negotiated output.

Usually the cached bytes are the response. Decoding is needed only for another version, for a schema that changed since
the object was written, for tables and for metadata alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import orjson

from shoal.apiserver.cache.cacher import CachedObject, ObjectTable
from shoal.apiserver.cache.storage_form import (
    decode,
    encode,
    inject_cluster_annotation,
    inject_revision,
    strip_type_meta,
)
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.list_encoder import (
    Item,
    JSONListEncoder,
    ListEncoder,
    PieceBuffer,
    PrettyListEncoder,
    ProtobufListEncoder,
    YAMLListEncoder,
    list_opening,
    pieces_response,
    protobuf_list,
)
from shoal.apiserver.response.negotiation import PROTOBUF, YAML, OutputMediaType
from shoal.apiserver.response.serializer import LONG_BYTES
from shoal.apiserver.response.table import make_table, row_maker, table_head
from shoal.apiserver.webhooks.conversion import converted_entry
from shoal.objects import protobuf
from shoal.objects.errors import NotAcceptable
from shoal.objects.wire import Response

Object = dict[str, Any]


def encode_object(resource: Resource, entry: CachedObject) -> bytes:
    """The object's bytes in the requested version."""
    if not resource.custom or entry.normalised_for == resource.schema_hash:
        alias = resource.strategy.storage_alias
        return (
            entry.data if alias is None else inject_revision(encode(alias.from_stored(entry.object())), entry.revision)
        )
    if resource.conversion is not None and (converted := converted_entry(resource, entry)) is not entry:
        return converted.data
    obj = entry.object()
    before = obj.get("apiVersion")
    obj["apiVersion"] = resource.api_version
    changed = resource.normalise(obj) or before != resource.api_version
    data = inject_revision(encode(obj), entry.revision) if changed else entry.data
    if resource.version == resource.storage_version:
        entry.data, entry.normalised_for = data, resource.schema_hash
    return data


def served_object(resource: Resource, entry: CachedObject) -> Object:
    return decode(encode_object(resource, entry))


def encode_protobuf(resource: Resource, entry: CachedObject) -> bytes:
    """The protobuf message of a built-in object, encoded once."""
    if resource.strategy.storage_alias is not None:
        return protobuf.encode_message(served_object(resource, entry))
    if entry.protobuf is None:
        entry.protobuf = protobuf.encode_message(entry.object())
    return entry.protobuf


def is_long_message(entry: CachedObject) -> bool:
    """Whether to encode the object in slices. Its message is then not kept."""
    return len(entry.data) > LONG_BYTES and entry.protobuf is None


def message_steps(resource: Resource, entry: CachedObject) -> Generator[None, None, bytes]:
    """As `encode_protobuf`, a large object in small steps."""
    if is_long_message(entry):
        return (yield from protobuf.message_steps(served_object(resource, entry)))
    return encode_protobuf(resource, entry)


def object_response(
    resource: Resource, output: OutputMediaType, data: bytes, now: float, status: int = 200, include_object: str = ""
) -> Response:
    """A response with one object, given as served bytes."""
    if output.mode == "object":
        return Response(status, data)
    if output.partial_list:
        raise _transform_error(resource, "PartialObjectMetadataList", "is not a list", resource.kind)
    return Response(status, orjson.dumps(to_table_or_metadata(resource, output, data, now, include_object)))


def to_table_or_metadata(
    resource: Resource, output: OutputMediaType, data: bytes, now: float, include_object: str = "", headers: bool = True
) -> Object:
    obj = decode(data)
    if output.mode == "partial":
        return partial_metadata(obj, output.meta_version)
    revision = obj["metadata"].get("resourceVersion")
    metadata = {"resourceVersion": revision} if revision else {}
    return make_table(
        resource,
        [obj],
        version=output.meta_version,
        include_object=include_object,
        now=now,
        metadata=metadata,
        headers=headers,
    )


def partial_metadata(obj: Object, version: str) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def _transform_error(resource: Resource, requested: str, actual: str, kind: str) -> NotAcceptable:
    """The message names the Go type, as upstream."""
    name = kind if resource.custom else f"*{resource.group.partition('.')[0] or 'core'}.{kind}"
    return NotAcceptable(f"you requested {requested}, but the requested object {actual} ({name})")


SMALL_LIST = 256
"""Objects of a list that is encoded in one step if their bytes are served as they are."""
STEP_BYTES = 4096
"""Bytes of the objects that are encoded or tested in one step: few enough for the slowest output."""
MAX_CACHED_LISTS = 4
"""Cached list bodies per table. They cost as much memory as the objects in them."""
Row = tuple[str, CachedObject]
"""An object and, in the wildcard view, its cluster."""
ListSlices = Generator[None, None, Response]


def list_slices(
    resource: Resource,
    output: OutputMediaType,
    rows: Iterable[Row],
    metadata: Object,
    now: float,
    include_object: str,
    pretty: bool = False,
) -> ListSlices:
    """A list response, a few objects in each step."""
    encoder = _list_encoder(resource, output, metadata, pretty)
    item_of = _item_function(resource, output, now, include_object)
    size = 0
    for cluster, entry in rows:
        steps = encoder.add(item_of(entry, cluster))
        if steps is not None:
            yield from steps
        size += len(entry.data)
        if size > STEP_BYTES:
            size = 0
            yield
    return encoder.finish()


def _list_encoder(resource: Resource, output: OutputMediaType, metadata: Object, pretty: bool) -> ListEncoder:
    field, end = "items", b""
    if output.mode == "table":
        head, field = table_head(resource, output.meta_version, metadata), "rows"
    elif output.mode == "partial":
        if not output.partial_list:
            raise _transform_error(resource, "PartialObjectMetadata", "is a list", resource.list_kind)
        api_version = f"meta.k8s.io/{output.meta_version}"
        head = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": metadata}
    else:
        head, end = _list_head(resource, metadata), b"\n"
    if output.media_type == PROTOBUF:
        return ProtobufListEncoder(head)
    if output.media_type == YAML:
        return YAMLListEncoder(head, field)
    return PrettyListEncoder(head, field) if pretty else JSONListEncoder(head, field, end)


def _list_head(resource: Resource, metadata: Object) -> Object:
    if resource.custom and "continue" not in metadata:
        # Upstream encodes custom kinds without Go types, so the empty field is not omitted.
        metadata = {"continue": "", **metadata}
    return {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}


def _item_function(
    resource: Resource, output: OutputMediaType, now: float, include_object: str
) -> Callable[[CachedObject, str], Item]:
    """Returns the function that gives an object, of that cluster in the wildcard view, as the encoder takes it."""

    def data_of(entry: CachedObject, cluster: str) -> bytes:
        data = encode_object(resource, entry)
        return inject_cluster_annotation(data, cluster) if cluster else data

    if output.mode == "table":
        make_row = row_maker(resource, output.meta_version, include_object, now)
        return lambda entry, cluster: make_row(decode(data_of(entry, cluster)))
    if output.mode == "partial":
        return lambda entry, cluster: partial_metadata(decode(data_of(entry, cluster)), output.meta_version)
    if output.media_type == PROTOBUF:
        return lambda entry, cluster: (
            decode(data_of(entry, cluster)) if cluster or is_long_message(entry) else encode_protobuf(resource, entry)
        )
    if resource.custom:
        return data_of

    def item_of(entry: CachedObject, cluster: str) -> bytes:
        """Items of built-in kinds omit apiVersion and kind, items of custom kinds keep them, as upstream's types do."""
        return strip_type_meta(data_of(entry, cluster) if cluster else encode_object(resource, entry))

    return item_of


def full_list_slices(
    resource: Resource, table: ObjectTable, namespace: str, metadata: Object, media_type: str = ""
) -> ListSlices:
    """A list of one namespace or of all. Many informers ask for it at once, so the joined body is cached."""
    key = (resource.api_version, resource.schema_hash, namespace, media_type)
    bodies, head = table.list_bodies, _list_head(resource, metadata)
    pieces = bodies.get(key)
    if pieces is None:
        entries, is_repeated = table.select(namespace), key in bodies
        if len(entries) > SMALL_LIST and len(bodies) < MAX_CACHED_LISTS:
            # The next write to the table drops this mark with all bodies, so that what is stored below is not found.
            bodies[key] = None
        buffer = PieceBuffer(b"" if media_type == PROTOBUF else b",")
        size = 0
        for entry in entries:
            if media_type == PROTOBUF:
                buffer.add(protobuf.list_item((yield from message_steps(resource, entry))))
            else:
                data = encode_object(resource, entry)
                buffer.add(data if resource.custom else strip_type_meta(data))
            size += len(entry.data)
            if size > STEP_BYTES:
                size = 0
                yield
        pieces = buffer.pieces()
        if is_repeated:
            bodies[key] = pieces
    if media_type == PROTOBUF:
        return protobuf_list(head, pieces)
    return pieces_response([list_opening(head, "items"), *pieces, b"]}\n"])


def small_list_response(resource: Resource, entries: list[CachedObject], metadata: Object) -> Response:
    """A list of a few objects whose bytes are served as they are, as JSON."""
    items = [encode_object(resource, entry) for entry in entries]
    if not resource.custom:
        items = list(map(strip_type_meta, items))
    return Response(200, b"%b%b]}\n" % (list_opening(_list_head(resource, metadata), "items"), b",".join(items)))
