"""The stored and the served form of an object's bytes.

Stored bytes begin `{"apiVersion":…,"kind":…,"metadata":{` and hold no resourceVersion. The served form has it inserted
right after that prefix, so a GET returns the cached bytes and a LIST joins them. Annotations come first in metadata, so
that the wildcard view can add its own without decoding.
"""

from __future__ import annotations

from typing import Any

import orjson

Object = dict[str, Any]

_METADATA = b'"metadata":{'
REVISION_FIELD_SIZE = len(b'"resourceVersion":"",')
"""Bytes that the served form has in addition, beside the digits of the revision."""
_ORDER: Object = {"apiVersion": None, "kind": None, "metadata": None}

CLUSTER_ANNOTATION = "shoal.dev/cluster"


def encode(obj: Object) -> bytes:
    """Encodes the stored form. Removes the resourceVersion from the given object."""
    metadata = obj["metadata"]
    metadata.pop("resourceVersion", None)
    if "annotations" in metadata:
        metadata = {"annotations": metadata["annotations"], **metadata}
    return orjson.dumps({**_ORDER, **obj, "metadata": metadata})


def inject_revision(stored: bytes, revision: int) -> bytes:
    """Converts the stored form to the served form."""
    at = stored.index(_METADATA) + 12
    return b'%b"resourceVersion":"%d",%b' % (stored[:at], revision, stored[at:])


def replace_revision(served: bytes, revision: int) -> bytes:
    """Replaces the revision of a served form, for the last state of a deleted object or a dry run."""
    at = served.index(_METADATA) + 12
    end = served.index(b'",', at) + 2
    return b'%b"resourceVersion":"%d",%b' % (served[:at], revision, served[end:])


def strip_revision(served: bytes) -> bytes:
    """Converts the served form back to the stored form."""
    at = served.index(_METADATA) + 12
    return served[:at] + served[served.index(b'",', at) + 2 :]


def strip_type_meta(served: bytes) -> bytes:
    """Removes apiVersion and kind, for items of a list of a built-in kind."""
    return b"{" + served[served.index(_METADATA) :]


def inject_cluster_annotation(served: bytes, cluster: str) -> bytes:
    """The served form of the wildcard view: annotation `shoal.dev/cluster` names the object's logical cluster."""
    at = served.index(b'",', served.index(_METADATA) + 12) + 2
    added = b'"%b":"%b"' % (CLUSTER_ANNOTATION.encode(), cluster.encode())
    if served.startswith(b'"annotations":{', at):
        rest = served[at + 15 :]
        return b'%b"annotations":{%b%b%b' % (served[:at], added, b"" if rest.startswith(b"}") else b",", rest)
    return b'%b"annotations":{%b},%b' % (served[:at], added, served[at:])


def decode(served: bytes) -> Object:
    obj: Object = orjson.loads(served)
    return obj


def dumps(value: Any) -> bytes:
    return orjson.dumps(value)
