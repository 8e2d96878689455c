"""The stored and the served form of an object's bytes.

Stored bytes begin `{"apiVersion":…,"kind":…,"metadata":{` and hold no resourceVersion; the served form has
it spliced in right after that opening. So a GET is the cached bytes as they are, and a LIST is a join.
Annotations come first in metadata, so that the wildcard view can add its own without decoding.
"""

from __future__ import annotations

from typing import Any

import orjson

Object = dict[str, Any]

_METADATA = b'"metadata":{'
_ORDER: Object = {"apiVersion": None, "kind": None, "metadata": None}

CLUSTER_ANNOTATION = "shoal.dev/cluster"


def encode(obj: Object) -> bytes:
    """The stored form. Takes the resourceVersion out of the object it is given."""
    metadata = obj["metadata"]
    metadata.pop("resourceVersion", None)
    if "annotations" in metadata:
        metadata = {"annotations": metadata["annotations"], **metadata}
    return orjson.dumps({**_ORDER, **obj, "metadata": metadata})


def splice(stored: bytes, revision: int) -> bytes:
    """The served form of stored bytes."""
    at = stored.index(_METADATA) + 12
    return b'%b"resourceVersion":"%d",%b' % (stored[:at], revision, stored[at:])


def respliced(served: bytes, revision: int) -> bytes:
    """A served form with another revision: the last state of a deleted object, or of a dry run."""
    at = served.index(_METADATA) + 12
    end = served.index(b'",', at) + 2
    return b'%b"resourceVersion":"%d",%b' % (served[:at], revision, served[end:])


def stored(served: bytes) -> bytes:
    """The way back from a served form."""
    at = served.index(_METADATA) + 12
    return served[:at] + served[served.index(b'",', at) + 2 :]


def untyped(served: bytes) -> bytes:
    """Without apiVersion and kind: an item of a list, which has said them for all."""
    return b"{" + served[served.index(_METADATA) :]


def with_cluster(served: bytes, cluster: str) -> bytes:
    """The served form for the wildcard view: annotation `shoal.dev/cluster` tells where the object lives."""
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
