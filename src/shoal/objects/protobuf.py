"""`application/vnd.kubernetes.protobuf`: encodes and decodes objects of built-in kinds.

The bytes are a magic number and an envelope that names the kind. A watch sends its events as length-delimited frames.
Custom resources have no protobuf form.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Any

from shoal.objects import errors
from shoal.objects.protobuf_decoder import MAGIC, decode_object
from shoal.objects.protobuf_encoder import MessageEncoder, encode_delimited, encode_varint, encoder_of
from shoal.objects.protobuf_table import message_name

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_ENVELOPE_SUFFIX = b"\x1a\x00\x22\x00"
"""The envelope's contentEncoding and contentType, both empty."""
_INVALID = (TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What the encoder raises for an object that is not of its kind."""


def has_protobuf(api_version: str, kind: str) -> bool:
    return message_name(api_version, kind) is not None


def decode(data: bytes) -> tuple[str, str, dict[str, Any]]:
    """Returns apiVersion, kind and the object, as Go's JSON without nulls. Raises BadRequest for invalid data."""
    if not data:
        raise errors.BadRequest("empty data")
    if not data.startswith(MAGIC):
        prefix = " ".join(map(str, MAGIC))
        text = f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]"
        raise errors.BadRequest(text)
    if data == MAGIC:
        raise errors.BadRequest("empty body")
    try:
        obj = decode_object(data)
    except IndexError:
        raise errors.BadRequest("unable to decode the protobuf message: it is cut short") from None
    except (ValueError, OverflowError) as error:
        raise errors.BadRequest(f"unable to decode the protobuf message: {error}") from None
    return obj["apiVersion"], obj["kind"], obj


def encode(obj: dict[str, Any]) -> bytes:
    """Returns the object in its envelope. Raises NotAcceptable for a kind without a protobuf form."""
    return envelope(str(obj.get("apiVersion", "")), str(obj.get("kind", "")), encode_message(obj))


def encoding_steps(obj: dict[str, Any]) -> Generator[None, None, bytes]:
    """As `encode`, in small steps."""
    message = yield from message_steps(obj)
    return envelope(str(obj.get("apiVersion", "")), str(obj.get("kind", "")), message)


def encode_message(obj: dict[str, Any]) -> bytes:
    """Returns the object without an envelope, as it is stored in an envelope or a list of its kind."""
    encoder = _encoder(obj)
    try:
        return encoder.encode(obj)
    except _INVALID as error:
        raise _encoding_error(obj, error) from error


def message_steps(obj: dict[str, Any]) -> Generator[None, None, bytes]:
    """As `encode_message`, in small steps."""
    encoder = _encoder(obj)
    try:
        return (yield from encoder.steps(obj))
    except _INVALID as error:
        raise _encoding_error(obj, error) from error


def _encoder(obj: dict[str, Any]) -> MessageEncoder:
    api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    name = message_name(api_version, kind)
    if name is None:
        raise errors.NotAcceptable(f'no kind "{kind}" of version "{api_version}" is known in protobuf')
    return encoder_of(name)


def _encoding_error(obj: dict[str, Any], error: Exception) -> errors.InternalError:
    return errors.InternalError(f"unable to encode {obj['kind']} of {obj['apiVersion']} as protobuf: {error}")


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"".join((_envelope_prefix(api_version, kind), encode_varint(len(raw)), raw, _ENVELOPE_SUFFIX))


def list_envelope(api_version: str, kind: str, metadata: dict[str, Any], pieces: list[bytes]) -> list[bytes]:
    """Returns a list of items encoded by `list_item`, in any number of pieces."""
    head = encode_delimited(1, encoder_of("meta/v1.ListMeta").encode(metadata))
    size = encode_varint(len(head) + sum(map(len, pieces)))
    return [_envelope_prefix(api_version, kind) + size + head, *pieces, _ENVELOPE_SUFFIX]


def list_item(raw: bytes) -> bytes:
    """Returns a message encoded as one item of a list."""
    return encode_delimited(2, raw)


@lru_cache(maxsize=256)
def _envelope_prefix(api_version: str, kind: str) -> bytes:
    """Returns the envelope up to the length of the object's message."""
    type_meta = encoder_of("TypeMeta").encode({"apiVersion": api_version, "kind": kind})
    return MAGIC + encode_delimited(1, type_meta) + encode_varint(2 << 3 | 2)


def watch_frame(event_type: str, encoded: bytes) -> bytes:
    """Returns one frame of a protobuf watch: its length in four bytes, then the event around an encoded object."""
    event = encode_delimited(1, event_type.encode()) + encode_delimited(2, encode_delimited(1, encoded))
    return len(event).to_bytes(4, "big") + event
