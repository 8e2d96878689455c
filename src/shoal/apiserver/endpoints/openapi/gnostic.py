"""Encodes OpenAPI v2 documents as the protobuf that Go clients read: the messages of gnostic's openapi.v2.

Free-form values (defaults, enums, `x-` extensions) are YAML text in it. JSON is valid YAML, so JSON is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

import orjson

Object = dict[str, Any]

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_FieldTable = dict[str, tuple[int, str]]
"""Key -> field number and encoder: a name in `_ENCODERS` or `_MESSAGES`, with a `*` prefix for each item of a list."""


def _constraint_fields(start: int) -> _FieldTable:
    """Returns the constraint fields of a parameter, numbered from `type` on."""
    return {
        "type": (start, "text"),
        "format": (start + 1, "text"),
        "default": (start + 4, "any"),
        "uniqueItems": (start + 14, "flag"),
        "enum": (start + 15, "*any"),
    }


_PARAMETER: _FieldTable = {"required": (1, "flag"), "in": (2, "text"), "description": (3, "text"), "name": (4, "text")}
_OPERATION = "operation"
_MESSAGES: dict[str, tuple[_FieldTable, int]] = {
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
    "query": (_PARAMETER | _constraint_fields(6), 23),
    "in path": (_PARAMETER | _constraint_fields(5), 22),
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


def encode(swagger: Object) -> Generator[None, None, bytes]:
    """Encodes one path or definition in each step."""
    parts: list[bytes] = []
    for key, value in swagger.items():
        number, encoder = _MESSAGES["document"][0][key]
        encode_one = {"paths": _encode_path, "schemas": _encode_schema}.get(encoder)
        if encode_one is None:
            parts.append(_encode_message("document", {key: value}))
            continue
        pieces: list[bytes] = []
        for name, item in value.items():
            pieces.append(encode_one(name, item))
            yield
        parts.append(_encode_bytes(number, b"".join(pieces)))
    return b"".join(parts)


def _encode_message(kind: str, obj: Object) -> bytes:
    fields, extension = _MESSAGES[kind]
    parts: list[bytes] = []
    for key, value in obj.items():
        field = fields.get(key)
        if field is not None:
            number, encoder = field
            if encoder[0] == "*":
                parts += [_encode_field(number, encoder[1:], one) for one in value]
            else:
                parts.append(_encode_field(number, encoder, value))
        elif key.startswith("x-"):
            parts.append(_encode_bytes(extension, _encode_named(key, _encode_any(value))))
    return b"".join(parts)


def _encode_field(number: int, encoder: str, value: Any) -> bytes:
    if encoder == "text":
        return _encode_bytes(number, value.encode())
    if encoder in ("flag", "count"):
        return _encode_varint(number << 3) + _encode_varint(int(value))
    if encoder == "number":
        return _encode_varint(number << 3 | 1) + struct.pack("<d", value)
    return _encode_bytes(number, _ENCODERS[encoder](value) if encoder in _ENCODERS else _encode_message(encoder, value))


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_bytes(number: int, data: bytes) -> bytes:
    return _encode_varint(number << 3 | 2) + _encode_varint(len(data)) + data


def _encode_named(name: str, value: bytes) -> bytes:
    return _encode_bytes(1, name.encode()) + _encode_bytes(2, value)


def _encode_any(value: object) -> bytes:
    return _encode_bytes(2, orjson.dumps(value))


def _encode_schemas(schemas: Object) -> bytes:
    return b"".join(_encode_schema(name, schema) for name, schema in schemas.items())


def _encode_schema(name: str, schema: Object) -> bytes:
    return _encode_bytes(1, _encode_named(name, _encode_message("schema", schema)))


def _encode_path(name: str, item: Object) -> bytes:
    return _encode_bytes(2, _encode_named(name, _encode_message("path", item)))


def _encode_responses(responses: Object) -> bytes:
    return b"".join(
        _encode_bytes(1, _encode_named(code, _encode_bytes(1, _encode_message("response", one))))
        for code, one in responses.items()
    )


def _encode_parameter(parameter: Object) -> bytes:
    if parameter["in"] == "body":
        return _encode_bytes(1, _encode_bytes(1, _encode_message("body", parameter)))
    number, kind = (3, "query") if parameter["in"] == "query" else (4, "in path")
    return _encode_bytes(1, _encode_bytes(2, _encode_bytes(number, _encode_message(kind, parameter))))


def _encode_additional_properties(value: Object | bool) -> bytes:
    return (
        _encode_field(2, "flag", value)
        if isinstance(value, bool)
        else _encode_bytes(1, _encode_message("schema", value))
    )


def _encode_security_requirement(requirement: dict[str, list[str]]) -> bytes:
    return b"".join(
        _encode_bytes(1, _encode_named(name, b"".join(_encode_field(1, "text", scope) for scope in scopes)))
        for name, scopes in requirement.items()
    )


def _encode_security_definitions(definitions: Object) -> bytes:
    return b"".join(
        _encode_bytes(1, _encode_named(name, _encode_bytes(2, _encode_message("api key", one))))
        for name, one in definitions.items()
    )


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "any": _encode_any,
    "schemas": _encode_schemas,
    "responses": _encode_responses,
    "parameter": _encode_parameter,
    "additional": _encode_additional_properties,
    "types": lambda value: _encode_bytes(1, value.encode()),
    "items": lambda value: _encode_bytes(1, _encode_message("schema", value)),
    "answer": lambda value: _encode_bytes(1, _encode_message("schema", value)),
    "security": _encode_security_requirement,
    "securities": _encode_security_definitions,
}
