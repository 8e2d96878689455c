"""Protobuf field tables of the built-in kinds, loaded on the first protobuf message.

`protobuf_fields.json` is generated from upstream's Go types (scripts/generate). Types whose JSON is not their message
(times, quantities, embedded JSON…) are defined here with their two conversions.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import orjson

# Without a zone: all arithmetic and output is in UTC.
_EPOCH = datetime(1970, 1, 1)
_JSON_SCHEMA_PROPS = "apiextensions/v1.JSONSchemaProps"


class ProtobufField(NamedTuple):
    number: int
    name: str
    """JSON name. Empty if the message's fields are inlined into its parent."""
    cardinality: str
    """`""` a value, `*` a pointer, `[]` a list, `{}` a map with string keys."""
    type: str
    """string, bytes (base64 in JSON), raw (bytes as they are), int, bool, double, embedded (JSON in bytes),
    a special type or a message."""
    keep_zero: int
    """1 if JSON shows the zero value."""


@dataclass(frozen=True, slots=True)
class SpecialType:
    """A type with its own JSON form. `to_json` returns None for what Go writes as null."""

    fields: list[ProtobufField]
    to_json: Callable[[dict[str, Any]], Any]
    from_json: Callable[[Any], dict[str, Any]]
    zero: Any = None


@cache
def _load_tables() -> dict[str, Any]:
    return dict(orjson.loads(pkgutil.get_data(__package__, "protobuf_fields.json") or b"{}"))


def message_name(api_version: str, kind: str) -> str | None:
    """Returns the message name of a kind. Some kinds (DeleteOptions, Status) belong to every group."""
    kinds = _load_tables()["kinds"]
    name: str | None = kinds.get(f"{api_version}/{kind}") or kinds.get(f"*/{kind}")
    return name


def message_fields(message: str) -> list[ProtobufField]:
    if message in SPECIAL_TYPES:
        return SPECIAL_TYPES[message].fields
    if message in _ENVELOPE_FIELDS:
        return _ENVELOPE_FIELDS[message]
    return [ProtobufField(*row) for row in _load_tables()["types"][message]]


_ENVELOPE_FIELDS: dict[str, list[ProtobufField]] = {
    "TypeMeta": [ProtobufField(1, "apiVersion", "", "string", 1), ProtobufField(2, "kind", "", "string", 1)],
    "Unknown": [
        ProtobufField(1, "typeMeta", "", "TypeMeta", 1),
        ProtobufField(2, "raw", "*", "raw", 0),
        ProtobufField(3, "contentEncoding", "", "string", 0),
        ProtobufField(4, "contentType", "", "string", 0),
    ],
}


def _time_to_json(timestamp: dict[str, Any]) -> str | None:
    if not timestamp:
        return None
    return (_EPOCH + timedelta(seconds=timestamp.get("seconds", 0))).isoformat() + "Z"


def _microtime_to_json(timestamp: dict[str, Any]) -> str | None:
    if not timestamp:
        return None
    since = timedelta(seconds=timestamp.get("seconds", 0), microseconds=timestamp.get("nanos", 0) // 1000)
    return (_EPOCH + since).isoformat(timespec="microseconds") + "Z"


def _microtime_from_json(text: str) -> dict[str, Any]:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time {text!r} has no zone")
    since = moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH
    return {"seconds": since.days * 86400 + since.seconds, "nanos": since.microseconds * 1000}


def _time_from_json(text: str) -> dict[str, Any]:
    # Upstream's JSON has whole seconds only, so its protobuf drops the fraction too.
    return _microtime_from_json(text) | {"nanos": 0}


def _int_or_string_to_json(value: dict[str, Any]) -> int | str:
    return str(value.get("strVal", "")) if value.get("type") else int(value.get("intVal", 0))


def _int_or_string_from_json(value: int | str) -> dict[str, Any]:
    return {"type": 1, "strVal": value} if isinstance(value, str) else {"type": 0, "intVal": value}


def _schema_or_bool_to_json(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("allows", False)


def _schema_or_bool_from_json(value: Any) -> dict[str, Any]:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": value}


def _schema_or_list(list_field: str) -> tuple[Callable[[dict[str, Any]], Any], Callable[[Any], dict[str, Any]]]:
    """Conversions of a schema, or a list under `list_field`."""
    return (
        lambda value: value[list_field] if value.get(list_field) else value.get("schema"),
        lambda value: {list_field if isinstance(value, list) else "schema": value},
    )


_TIMESTAMP_FIELDS = [ProtobufField(1, "seconds", "*", "int", 0), ProtobufField(2, "nanos", "*", "int", 0)]

SPECIAL_TYPES: dict[str, SpecialType] = {
    "time": SpecialType(_TIMESTAMP_FIELDS, _time_to_json, _time_from_json),
    "microtime": SpecialType(_TIMESTAMP_FIELDS, _microtime_to_json, _microtime_from_json),
    "quantity": SpecialType(
        [ProtobufField(1, "string", "", "string", 0)],
        lambda value: value.get("string", "0"),
        lambda value: {"string": str(value)},
        zero="0",
    ),
    "intorstring": SpecialType(
        [
            ProtobufField(1, "type", "", "int", 0),
            ProtobufField(2, "intVal", "", "int", 0),
            ProtobufField(3, "strVal", "", "string", 0),
        ],
        _int_or_string_to_json,
        _int_or_string_from_json,
        zero=0,
    ),
    "strings": SpecialType(
        [ProtobufField(1, "items", "[]", "string", 0)],
        lambda value: value.get("items", []),
        lambda value: {"items": value},
    ),
    "json": SpecialType(
        [ProtobufField(1, "raw", "*", "embedded", 0)], lambda value: value.get("raw"), lambda value: {"raw": value}
    ),
    "schemaorbool": SpecialType(
        [ProtobufField(1, "allows", "", "bool", 0), ProtobufField(2, "schema", "*", _JSON_SCHEMA_PROPS, 0)],
        _schema_or_bool_to_json,
        _schema_or_bool_from_json,
    ),
    "schemaorarray": SpecialType(
        [
            ProtobufField(1, "schema", "*", _JSON_SCHEMA_PROPS, 0),
            ProtobufField(2, "jSONSchemas", "[]", _JSON_SCHEMA_PROPS, 0),
        ],
        *_schema_or_list("jSONSchemas"),
    ),
    "schemaorstrings": SpecialType(
        [ProtobufField(1, "schema", "*", _JSON_SCHEMA_PROPS, 0), ProtobufField(2, "property", "[]", "string", 0)],
        *_schema_or_list("property"),
    ),
}
