"""`application/vnd.kubernetes.protobuf`: between the bytes and the wire dict of a built-in kind.

The bytes are a magic number and an envelope that names the kind; a watch sends its events as length-delimited
frames. Custom resources have no protobuf form.
"""

from __future__ import annotations

from typing import Any

from shoal.objects import errors
from shoal.objects.protobuf_read import MAGIC, read_object
from shoal.objects.protobuf_table import message_of
from shoal.objects.protobuf_write import delimited, writer

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"


def supports(api_version: str, kind: str) -> bool:
    return message_of(api_version, kind) is not None


def decode(data: bytes) -> tuple[str, str, dict[str, Any]]:
    """apiVersion, kind and the object, as Go's JSON would say it without nulls. BadRequest if it is not one."""
    try:
        obj = read_object(data)
    except IndexError:
        raise errors.BadRequest("unable to decode the protobuf message: it is cut short") from None
    except (ValueError, OverflowError) as error:
        raise errors.BadRequest(f"unable to decode the protobuf message: {error}") from None
    return obj["apiVersion"], obj["kind"], obj


def encode(obj: dict[str, Any]) -> bytes:
    """The object in its envelope. NotAcceptable for a kind without a protobuf form."""
    api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    message = message_of(api_version, kind)
    if message is None:
        raise errors.NotAcceptable(f'no kind "{kind}" of version "{api_version}" is known in protobuf')
    try:
        raw = writer(message).write(obj)
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise errors.InternalError(f"unable to encode {kind} of {api_version} as protobuf: {error}") from error
    type_meta = writer("TypeMeta").write({"apiVersion": api_version, "kind": kind})
    return b"".join((MAGIC, delimited(1, type_meta), delimited(2, raw), b"\x1a\x00\x22\x00"))


def watch_frame(event_type: str, encoded: bytes) -> bytes:
    """One frame of a protobuf watch: its length in four bytes, then the event around an encoded object."""
    event = delimited(1, event_type.encode()) + delimited(2, delimited(1, encoded))
    return len(event).to_bytes(4, "big") + event
