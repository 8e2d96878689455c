"""Parts of upstream's messages that validation needs beside `shoal.objects.errors`."""

from __future__ import annotations

from typing import Any

from shoal.objects.errors import format_value
from shoal.objects.schema.numbers import go_value

_TYPES: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", type(None): "null",
}  # fmt: skip


def json_type(value: Any) -> str:
    """An integer that does not fit 64 bits is a number, as Go decodes it."""
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        return "number"
    return _TYPES[value.__class__]


def format_in_message(value: Any, quoted: bool = False) -> str:
    """Formats a value inside a message."""
    return value if isinstance(value, str) and not quoted else format_value(go_value(value))
