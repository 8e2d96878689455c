"""Encodes objects as protobuf messages, driven by the field tables.

Fields are written in order of their numbers, map entries by key. Keys the kind does not have are left out. A value of
the wrong type raises TypeError, ValueError or AttributeError, which `protobuf.encode` handles.
"""

from __future__ import annotations

import struct
from binascii import a2b_base64
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from shoal.objects.protobuf_table import SPECIAL, Field, fields_of

_Emit = Callable[[list[bytes], Any], None]
_Payload = Callable[[Any], bytes]


class Writer:
    """The encoder of one message type. Compiled on first use, because types refer to each other in cycles."""

    __slots__ = ("emits", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.emits: list[tuple[str, _Emit]] | None = None

    def write(self, obj: dict[str, Any]) -> bytes:
        emits = self.emits
        if emits is None:
            emits = self.emits = [(f.name, _emit(f)) for f in sorted(fields_of(self.name), key=lambda f: f.number)]
        parts: list[bytes] = []
        for name, emit in emits:
            # The fields of an inlined message are in its parent object.
            value = obj.get(name) if name else obj
            if value is not None:
                emit(parts, value)
        return b"".join(parts)


@cache
def writer(message: str) -> Writer:
    return Writer(message)


def varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return _SMALL[number]
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def delimited(number: int, payload: bytes) -> bytes:
    return b"%b%b%b" % (varint(number << 3 | 2), varint(len(payload)), payload)


def _emit(field: Field) -> _Emit:
    one = _emit_one(field.number, field.type)

    def inline(parts: list[bytes], value: Any) -> None:
        inner: list[bytes] = []
        one(inner, value)
        if len(inner[-1]):
            parts.extend(inner)

    def each(parts: list[bytes], values: Any) -> None:
        for value in values:
            one(parts, value)

    if field.shape == "{}":
        return _emit_entries(field)
    return each if field.shape == "[]" else one if field.name else inline


def _emit_one(number: int, name: str) -> _Emit:
    if name in ("int", "bool"):
        tag = varint(number << 3)
        return lambda parts, value: parts.append(tag + varint(value))
    if name == "double":
        tag = varint(number << 3 | 1)
        return lambda parts, value: parts.append(tag + struct.pack("<d", value))
    tag, payload_of = varint(number << 3 | 2), _payload_of(name)

    def emit(parts: list[bytes], value: Any) -> None:
        payload = payload_of(value)
        parts += (tag, varint(len(payload)), payload)

    return emit


def _emit_entries(field: Field) -> _Emit:
    key_of, value_of = _emit_one(1, "string"), _emit_one(2, field.type)
    number = field.number

    def emit(parts: list[bytes], entries: Any) -> None:
        for key, value in sorted(entries.items()):
            entry: list[bytes] = []
            key_of(entry, key)
            if value is not None:
                value_of(entry, value)
            parts.append(delimited(number, b"".join(entry)))

    return emit


def _payload_of(name: str) -> _Payload:
    if name in _PAYLOADS:
        return _PAYLOADS[name]
    inner = writer(name)
    if name not in SPECIAL:
        return inner.write
    from_json = SPECIAL[name].from_json
    return lambda value: inner.write(from_json(value))


def _string(value: str) -> bytes:
    return value.encode()


def _bytes(value: str) -> bytes:
    return a2b_base64(value, strict_mode=True)


_SMALL = [bytes((number,)) for number in range(0x80)]
_PAYLOADS: dict[str, _Payload] = {"string": _string, "bytes": _bytes, "raw": bytes, "embedded": orjson.dumps}
