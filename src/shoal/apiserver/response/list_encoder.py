"""Encodes the body of a list item by item: as JSON, as indented JSON, as YAML or as protobuf.

The result does not depend on how the items are grouped into pieces. No piece is much larger than the largest item, so
that nothing holds the event loop for the length of the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import orjson

from shoal.apiserver.response.negotiation import JSON, PROTOBUF, YAML
from shoal.apiserver.response.yaml_encoder import YAMLEncoder
from shoal.objects import protobuf
from shoal.objects.wire import Response

Object = dict[str, Any]
Item = bytes | Object
"""An item as JSON, or decoded."""

PIECE_BYTES = 128 * 1024
"""Items are joined into pieces of about this size."""
_ITEM_INDENT = b"\n    "


class ListEncoder(Protocol):
    def add(self, item: Item) -> Iterator[None] | None:
        """Adds an item. If that takes long, returns its steps, which the caller runs."""

    def finish(self) -> Response: ...


class PieceBuffer:
    """Joins encoded items into pieces. All pieces but the first begin with the separator."""

    def __init__(self, separator: bytes = b"") -> None:
        self._separator = separator
        self._pieces: list[bytes] = []
        self._batch: list[bytes] = []
        self._size = 0

    def add(self, item: bytes) -> None:
        self._batch.append(item)
        self._size += len(item)
        if self._size >= PIECE_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._pieces.append(self._separator.join(self._batch))
        self._batch, self._size = [b""] if self._separator else [], 0

    def pieces(self) -> list[bytes]:
        if self._size:
            self._flush()
        return self._pieces


class JSONListEncoder:
    """`head` has the fields before the items, `field` is the name of the items' field, `end` follows the body."""

    def __init__(self, head: Object, field: str, end: bytes) -> None:
        self._opening = list_opening(head, field)
        self._buffer, self._end = PieceBuffer(b","), end

    def add(self, item: Item) -> None:
        self._buffer.add(item if isinstance(item, bytes) else orjson.dumps(item))

    def finish(self) -> Response:
        return pieces_response([self._opening, *self._buffer.pieces(), b"]}" + self._end])


class PrettyListEncoder:
    """The bytes are those of the whole list with an indentation of two spaces."""

    def __init__(self, head: Object, field: str) -> None:
        opening = orjson.dumps(head, option=orjson.OPT_INDENT_2).removesuffix(b"\n}")
        self._opening = b'%b,\n  "%b": [' % (opening, field.encode())
        self._buffer = PieceBuffer(b"," + _ITEM_INDENT)

    def add(self, item: Item) -> None:
        obj = orjson.loads(item) if isinstance(item, bytes) else item
        # A line break in a string is escaped, so every line break here is one of the layout.
        self._buffer.add(orjson.dumps(obj, option=orjson.OPT_INDENT_2).replace(b"\n", _ITEM_INDENT))

    def finish(self) -> Response:
        if not (pieces := self._buffer.pieces()):
            return Response(200, self._opening + b"]\n}\n")
        return pieces_response([self._opening + _ITEM_INDENT, *pieces, b"\n  ]\n}\n"])


class YAMLListEncoder:
    """Keys are sorted, so some fields follow the items."""

    def __init__(self, head: Object, field: str) -> None:
        self._buffer, self._encoder = PieceBuffer(), YAMLEncoder()
        self._head, self._field = head, field
        self._encoder.begin_mapping()
        self._write_fields([key for key in sorted(head) if key < field])
        self._encoder.write(field)
        self._encoder.begin_sequence()

    def _write_fields(self, keys: list[str]) -> None:
        for key in keys:
            self._encoder.write(key)
            self._encoder.write(self._head[key])

    def add(self, item: Item) -> Iterator[None]:
        yield from self._encoder.steps(orjson.loads(item) if isinstance(item, bytes) else item)
        self._buffer.add(self._encoder.take())

    def finish(self) -> Response:
        self._encoder.end_sequence()
        self._write_fields([key for key in sorted(self._head) if key > self._field])
        self._encoder.end_mapping()
        self._buffer.add(self._encoder.finish())
        return pieces_response(self._buffer.pieces(), YAML)


class ProtobufListEncoder:
    """Takes items as messages, or decoded with apiVersion and kind."""

    def __init__(self, head: Object) -> None:
        self._head, self._buffer = head, PieceBuffer()

    def add(self, item: Item) -> Iterator[None] | None:
        if isinstance(item, dict):
            return self._encode(item)
        self._buffer.add(protobuf.list_item(item))
        return None

    def _encode(self, item: Object) -> Iterator[None]:
        self._buffer.add(protobuf.list_item((yield from protobuf.message_steps(item))))

    def finish(self) -> Response:
        return protobuf_list(self._head, self._buffer.pieces())


def list_opening(head: Object, field: str) -> bytes:
    return b'%b,"%b":[' % (orjson.dumps(head)[:-1], field.encode())


def protobuf_list(head: Object, pieces: list[bytes]) -> Response:
    return pieces_response(protobuf.list_envelope(head["apiVersion"], head["kind"], head["metadata"], pieces), PROTOBUF)


def pieces_response(pieces: list[bytes], content_type: str = JSON) -> Response:
    """A body of one piece, with what is before and after it, is joined."""
    return Response(200, pieces if len(pieces) > 3 else b"".join(pieces), content_type)
