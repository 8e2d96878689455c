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
_OF_THE_TUNNEL = (PING, PONG)

LONGEST = 256 * 1024
"""Of a payload. Heads are smaller, because the servers that read them limit theirs."""
CREDIT = 256 * 1024
"""What each side may send on a new stream before it gets a WINDOW."""
LAST_STREAM = 0xFFFFFFFF

_opening = struct.Struct(">BII")
_number = struct.Struct(">I")

Pairs = tuple[tuple[str, str], ...]


class ProtocolError(ShoalError):
    """The other side does not speak this protocol; the tunnel ends."""


class Frame(NamedTuple):
    kind: int
    stream: int
    payload: bytes = b""


def encode(kind: int, stream: int = 0, payload: bytes = b"") -> bytes:
    return _opening.pack(kind, stream, len(payload)) + payload


def encode_window(stream: int, more: int) -> bytes:
    return encode(WINDOW, stream, _number.pack(more))


def decode_window(payload: bytes) -> int:
    if len(payload) != _number.size:
        raise ProtocolError("a WINDOW without a number")
    more: int = _number.unpack(payload)[0]
    return more


class FrameReader:
    """Splits a byte stream into frames, however it is sliced; buffers at most one frame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        held = self._held
        held += data
        at = 0
        try:
            while len(held) - at >= _opening.size:
                kind, stream, length = _opening.unpack_from(held, at)
                _check(kind, stream, length)
                end = at + _opening.size + length
                if len(held) < end:
                    break
                payload = bytes(memoryview(held)[at + _opening.size : end])
                at = end
                yield Frame(kind, stream, payload)
        finally:
            del held[:at]


def _check(kind: int, stream: int, length: int) -> None:
    if kind not in _KINDS:
        raise ProtocolError(f"a frame of unknown kind {kind}")
    if (stream == 0) != (kind in _OF_THE_TUNNEL):
        raise ProtocolError(f"a frame of kind {kind} on stream {stream}")
    if length > LONGEST:
        raise ProtocolError(f"a frame of {length} bytes: the limit is {LONGEST}")


# --- heads ---


class Opened(NamedTuple):
    """Content of an OPEN frame."""

    request: Request
    """Without its body, which follows as DATA."""
    length: int


class Answered(NamedTuple):
    """Content of a HEAD frame."""

    status: int
    content_type: str
    headers: Pairs
    length: int | None
    """None: a stream of unknown length."""


def encode_open(request: Request) -> bytes:
    pairs = request.repeated or tuple(request.headers.items())
    return orjson.dumps([request.method, request.path, request.query, pairs, len(request.body)])


def decode_open(payload: bytes) -> Opened:
    method, path, query, pairs, length = _list(payload, 5)
    lines = _pairs(pairs)
    if not (isinstance(method, str) and isinstance(path, str) and isinstance(query, str) and _is_count(length)):
        raise ProtocolError("an OPEN that is no request")
    headers: dict[str, str] = {}
    for name, value in lines:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    repeated = lines if len(headers) != len(lines) else ()
    return Opened(Request(method, path, query, headers, repeated=repeated), length)


def encode_head(status: int, content_type: str, headers: Pairs, length: int | None) -> bytes:
    return orjson.dumps([status, content_type, headers, length])


def decode_head(payload: bytes) -> Answered:
    status, content_type, pairs, length = _list(payload, 4)
    if not (_is_count(status) and 200 <= status <= 599 and isinstance(content_type, str)):
        raise ProtocolError("a HEAD that is no answer")
    if length is not None and not _is_count(length):
        raise ProtocolError("a HEAD without a length")
    return Answered(status, content_type, _pairs(pairs), length)


def _list(payload: bytes, count: int) -> list[Any]:
    try:
        found = orjson.loads(payload)
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != count:
        raise ProtocolError("a head that is no list")
    return found


def _pairs(found: object) -> Pairs:
    if not isinstance(found, list):
        raise ProtocolError("headers that are no list")
    for pair in found:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str)):
            raise ProtocolError("a header that is no pair of texts")
    return tuple((name, value) for name, value in found)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
