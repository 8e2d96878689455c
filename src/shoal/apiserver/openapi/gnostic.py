"""Encodes OpenAPI v2 documents as the protobuf that Go clients read: the messages of gnostic's openapi.v2.

Free-form values (defaults, enums, `x-` extensions) are YAML text in it. JSON is valid YAML, so JSON is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import orjson

Object = dict[str, Any]

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_Fields = dict[str, tuple[int, str]]
"""Key -> field number and encoder: a name in `_ENCODERS` or `_MESSAGES`, with a `*` prefix for each item of a list."""


def _numbered(start: int) -> _Fields:
    """Returns the constraint fields of a parameter, numbered from `type` on."""
    return {
        "type": (start, "text"),
        "format": (start + 1, "text"),
        "default": (start + 4, "any"),
        "uniqueItems": (start + 14, "flag"),
        "enum": (start + 15, "*any"),
    }


_PARAMETER: _Fields = {"required": (1, "flag"), "in": (2, "text"), "description": (3, "text"), "name": (4, "text")}
_OPERATION = "operation"
_MESSAGES: dict[str, tuple[_Fields, int]] = {
    # For each message: its fields, and the field number of its extensions.
    "document": (
        {
            "swagger": (1, "text"),
            "info": (2, "info"),
            "paths": (8, "paths"),
            "definitions": (9, "schemas"),
            "security": (12, "*security"),
            "securityDefinitions": (13, "securities"),
        },
        16,
    ),
    "info": ({"title": (1, "text"), "version": (2, "text")}, 7),
    "path": (
        {
            "get": (2, _OPERATION),
            "put": (3, _OPERATION),
            "post": (4, _OPERATION),
            "delete": (5, _OPERATION),
            "patch": (8, _OPERATION),
            "parameters": (9, "*parameter"),
        },
        10,
    ),
    "operation": (
        {
            "tags": (1, "*text"),
            "description": (3, "text"),
            "operationId": (5, "text"),
            "produces": (6, "*text"),
            "consumes": (7, "*text"),
            "parameters": (8, "*parameter"),
            "responses": (9, "responses"),
        },
        13,
    ),
    "body": (
        {
            "description": (1, "text"),
            "name": (2, "text"),
            "in": (3, "text"),
            "required": (4, "flag"),
            "schema": (5, "schema"),
        },
        6,
    ),
    "query": (_PARAMETER | _numbered(6), 23),
    "in path": (_PARAMETER | _numbered(5), 22),
    "response": ({"description": (1, "text"), "schema": (2, "answer")}, 5),
    "api key": ({"type": (1, "text"), "name": (2, "text"), "in": (3, "text"), "description": (4, "text")}, 5),
    "schema": (
        {
            "$ref": (1, "text"),
            "format": (2, "text"),
            "title": (3, "text"),
            "description": (4, "text"),
            "default": (5, "any"),
            "multipleOf": (6, "number"),
            "maximum": (7, "number"),
            "exclusiveMaximum": (8, "flag"),
            "minimum": (9, "number"),
            "exclusiveMinimum": (10, "flag"),
            "maxLength": (11, "count"),
            "minLength": (12, "count"),
            "pattern": (13, "text"),
            "maxItems": (14, "count"),
            "minItems": (15, "count"),
            "uniqueItems": (16, "flag"),
            "maxProperties": (17, "count"),
            "minProperties": (18, "count"),
            "required": (19, "*text"),
            "enum": (20, "*any"),
            "additionalProperties": (21, "additional"),
            "type": (22, "types"),
            "items": (23, "items"),
            "properties": (25, "schemas"),
            "example": (30, "any"),
        },
        31,
    ),
}


def encode(swagger: Object) -> bytes:
    return _message("document", swagger)


def _message(kind: str, obj: Object) -> bytes:
    fields, extension = _MESSAGES[kind]
    parts: list[bytes] = []
    for key, value in obj.items():
        field = fields.get(key)
        if field is not None:
            number, writer = field
            if writer[0] == "*":
                parts += [_field(number, writer[1:], one) for one in value]
            else:
                parts.append(_field(number, writer, value))
        elif key.startswith("x-"):
            parts.append(_bytes(extension, _entry(key, _any(value))))
    return b"".join(parts)


def _field(number: int, writer: str, value: Any) -> bytes:
    if writer == "text":
        return _bytes(number, value.encode())
    if writer in ("flag", "count"):
        return _varint(number << 3) + _varint(int(value))
    if writer == "number":
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    return _bytes(number, _WRITERS[writer](value) if writer in _WRITERS else _message(writer, value))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _entry(name: str, value: bytes) -> bytes:
    return _bytes(1, name.encode()) + _bytes(2, value)


def _any(value: object) -> bytes:
    return _bytes(2, orjson.dumps(value))


def _schemas(named: Object) -> bytes:
    return b"".join(_bytes(1, _entry(name, _message("schema", schema))) for name, schema in named.items())


def _paths(named: Object) -> bytes:
    return b"".join(_bytes(2, _entry(name, _message("path", item))) for name, item in named.items())


def _responses(named: Object) -> bytes:
    return b"".join(_bytes(1, _entry(code, _bytes(1, _message("response", one)))) for code, one in named.items())


def _parameter(parameter: Object) -> bytes:
    if parameter["in"] == "body":
        return _bytes(1, _bytes(1, _message("body", parameter)))
    number, kind = (3, "query") if parameter["in"] == "query" else (4, "in path")
    return _bytes(1, _bytes(2, _bytes(number, _message(kind, parameter))))


def _additional(value: Object | bool) -> bytes:
    return _field(2, "flag", value) if isinstance(value, bool) else _bytes(1, _message("schema", value))


def _security(requirement: dict[str, list[str]]) -> bytes:
    return b"".join(
        _bytes(1, _entry(name, b"".join(_field(1, "text", scope) for scope in scopes)))
        for name, scopes in requirement.items()
    )


def _securities(named: Object) -> bytes:
    return b"".join(_bytes(1, _entry(name, _bytes(2, _message("api key", one)))) for name, one in named.items())


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "any": _any,
    "schemas": _schemas,
    "paths": _paths,
    "responses": _responses,
    "parameter": _parameter,
    "additional": _additional,
    "types": lambda value: _bytes(1, value.encode()),
    "items": lambda value: _bytes(1, _message("schema", value)),
    "answer": lambda value: _bytes(1, _message("schema", value)),
    "security": _security,
    "securities": _securities,
}
