"""The frames of a tunnel: nine bytes of kind, stream and length, then the payload.

The hub opens streams, one per request. OPEN carries the request's head, HEAD the response's; DATA and END go either
way; RESET ends a stream both ways at once; WINDOW grants the other side more bytes of DATA. Bytes in, frames out: no
transport here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from shoal.objects.errors import ShoalError
from shoal.objects.wire import Request

PROTOCOL = "shoal-tunnel"
"""Value of the Upgrade header."""

OPEN, HEAD, DATA, END, RESET, WINDOW, PING, PONG = range(1, 9)
_KINDS = range(OPEN, PONG + 1)
_CONNECTION_KINDS = (PING, PONG)

MAX_PAYLOAD = 256 * 1024
"""Of a payload. Heads are smaller, because the servers that read them limit theirs."""
INITIAL_CREDIT = 256 * 1024
"""What each side may send on a new stream before it gets a WINDOW."""
MAX_STREAM_ID = 0xFFFFFFFF

_header_struct = struct.Struct(">BII")
_uint32_struct = struct.Struct(">I")

HeaderPairs = tuple[tuple[str, str], ...]


class ProtocolError(ShoalError):
    """The other side does not speak this protocol; the tunnel ends."""


class Frame(NamedTuple):
    kind: int
    stream: int
    payload: bytes = b""


def encode(kind: int, stream: int = 0, payload: bytes = b"") -> bytes:
    return _header_struct.pack(kind, stream, len(payload)) + payload


def encode_window(stream: int, credit: int) -> bytes:
    return encode(WINDOW, stream, _uint32_struct.pack(credit))


def decode_window(payload: bytes) -> int:
    if len(payload) != _uint32_struct.size:
        raise ProtocolError("invalid credit in WINDOW frame")
    credit: int = _uint32_struct.unpack(payload)[0]
    return credit


class FrameReader:
    """Splits a byte stream into frames, however it is sliced; buffers at most one frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        buffer = self._buffer
        buffer += data
        offset = 0
        try:
            while len(buffer) - offset >= _header_struct.size:
                kind, stream, length = _header_struct.unpack_from(buffer, offset)
                _validate_header(kind, stream, length)
                end = offset + _header_struct.size + length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[offset + _header_struct.size : end])
                offset = end
                yield Frame(kind, stream, payload)
        finally:
            del buffer[:offset]


def _validate_header(kind: int, stream: int, length: int) -> None:
    if kind not in _KINDS:
        raise ProtocolError(f"unknown frame kind {kind}")
    if (stream == 0) != (kind in _CONNECTION_KINDS):
        raise ProtocolError(f"frame of kind {kind} is not allowed on stream {stream}")
    if length > MAX_PAYLOAD:
        raise ProtocolError(f"frame of {length} bytes exceeds the limit of {MAX_PAYLOAD}")


# --- heads ---


class OpenFrame(NamedTuple):
    """Content of an OPEN frame."""

    request: Request
    """Without its body, which follows as DATA."""
    length: int


class HeadFrame(NamedTuple):
    """Content of a HEAD frame."""

    status: int
    content_type: str
    headers: HeaderPairs
    length: int | None
    """None: a stream of unknown length."""


def encode_open(request: Request) -> bytes:
    pairs = request.raw_headers or tuple(request.headers.items())
    return orjson.dumps([request.method, request.path, request.query, pairs, len(request.body)])


def decode_open(payload: bytes) -> OpenFrame:
    method, path, query, pairs, length = _decode_list(payload, 5)
    lines = _decode_pairs(pairs)
    if not (isinstance(method, str) and isinstance(path, str) and isinstance(query, str) and _is_count(length)):
        raise ProtocolError("invalid request in OPEN frame")
    headers: dict[str, str] = {}
    for name, value in lines:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    repeated = lines if len(headers) != len(lines) else ()
    return OpenFrame(Request(method, path, query, headers, raw_headers=repeated), length)


def encode_head(status: int, content_type: str, headers: HeaderPairs, length: int | None) -> bytes:
    return orjson.dumps([status, content_type, headers, length])


def decode_head(payload: bytes) -> HeadFrame:
    status, content_type, pairs, length = _decode_list(payload, 4)
    if not (_is_count(status) and (status == 101 or 200 <= status <= 599) and isinstance(content_type, str)):
        raise ProtocolError("invalid response in HEAD frame")
    if length is not None and not _is_count(length):
        raise ProtocolError("invalid length in HEAD frame")
    return HeadFrame(status, content_type, _decode_pairs(pairs), length)


def _decode_list(payload: bytes, count: int) -> list[Any]:
    try:
        decoded = orjson.loads(payload)
    except ValueError:
        decoded = None
    if not isinstance(decoded, list) or len(decoded) != count:
        raise ProtocolError("frame head is not a list of the expected length")
    return decoded


def _decode_pairs(header_list: object) -> HeaderPairs:
    if not isinstance(header_list, list):
        raise ProtocolError("headers are not a list")
    for pair in header_list:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str)):
            raise ProtocolError("header is not a pair of strings")
    return tuple((name, value) for name, value in header_list)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
