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
_SCHEMA = "apiextensions/v1.JSONSchemaProps"


class Field(NamedTuple):
    number: int
    name: str
    """JSON name. Empty if the message's fields are inlined into its parent."""
    shape: str
    """`""` a value, `*` a pointer, `[]` a list, `{}` a map with string keys."""
    type: str
    """string, bytes (base64 in JSON), raw (bytes as they are), int, bool, double, embedded (JSON in bytes),
    a special type or a message."""
    keep: int
    """1 if JSON shows the zero value."""


@dataclass(frozen=True, slots=True)
class Special:
    """A type with its own JSON form. `to_json` returns None for what Go writes as null."""

    fields: list[Field]
    to_json: Callable[[dict[str, Any]], Any]
    from_json: Callable[[Any], dict[str, Any]]
    zero: Any = None


@cache
def _tables() -> dict[str, Any]:
    return dict(orjson.loads(pkgutil.get_data(__package__, "protobuf_fields.json") or b"{}"))


def message_of(api_version: str, kind: str) -> str | None:
    """Returns the message name of a kind. Some kinds (DeleteOptions, Status) belong to every group."""
    kinds = _tables()["kinds"]
    found: str | None = kinds.get(f"{api_version}/{kind}") or kinds.get(f"*/{kind}")
    return found


def fields_of(message: str) -> list[Field]:
    if message in SPECIAL:
        return SPECIAL[message].fields
    if message in _ENVELOPE:
        return _ENVELOPE[message]
    return [Field(*row) for row in _tables()["types"][message]]


_ENVELOPE: dict[str, list[Field]] = {
    "TypeMeta": [Field(1, "apiVersion", "", "string", 1), Field(2, "kind", "", "string", 1)],
    "Unknown": [
        Field(1, "typeMeta", "", "TypeMeta", 1),
        Field(2, "raw", "*", "raw", 0),
        Field(3, "contentEncoding", "", "string", 0),
        Field(4, "contentType", "", "string", 0),
    ],
}


def _time(timestamp: dict[str, Any]) -> str | None:
    if not timestamp:
        return None
    return (_EPOCH + timedelta(seconds=timestamp.get("seconds", 0))).isoformat() + "Z"


def _microtime(timestamp: dict[str, Any]) -> str | None:
    if not timestamp:
        return None
    since = timedelta(seconds=timestamp.get("seconds", 0), microseconds=timestamp.get("nanos", 0) // 1000)
    return (_EPOCH + since).isoformat(timespec="microseconds") + "Z"


def _from_time(text: str) -> dict[str, Any]:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time {text!r} has no zone")
    since = moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH
    return {"seconds": since.days * 86400 + since.seconds, "nanos": since.microseconds * 1000}


def _from_seconds(text: str) -> dict[str, Any]:
    # Upstream's JSON has whole seconds only, so its protobuf drops the fraction too.
    return _from_time(text) | {"nanos": 0}


def _int_or_string(value: dict[str, Any]) -> int | str:
    return str(value.get("strVal", "")) if value.get("type") else int(value.get("intVal", 0))


def _from_int_or_string(value: int | str) -> dict[str, Any]:
    return {"type": 1, "strVal": value} if isinstance(value, str) else {"type": 0, "intVal": value}


def _schema_or_bool(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("allows", False)


def _from_schema_or_bool(value: Any) -> dict[str, Any]:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": value}


def _either(listed: str) -> tuple[Callable[[dict[str, Any]], Any], Callable[[Any], dict[str, Any]]]:
    """Conversions of a schema, or a list under `list_field`."""
    return (
        lambda value: value[listed] if value.get(listed) else value.get("schema"),
        lambda value: {listed if isinstance(value, list) else "schema": value},
    )


_TIMESTAMP = [Field(1, "seconds", "*", "int", 0), Field(2, "nanos", "*", "int", 0)]

SPECIAL: dict[str, Special] = {
    "time": Special(_TIMESTAMP, _time, _from_seconds),
    "microtime": Special(_TIMESTAMP, _microtime, _from_time),
    "quantity": Special(
        [Field(1, "string", "", "string", 0)],
        lambda value: value.get("string", "0"),
        lambda value: {"string": str(value)},
        zero="0",
    ),
    "intorstring": Special(
        [Field(1, "type", "", "int", 0), Field(2, "intVal", "", "int", 0), Field(3, "strVal", "", "string", 0)],
        _int_or_string,
        _from_int_or_string,
        zero=0,
    ),
    "strings": Special(
        [Field(1, "items", "[]", "string", 0)], lambda value: value.get("items", []), lambda value: {"items": value}
    ),
    "json": Special(
        [Field(1, "raw", "*", "embedded", 0)], lambda value: value.get("raw"), lambda value: {"raw": value}
    ),
    "schemaorbool": Special(
        [Field(1, "allows", "", "bool", 0), Field(2, "schema", "*", _SCHEMA, 0)], _schema_or_bool, _from_schema_or_bool
    ),
    "schemaorarray": Special(
        [Field(1, "schema", "*", _SCHEMA, 0), Field(2, "jSONSchemas", "[]", _SCHEMA, 0)], *_either("jSONSchemas")
    ),
    "schemaorstrings": Special(
        [Field(1, "schema", "*", _SCHEMA, 0), Field(2, "property", "[]", "string", 0)], *_either("property")
    ),
}
