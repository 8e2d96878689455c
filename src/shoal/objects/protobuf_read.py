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

from shoal.objects.protobuf_table import SPECIAL, Field, fields_of, message_of

MAGIC = b"k8s\x00"

# Enough for any schema. A JSON encoder supports about twice as many levels.
_MAX_DEPTH = 100

_Take = Callable[[dict[str, Any], bytes, int, int, int], None]
"""(out, data, start, stop, depth): puts the field's value into `out`."""
_Value = Callable[[bytes, int, int, int], Any]
"""(data, start, stop, depth) -> the value in JSON."""


class Reader:
    """The decoder of one message type. Compiled on first use, because types refer to each other in cycles."""

    __slots__ = ("compiled", "delimited", "doubles", "name", "numbers", "varints", "zeros")

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiled = False
        self.delimited: dict[int, _Take] = {}
        self.varints: dict[int, tuple[str, bool, bool, bool]] = {}
        """tag -> JSON name, is a bool, zero is kept, is a list."""
        self.doubles: dict[int, str] = {}
        self.numbers: frozenset[int] = frozenset()
        self.zeros: list[tuple[str, Callable[[], Any]]] = []

    def read(self, data: bytes, pos: int, end: int, depth: int) -> dict[str, Any]:
        if not self.compiled:
            self.compile()
        if depth > _MAX_DEPTH:
            raise ValueError(f"messages are nested more than {_MAX_DEPTH} deep")
        out: dict[str, Any] = {}
        delimited, varints = self.delimited, self.varints
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 0x7F:
                tag, pos = _varint(data, pos - 1)
            kind = tag & 7
            if kind == 2:
                size = data[pos]
                pos += 1
                if size > 0x7F:
                    size, pos = _varint(data, pos - 1)
                stop = pos + size
                if stop > end:
                    raise ValueError(f"{self.name} is cut short")
                take = delimited.get(tag)
                if take is not None:
                    take(out, data, pos, stop, depth)
                elif tag >> 3 in self.numbers:
                    raise self._mistyped(tag)
                pos = stop
            elif kind == 0:
                value = data[pos]
                pos += 1
                if value > 0x7F:
                    value, pos = _varint(data, pos - 1)
                field = varints.get(tag)
                if field is not None:
                    _put_int(out, value, *field)
                elif tag >> 3 in self.numbers:
                    raise self._mistyped(tag)
            else:
                pos = self._fixed(out, tag, data, pos, end)
        if pos > end:
            raise ValueError(f"{self.name} is cut short")
        for name, zero in self.zeros:
            if name not in out:
                out[name] = zero()
        return out

    def zero(self) -> dict[str, Any]:
        return self.read(b"", 0, 0, 0)

    def compile(self) -> None:
        fields = fields_of(self.name)
        for field in fields:
            tag = field.number << 3
            if field.type in ("int", "bool"):
                keep = bool(field.keep) or field.shape == "*"
                self.varints[tag] = (field.name, field.type == "bool", keep, field.shape == "[]")
                if field.shape == "[]":
                    self.delimited[tag | 2] = _take_packed(field)
            elif field.type == "double":
                self.doubles[tag | 1] = field.name
            else:
                self.delimited[tag | 2] = _take(field)
            if field.keep and field.shape == "":
                self._add_zero(field)
        self.numbers = frozenset(field.number for field in fields)
        self.compiled = True

    def _add_zero(self, field: Field) -> None:
        if field.type in SPECIAL:
            zero = SPECIAL[field.type].zero
            if zero is not None:
                self.zeros.append((field.name, lambda: zero))
        elif field.type in _SCALAR_ZEROS:
            self.zeros.append((field.name, _SCALAR_ZEROS[field.type]))
        elif field.type not in _VALUES:
            inner = reader(field.type)
            if field.name:
                self.zeros.append((field.name, inner.zero))
            else:
                inner.compile()
                self.zeros.extend(inner.zeros)

    def _fixed(self, out: dict[str, Any], tag: int, data: bytes, pos: int, end: int) -> int:
        width = {1: 8, 5: 4}.get(tag & 7)
        if width is None or not tag >> 3:
            raise ValueError(f"{self.name} has a field of unknown wire type {tag & 7}")
        if pos + width > end:
            raise ValueError(f"{self.name} is cut short")
        if tag in self.doubles:
            value = struct.unpack_from("<d", data, pos)[0]
            # Go prints a whole number without its fraction. NaN and infinities have no JSON form.
            out[self.doubles[tag]] = int(value) if abs(value) < 2**53 and value.is_integer() else _finite(value)
        elif tag >> 3 in self.numbers:
            raise self._mistyped(tag)
        return pos + width

    def _mistyped(self, tag: int) -> ValueError:
        return ValueError(f"field {tag >> 3} of {self.name} has the wrong wire type {tag & 7}")


