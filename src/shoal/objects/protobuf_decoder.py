"""Decodes protobuf messages to objects, driven by the field tables.

The result is what Go's JSON encoding of the message would contain, without its nulls. Invalid bytes raise ValueError,
IndexError or OverflowError, which `protobuf.decode` converts to an API error.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from shoal.objects.protobuf_table import SPECIAL_TYPES, ProtobufField, message_fields, message_name

MAGIC = b"k8s\x00"

# Enough for any schema. A JSON encoder supports about twice as many levels.
_MAX_DEPTH = 100

_TakeFunc = Callable[[dict[str, Any], bytes, int, int, int], None]
"""(out, data, start, stop, depth): puts the field's value into `out`."""
_ValueFunc = Callable[[bytes, int, int, int], Any]
"""(data, start, stop, depth) -> the value in JSON."""


class MessageDecoder:
    """The decoder of one message type. Compiled on first use, because types refer to each other in cycles."""

    __slots__ = (
        "delimited_fields",
        "double_fields",
        "field_numbers",
        "is_compiled",
        "name",
        "varint_fields",
        "zero_values",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_compiled = False
        self.delimited_fields: dict[int, _TakeFunc] = {}
        self.varint_fields: dict[int, tuple[str, bool, bool, bool]] = {}
        """tag -> JSON name, is a bool, zero is kept, is a list."""
        self.double_fields: dict[int, str] = {}
        self.field_numbers: frozenset[int] = frozenset()
        self.zero_values: list[tuple[str, Callable[[], Any]]] = []

    def decode(self, data: bytes, pos: int, end: int, depth: int) -> dict[str, Any]:
        if not self.is_compiled:
            self.compile()
        if depth > _MAX_DEPTH:
            raise ValueError(f"messages are nested more than {_MAX_DEPTH} deep")
        out: dict[str, Any] = {}
        delimited, varints = self.delimited_fields, self.varint_fields
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 0x7F:
                tag, pos = _decode_varint(data, pos - 1)
            kind = tag & 7
            if kind == 2:
                size = data[pos]
                pos += 1
                if size > 0x7F:
                    size, pos = _decode_varint(data, pos - 1)
                stop = pos + size
                if stop > end:
                    raise ValueError(f"{self.name} is cut short")
                take = delimited.get(tag)
                if take is not None:
                    take(out, data, pos, stop, depth)
                elif tag >> 3 in self.field_numbers:
                    raise self._wire_type_error(tag)
                pos = stop
            elif kind == 0:
                value = data[pos]
                pos += 1
                if value > 0x7F:
                    value, pos = _decode_varint(data, pos - 1)
                field = varints.get(tag)
                if field is not None:
                    _put_int(out, value, *field)
                elif tag >> 3 in self.field_numbers:
                    raise self._wire_type_error(tag)
            else:
                pos = self._decode_fixed(out, tag, data, pos, end)
        if pos > end:
            raise ValueError(f"{self.name} is cut short")
        for name, zero in self.zero_values:
            if name not in out:
                out[name] = zero()
        return out

    def zero(self) -> dict[str, Any]:
        return self.decode(b"", 0, 0, 0)

    def compile(self) -> None:
        fields = message_fields(self.name)
        for field in fields:
            tag = field.number << 3
            if field.type in ("int", "bool"):
                keep = bool(field.keep_zero) or field.cardinality == "*"
                self.varint_fields[tag] = (field.name, field.type == "bool", keep, field.cardinality == "[]")
                if field.cardinality == "[]":
                    self.delimited_fields[tag | 2] = _packed_taker(field)
            elif field.type == "double":
                self.double_fields[tag | 1] = field.name
            else:
                self.delimited_fields[tag | 2] = _field_taker(field)
            if field.keep_zero and field.cardinality == "":
                self._add_zero(field)
        self.field_numbers = frozenset(field.number for field in fields)
        self.is_compiled = True

    def _add_zero(self, field: ProtobufField) -> None:
        if field.type in SPECIAL_TYPES:
            zero = SPECIAL_TYPES[field.type].zero
            if zero is not None:
                self.zero_values.append((field.name, lambda: zero))
        elif field.type in _SCALAR_ZEROS:
            self.zero_values.append((field.name, _SCALAR_ZEROS[field.type]))
        elif field.type not in _SCALAR_DECODERS:
            inner = decoder_of(field.type)
            if field.name:
                self.zero_values.append((field.name, inner.zero))
            else:
                inner.compile()
                self.zero_values.extend(inner.zero_values)

    def _decode_fixed(self, out: dict[str, Any], tag: int, data: bytes, pos: int, end: int) -> int:
        width = {1: 8, 5: 4}.get(tag & 7)
        if width is None or not tag >> 3:
            raise ValueError(f"{self.name} has a field of unknown wire type {tag & 7}")
        if pos + width > end:
            raise ValueError(f"{self.name} is cut short")
        if tag in self.double_fields:
            value = struct.unpack_from("<d", data, pos)[0]
            # Go prints a whole number without its fraction. NaN and infinities have no JSON form.
            out[self.double_fields[tag]] = (
                int(value) if abs(value) < 2**53 and value.is_integer() else _require_finite(value)
            )
        elif tag >> 3 in self.field_numbers:
            raise self._wire_type_error(tag)
        return pos + width

    def _wire_type_error(self, tag: int) -> ValueError:
        return ValueError(f"field {tag >> 3} of {self.name} has the wrong wire type {tag & 7}")


@cache
def decoder_of(message: str) -> MessageDecoder:
    return MessageDecoder(message)


def decode_object(data: bytes, depth: int = 0) -> dict[str, Any]:
    """Decodes an object in its envelope, which begins with `MAGIC`, with apiVersion and kind."""
    envelope = decoder_of("Unknown").decode(data, len(MAGIC), len(data), depth)
    for key in ("contentEncoding", "contentType"):
        if envelope.get(key):
            raise ValueError(f"the envelope has {key} {envelope[key]!r}, which is not supported")
    api_version, kind = envelope["typeMeta"]["apiVersion"], envelope["typeMeta"]["kind"]
    if not api_version or not kind:
        raise ValueError("the envelope has no apiVersion and kind")
    message = message_name(api_version, kind)
    if message is None:
        raise ValueError(f'no kind "{kind}" of version "{api_version}" is known in protobuf, send it as JSON')
    raw = envelope.get("raw", b"")
    return {"apiVersion": api_version, "kind": kind, **decoder_of(message).decode(raw, 0, len(raw), depth + 1)}


def _decode_varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, pos
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _put_int(out: dict[str, Any], number: int, name: str, is_bool: bool, keep: bool, is_list: bool) -> None:
    value: int = bool(number) if is_bool else number - (1 << 64) if number >> 63 else number
    if is_list:
        out.setdefault(name, []).append(value)
    elif value or keep:
        out[name] = value
    else:
        out.pop(name, None)


def _packed_taker(field: ProtobufField) -> _TakeFunc:
    name, is_bool = field.name, field.type == "bool"

    def take(out: dict[str, Any], data: bytes, pos: int, stop: int, _depth: int) -> None:
        while pos < stop:
            value, pos = _decode_varint(data, pos)
            _put_int(out, value, name, is_bool, True, True)
        if pos > stop:
            raise ValueError(f"the list {name} is cut short")

    return take


def _field_taker(field: ProtobufField) -> _TakeFunc:
    if field.cardinality == "{}":
        return _map_entry_taker(field)
    name, read = field.name, _value_decoder(field.type)
    keep = bool(field.keep_zero) or field.cardinality == "*"

    def put_string(out: dict[str, Any], data: bytes, pos: int, stop: int, _depth: int) -> None:
        # As `put`, but one call cheaper: most fields are strings.
        value = data[pos:stop].decode()
        if value or keep:
            out[name] = value
        else:
            out.pop(name, None)

    def put(out: dict[str, Any], data: bytes, pos: int, stop: int, depth: int) -> None:
        value = read(data, pos, stop, depth)
        if value or (keep and value is not None):
            out[name] = value
        else:
            out.pop(name, None)

    def append(out: dict[str, Any], data: bytes, pos: int, stop: int, depth: int) -> None:
        out.setdefault(name, []).append(read(data, pos, stop, depth))

    def inline(out: dict[str, Any], data: bytes, pos: int, stop: int, depth: int) -> None:
        out.update(read(data, pos, stop, depth))

    if field.cardinality == "[]":
        return append
    if not name:
        return inline
    return put_string if field.type == "string" else put


def _map_entry_taker(field: ProtobufField) -> _TakeFunc:
    """A map is encoded as messages of key = 1 and value = 2."""
    entry = MessageDecoder(f"an entry of {field.name}")
    entry.is_compiled = True
    entry.field_numbers = frozenset((1, 2))
    entry.delimited_fields = {
        10: _field_taker(ProtobufField(1, "key", "", "string", 1)),
        18: _field_taker(ProtobufField(2, "value", "", field.type, 1)),
    }
    entry.zero_values = [("key", str)]
    entry._add_zero(ProtobufField(2, "value", "", field.type, 1))
    name = field.name

    def take(out: dict[str, Any], data: bytes, pos: int, stop: int, depth: int) -> None:
        pair = entry.decode(data, pos, stop, depth)
        out.setdefault(name, {})[pair["key"]] = pair.get("value")

    return take


def _value_decoder(name: str) -> _ValueFunc:
    if name in _SCALAR_DECODERS:
        return _SCALAR_DECODERS[name]
    inner = decoder_of(name)
    if name not in SPECIAL_TYPES:
        return lambda data, pos, stop, depth: inner.decode(data, pos, stop, depth + 1)
    to_json = SPECIAL_TYPES[name].to_json
    return lambda data, pos, stop, depth: to_json(inner.decode(data, pos, stop, depth))


def _decode_string(data: bytes, pos: int, stop: int, _depth: int) -> str:
    return data[pos:stop].decode()


def _decode_base64(data: bytes, pos: int, stop: int, _depth: int) -> str:
    return b2a_base64(data[pos:stop], newline=False).decode()


def _decode_raw(data: bytes, pos: int, stop: int, _depth: int) -> bytes:
    return data[pos:stop]


def _decode_embedded(data: bytes, pos: int, stop: int, depth: int) -> Any:
    """Embedded JSON, or an object in a protobuf envelope (as in the items of a List)."""
    raw = data[pos:stop]
    if raw.startswith(MAGIC):
        return decode_object(raw, depth + 1)
    return orjson.loads(raw) if raw else None


def _require_finite(value: float) -> float:
    if value - value != 0:
        raise ValueError(f"{value} cannot be represented as a JSON number")
    return value


_SCALAR_DECODERS: dict[str, _ValueFunc] = {
    "string": _decode_string,
    "bytes": _decode_base64,
    "raw": _decode_raw,
    "embedded": _decode_embedded,
}
_SCALAR_ZEROS: dict[str, Callable[[], Any]] = {"string": str, "int": int, "bool": bool}
