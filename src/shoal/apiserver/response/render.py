"""Builds responses from cached objects, in the negotiated output.

Usually the cached bytes are the response. Decoding is needed only for another version, for a schema that changed since
the object was written, for tables and for metadata alone.
"""

from __future__ import annotations

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
from shoal.apiserver.response.negotiation import PROTOBUF, OutputMediaType
from shoal.apiserver.response.table import make_table
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


BATCH_SIZE = 256
"""Objects joined into one piece of a large list: pieces of about a megabyte, never one giant copy."""
MAX_CACHED_LISTS = 4
"""Cached list bodies per table. They cost as much memory as the objects in them."""


def list_response(
    resource: Resource,
    output: OutputMediaType,
    entries: list[tuple[str, CachedObject]] | list[CachedObject],
    metadata: Object,
    now: float,
    include_object: str,
) -> Response:
    """A list response. Entries with a cluster name belong to the wildcard view."""
    if output.media_type == PROTOBUF and output.mode == "object" and not (entries and isinstance(entries[0], tuple)):
        messages = [encode_protobuf(resource, entry) for entry in entries if isinstance(entry, CachedObject)]
        return _protobuf_list(resource, metadata, _join_protobuf_items(messages))
    if output.mode == "partial" and not output.partial_list:
        raise _transform_error(resource, "PartialObjectMetadata", "is a list", resource.list_kind)
    data = [
        inject_cluster_annotation(encode_object(resource, entry[1]), entry[0])
        if isinstance(entry, tuple)
        else encode_object(resource, entry)
        for entry in entries
    ]
    if output.mode == "table":
        objects = [decode(item) for item in data]
        table = make_table(
            resource, objects, version=output.meta_version, include_object=include_object, now=now, metadata=metadata
        )
        return Response(200, orjson.dumps(table))
    if output.mode == "partial":
        items = [partial_metadata(decode(item), output.meta_version) for item in data]
        kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{output.meta_version}"
        return Response(
            200, orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
        )
    return _json_list(resource, metadata, _join_items(resource, data))


def full_list_response(
    resource: Resource, table: ObjectTable, namespace: str, metadata: Object, media_type: str = ""
) -> Response:
    """A list of one namespace or of all. Many informers ask for it at once, so the joined body is cached."""
    key = (resource.api_version, resource.schema_hash, namespace, media_type)
    pieces = table.list_bodies.get(key)
    if pieces is None:
        if media_type == PROTOBUF:
            pieces = _join_protobuf_items([encode_protobuf(resource, entry) for entry in table.select(namespace)])
        else:
            pieces = _join_items(resource, [encode_object(resource, entry) for entry in table.select(namespace)])
        if len(pieces) > 1 and len(table.list_bodies) < MAX_CACHED_LISTS:
            table.list_bodies[key] = pieces if key in table.list_bodies else None
    return (_protobuf_list if media_type == PROTOBUF else _json_list)(resource, metadata, pieces)


def _join_items(resource: Resource, data: list[bytes]) -> list[bytes]:
    """Joins the items into large pieces. All but the first begin with a comma.

    Items of built-in kinds omit apiVersion and kind, items of custom kinds keep them, as upstream's types do.
    """
    data = data if resource.custom else list(map(strip_type_meta, data))
    first = [b",".join(data[:BATCH_SIZE])]
    return first + [b",".join([b"", *data[at : at + BATCH_SIZE]]) for at in range(BATCH_SIZE, len(data), BATCH_SIZE)]


def _json_list(resource: Resource, metadata: Object, pieces: list[bytes]) -> Response:
    if resource.custom and "continue" not in metadata:
        # Upstream encodes custom kinds without Go types, so the empty field is not omitted.
        metadata = {"continue": "", **metadata}
    head = orjson.dumps({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata})
    body = [head[:-1] + b',"items":[', *pieces, b"]}\n"]
    return Response(200, body if len(body) > 3 else b"".join(body))


def _join_protobuf_items(messages: list[bytes]) -> list[bytes]:
    items = list(map(protobuf.list_item, messages))
    return [b"".join(items[at : at + BATCH_SIZE]) for at in range(0, len(items), BATCH_SIZE)]


def _protobuf_list(resource: Resource, metadata: Object, pieces: list[bytes]) -> Response:
    body = protobuf.list_envelope(resource.api_version, resource.list_kind, metadata, pieces)
    return Response(200, body if len(body) > 3 else b"".join(body), content_type=PROTOBUF)