@cache
def reader(message: str) -> Reader:
    return Reader(message)


def read_object(data: bytes, depth: int = 0) -> dict[str, Any]:
    """Decodes an object in its envelope, which begins with `MAGIC`, with apiVersion and kind."""
    envelope = reader("Unknown").read(data, len(MAGIC), len(data), depth)
    for key in ("contentEncoding", "contentType"):
        if envelope.get(key):
            raise ValueError(f"the envelope has {key} {envelope[key]!r}, which is not supported")
    api_version, kind = envelope["typeMeta"]["apiVersion"], envelope["typeMeta"]["kind"]
    if not api_version or not kind:
        raise ValueError("the envelope names no apiVersion and kind")
    message = message_of(api_version, kind)
    if message is None:
        raise ValueError(f'no kind "{kind}" of version "{api_version}" is known in protobuf, send it as JSON')
    raw = envelope.get("raw", b"")
    return {"apiVersion": api_version, "kind": kind, **reader(message).read(raw, 0, len(raw), depth + 1)}


def _varint(data: bytes, pos: int) -> tuple[int, int]:
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


def _take_packed(field: Field) -> _Take:
    name, is_bool = field.name, field.type == "bool"

    def take(out: dict[str, Any], data: bytes, pos: int, stop: int, _depth: int) -> None:
        while pos < stop:
            value, pos = _varint(data, pos)
            _put_int(out, value, name, is_bool, True, True)
        if pos > stop:
            raise ValueError(f"the list {name} is cut short")

    return take


def _take(field: Field) -> _Take:
    if field.shape == "{}":
        return _take_entry(field)
    name, read = field.name, _value_of(field.type)
    keep = bool(field.keep) or field.shape == "*"

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

    if field.shape == "[]":
        return append
    if not name:
        return inline
    return put_string if field.type == "string" else put


def _take_entry(field: Field) -> _Take:
    """A map is encoded as messages of key = 1 and value = 2."""
    entry = Reader(f"an entry of {field.name}")
    entry.compiled = True
    entry.numbers = frozenset((1, 2))
    entry.delimited = {10: _take(Field(1, "key", "", "string", 1)), 18: _take(Field(2, "value", "", field.type, 1))}
    entry.zeros = [("key", str)]
    entry._add_zero(Field(2, "value", "", field.type, 1))
    name = field.name

    def take(out: dict[str, Any], data: bytes, pos: int, stop: int, depth: int) -> None:
        pair = entry.read(data, pos, stop, depth)
        out.setdefault(name, {})[pair["key"]] = pair.get("value")

    return take


def _value_of(name: str) -> _Value:
    if name in _VALUES:
        return _VALUES[name]
    inner = reader(name)
    if name not in SPECIAL:
        return lambda data, pos, stop, depth: inner.read(data, pos, stop, depth + 1)
    to_json = SPECIAL[name].to_json
    return lambda data, pos, stop, depth: to_json(inner.read(data, pos, stop, depth))


def _string(data: bytes, pos: int, stop: int, _depth: int) -> str:
    return data[pos:stop].decode()


def _base64(data: bytes, pos: int, stop: int, _depth: int) -> str:
    return b2a_base64(data[pos:stop], newline=False).decode()


def _raw(data: bytes, pos: int, stop: int, _depth: int) -> bytes:
    return data[pos:stop]


def _embedded(data: bytes, pos: int, stop: int, depth: int) -> Any:
    """Embedded JSON, or an object in a protobuf envelope (as in the items of a List)."""
    raw = data[pos:stop]
    if raw.startswith(MAGIC):
        return read_object(raw, depth + 1)
    return orjson.loads(raw) if raw else None


def _finite(value: float) -> float:
    if value - value != 0:
        raise ValueError(f"{value} is not a number JSON can say")
    return value


_VALUES: dict[str, _Value] = {"string": _string, "bytes": _base64, "raw": _raw, "embedded": _embedded}
_SCALAR_ZEROS: dict[str, Callable[[], Any]] = {"string": str, "int": int, "bool": bool}
