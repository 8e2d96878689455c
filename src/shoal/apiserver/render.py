"""Builds responses from cached objects, in the negotiated output.

Usually the cached bytes are the response. Decoding is needed only for another version, for a schema that changed since
the object was written, for tables and for metadata alone.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.cache import Entry, Table
from shoal.apiserver.encoding import decode, encode, splice, untyped, with_cluster
from shoal.apiserver.negotiate import PROTOBUF, View
from shoal.apiserver.registry import Resource
from shoal.apiserver.table import make_table
from shoal.apiserver.webhooks.conversion import shown
from shoal.objects import protobuf
from shoal.objects.errors import NotAcceptable
from shoal.objects.wire import Response

Object = dict[str, Any]


def served(resource: Resource, entry: Entry) -> bytes:
    """The object's bytes in the requested version."""
    if not resource.custom or entry.normal == resource.schema_hash:
        shared = resource.rules.shared
        return entry.data if shared is None else splice(encode(shared.from_stored(entry.object())), entry.revision)
    if resource.conversion is not None and (other := shown(resource, entry)) is not entry:
        return other.data
    obj = entry.object()
    before = obj.get("apiVersion")
    obj["apiVersion"] = resource.api_version
    changed = resource.normalise(obj) or before != resource.api_version
    data = splice(encode(obj), entry.revision) if changed else entry.data
    if resource.version == resource.storage_version:
        entry.data, entry.normal = data, resource.schema_hash
    return data


def served_object(resource: Resource, entry: Entry) -> Object:
    return decode(served(resource, entry))


def message(resource: Resource, entry: Entry) -> bytes:
    """The protobuf message of a built-in object, encoded once."""
    if resource.rules.shared is not None:
        return protobuf.message(served_object(resource, entry))
    if entry.message is None:
        entry.message = protobuf.message(entry.object())
    return entry.message


def one(resource: Resource, view: View, data: bytes, now: float, status: int = 200, include: str = "") -> Response:
    """A response with one object, given as served bytes."""
    if view.mode == "object":
        return Response(status, data)
    if view.listed:
        raise _not_so(resource, "PartialObjectMetadataList", "is not a list", resource.kind)
    return Response(status, orjson.dumps(transformed(resource, view, data, now, include)))


def transformed(
    resource: Resource, view: View, data: bytes, now: float, include: str = "", headers: bool = True
) -> Object:
    obj = decode(data)
    if view.mode == "partial":
        return partial(obj, view.version)
    revision = obj["metadata"].get("resourceVersion")
    metadata = {"resourceVersion": revision} if revision else {}
    return make_table(
        resource, [obj], version=view.version, include=include, now=now, metadata=metadata, headers=headers
    )


def partial(obj: Object, version: str) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def _not_so(resource: Resource, asked: str, is_so: str, kind: str) -> NotAcceptable:
    """The message names the Go type, as upstream."""
    name = kind if resource.custom else f"*{resource.group.partition('.')[0] or 'core'}.{kind}"
    return NotAcceptable(f"you requested {asked}, but the requested object {is_so} ({name})")


BATCH = 256
"""Objects joined into one piece of a large list: pieces of about a megabyte, never one giant copy."""
MOST_JOINED = 4
"""Cached list bodies per table. They cost as much memory as the objects in them."""


def many(
    resource: Resource,
    view: View,
    entries: list[tuple[str, Entry]] | list[Entry],
    metadata: Object,
    now: float,
    include: str,
) -> Response:
    """A list response. Entries with a cluster name belong to the wildcard view."""
    if view.form == PROTOBUF and view.mode == "object" and not (entries and isinstance(entries[0], tuple)):
        messages = [message(resource, entry) for entry in entries if isinstance(entry, Entry)]
        return _protobuf_list(resource, metadata, _joined_messages(messages))
    if view.mode == "partial" and not view.listed:
        raise _not_so(resource, "PartialObjectMetadata", "is a list", resource.list_kind)
    data = [
        with_cluster(served(resource, entry[1]), entry[0]) if isinstance(entry, tuple) else served(resource, entry)
        for entry in entries
    ]
    if view.mode == "table":
        objects = [decode(item) for item in data]
        table = make_table(resource, objects, version=view.version, include=include, now=now, metadata=metadata)
        return Response(200, orjson.dumps(table))
    if view.mode == "partial":
        items = [partial(decode(item), view.version) for item in data]
        kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{view.version}"
        return Response(
            200, orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
        )
    return _list(resource, metadata, _joined(resource, data))


def everything(resource: Resource, table: Table, namespace: str, metadata: Object, form: str = "") -> Response:
    """A list of one namespace or of all. Many informers ask for it at once, so the joined body is cached."""
    asked = (resource.api_version, resource.schema_hash, namespace, form)
    pieces = table.joined.get(asked)
    if pieces is None:
        if form == PROTOBUF:
            pieces = _joined_messages([message(resource, entry) for entry in table.select(namespace)])
        else:
            pieces = _joined(resource, [served(resource, entry) for entry in table.select(namespace)])
        if len(pieces) > 1 and len(table.joined) < MOST_JOINED:
            table.joined[asked] = pieces if asked in table.joined else None
    return (_protobuf_list if form == PROTOBUF else _list)(resource, metadata, pieces)


def _joined(resource: Resource, data: list[bytes]) -> list[bytes]:
    """Joins the items into large pieces. All but the first begin with a comma.

    Items of built-in kinds omit apiVersion and kind, items of custom kinds keep them, as upstream's types do.
    """
    data = data if resource.custom else list(map(untyped, data))
    first = [b",".join(data[:BATCH])]
    return first + [b",".join([b"", *data[at : at + BATCH]]) for at in range(BATCH, len(data), BATCH)]


def _list(resource: Resource, metadata: Object, pieces: list[bytes]) -> Response:
    if resource.custom and "continue" not in metadata:
        # Upstream encodes custom kinds without Go types, so the empty field is not omitted.
        metadata = {"continue": "", **metadata}
    head = orjson.dumps({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata})
    body = [head[:-1] + b',"items":[', *pieces, b"]}\n"]
    return Response(200, body if len(body) > 3 else b"".join(body))


def _joined_messages(messages: list[bytes]) -> list[bytes]:
    items = list(map(protobuf.item, messages))
    return [b"".join(items[at : at + BATCH]) for at in range(0, len(items), BATCH)]


def _protobuf_list(resource: Resource, metadata: Object, pieces: list[bytes]) -> Response:
    body = protobuf.list_envelope(resource.api_version, resource.list_kind, metadata, pieces)
    return Response(200, body if len(body) > 3 else b"".join(body), content_type=PROTOBUF)
