"""Encodes objects as protobuf messages, driven by the field tables.

Fields are written in order of their numbers, map entries by key. Keys the kind does not have are left out. A value of
the wrong type raises TypeError, ValueError or AttributeError, which `protobuf.encode` handles. Large objects are
encoded in small steps.
"""

from __future__ import annotations

import struct
from binascii import a2b_base64
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import orjson

from shoal.objects.protobuf_table import SPECIAL_TYPES, ProtobufField, message_fields

_EmitFunc = Callable[[list[bytes], Any], None]
_PayloadFunc = Callable[[Any], bytes]
_StepsFunc = Callable[[list[bytes], Any], Generator[None, None, None]]

_STEP_VALUES = 256
"""Elements of a list that are encoded in one step."""


class MessageEncoder:
    """The encoder of one message type. Compiled on first use, because types refer to each other in cycles."""

    __slots__ = ("emitters", "name", "stepwise")

    def __init__(self, name: str) -> None:
        self.name = name
        self.emitters: list[tuple[str, _EmitFunc]] | None = None
        self.stepwise: list[tuple[str, _EmitFunc, _StepsFunc | None]] | None = None

    def encode(self, obj: dict[str, Any]) -> bytes:
        emits = self.emitters
        if emits is None:
            emits = self.emitters = [(f.name, _field_emitter(f)) for f in self._fields()]
        parts: list[bytes] = []
        for name, emit in emits:
            # The fields of an inlined message are in its parent object.
            value = obj.get(name) if name else obj
            if value is not None:
                emit(parts, value)
        return b"".join(parts)

    def steps(self, obj: dict[str, Any]) -> Generator[None, None, bytes]:
        """As `encode`, in small steps."""
        fields = self.stepwise
        if fields is None:
            fields = self.stepwise = [(f.name, _field_emitter(f), _field_steps(f)) for f in self._fields()]
        parts: list[bytes] = []
        for name, emit, steps in fields:
            value = obj.get(name) if name else obj
            if value is not None and steps is not None:
                yield from steps(parts, value)
            elif value is not None:
                emit(parts, value)
        return b"".join(parts)

    def _fields(self) -> list[ProtobufField]:
        return sorted(message_fields(self.name), key=lambda f: f.number)


@cache
def encoder_of(message: str) -> MessageEncoder:
    return MessageEncoder(message)


def encode_varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return _SMALL_VARINTS[number]
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_delimited(number: int, payload: bytes) -> bytes:
    return b"%b%b%b" % (encode_varint(number << 3 | 2), encode_varint(len(payload)), payload)


def _field_emitter(field: ProtobufField) -> _EmitFunc:
    one = _value_emitter(field.number, field.type)

    def inline(parts: list[bytes], value: Any) -> None:
        inner: list[bytes] = []
        one(inner, value)
        if len(inner[-1]):
            parts.extend(inner)

    def each(parts: list[bytes], values: Any) -> None:
        for value in values:
            one(parts, value)

    if field.cardinality == "{}":
        return _map_emitter(field)
    return each if field.cardinality == "[]" else one if field.name else inline


def _field_steps(field: ProtobufField) -> _StepsFunc | None:
    """As `_field_emitter`, in small steps. None for a field that takes one step."""
    emit, one = _field_emitter(field), _value_steps(field.number, field.type)
    key_of = _value_emitter(1, "string")
    entry_value = _value_steps(2, field.type)

    def inline(parts: list[bytes], value: Any) -> Generator[None, None, None]:
        assert one is not None
        inner: list[bytes] = []
        yield from one(inner, value)
        if len(inner[-1]):
            parts.extend(inner)

    def each(parts: list[bytes], values: Any) -> Generator[None, None, None]:
        for start in range(0, len(values), _STEP_VALUES):
            some = values[start : start + _STEP_VALUES]
            chunk: list[bytes] = []
            if one is None or not any(some):
                emit(chunk, some)
            else:
                for value in some:
                    yield from one(chunk, value)
            parts.append(b"".join(chunk))
            yield

    def entries(parts: list[bytes], value: Any) -> Generator[None, None, None]:
        pairs = sorted(value.items())
        for start in range(0, len(pairs), _STEP_VALUES):
            some = pairs[start : start + _STEP_VALUES]
            if entry_value is None:
                emit(parts, dict(some))
            else:
                for key, each in some:
                    entry: list[bytes] = []
                    key_of(entry, key)
                    if each is not None:
                        yield from entry_value(entry, each)
                    parts.append(encode_delimited(field.number, b"".join(entry)))
            yield

    if field.cardinality in ("[]", "{}"):
        return each if field.cardinality == "[]" else entries
    return one if field.name or one is None else inline


def _value_steps(number: int, name: str) -> _StepsFunc | None:
    """None for a scalar."""
    if name in ("int", "bool", "double", *_SCALAR_PAYLOADS):
        return None
    tag, inner = encode_varint(number << 3 | 2), encoder_of(name)
    from_json = SPECIAL_TYPES[name].from_json if name in SPECIAL_TYPES else None

    def steps(parts: list[bytes], value: Any) -> Generator[None, None, None]:
        payload = yield from inner.steps(value if from_json is None else from_json(value))
        parts += (tag, encode_varint(len(payload)), payload)

    return steps


def _value_emitter(number: int, name: str) -> _EmitFunc:
    if name in ("int", "bool"):
        tag = encode_varint(number << 3)
        return lambda parts, value: parts.append(tag + encode_varint(value))
    if name == "double":
        tag = encode_varint(number << 3 | 1)
        return lambda parts, value: parts.append(tag + struct.pack("<d", value))
    tag, payload_of = encode_varint(number << 3 | 2), _payload_encoder(name)

    def emit(parts: list[bytes], value: Any) -> None:
        payload = payload_of(value)
        parts += (tag, encode_varint(len(payload)), payload)

    return emit


def _map_emitter(field: ProtobufField) -> _EmitFunc:
    key_of, value_of = _value_emitter(1, "string"), _value_emitter(2, field.type)
    number = field.number

    def emit(parts: list[bytes], entries: Any) -> None:
        for key, value in sorted(entries.items()):
            entry: list[bytes] = []
            key_of(entry, key)
            if value is not None:
                value_of(entry, value)
            parts.append(encode_delimited(number, b"".join(entry)))

    return emit


def _payload_encoder(name: str) -> _PayloadFunc:
    if name in _SCALAR_PAYLOADS:
        return _SCALAR_PAYLOADS[name]
    inner = encoder_of(name)
    if name not in SPECIAL_TYPES:
        return inner.encode
    from_json = SPECIAL_TYPES[name].from_json
    return lambda value: inner.encode(from_json(value))


def _string_payload(value: str) -> bytes:
    return value.encode()


def _bytes_payload(value: str) -> bytes:
    return a2b_base64(value, strict_mode=True)


_SMALL_VARINTS = [bytes((number,)) for number in range(0x80)]
_SCALAR_PAYLOADS: dict[str, _PayloadFunc] = {
    "string": _string_payload,
    "bytes": _bytes_payload,
    "raw": bytes,
    "embedded": orjson.dumps,
}
