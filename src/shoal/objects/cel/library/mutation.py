"""Values of mutating expressions: `Object.spec{replicas: 3}` and `JSONPatch{op: "add", …}`.

Objects have no schema here: every field may be set to any value. `type_name_errors` checks at run time that each type
name is the path of its field.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.library.times import format_duration, format_timestamp
from shoal.objects.cel.overloads import Overload, function_overload, traversal_cost
from shoal.objects.cel.types import DYN, STRING, CELType
from shoal.objects.cel.values import Duration, OptionalValue, StructValue, Timestamp, UInt, Value

_MAX_SAFE_INTEGER = (1 << 53) - 1
"""Larger integers are not exact in every JSON parser."""


class _AnyField(Mapping[str, CELType]):
    def __getitem__(self, name: str) -> CELType:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_FIELDS = _AnyField()
OBJECT_TYPE = CELType("object", (), "Object", _ANY_FIELDS)
JSON_PATCH_TYPE = CELType("object", (), "JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})


def resolve_struct(name: str) -> CELType | None:
    if name == "JSONPatch":
        return JSON_PATCH_TYPE
    if name == "Object":
        return OBJECT_TYPE
    return CELType("object", (), name, _ANY_FIELDS) if name.startswith("Object.") else None


def type_name_errors(value: Value, path: str) -> list[str]:
    """Returns an error for each object whose type name is not its path."""
    if value.__class__ is StructValue:
        errors = []
        if value.kind != path:
            errors.append(
                f'unexpected type name "{value.kind}", expected "{path}", which matches field name path from root '
                "Object type"
            )
        return errors + [
            wrong for name, inner in value.fields.items() for wrong in type_name_errors(inner, f"{path}.{name}")
        ]
    inside = value.values() if value.__class__ is dict else value if isinstance(value, list) else ()
    return [wrong for inner in inside for wrong in type_name_errors(inner, path)]


def to_json(value: Value) -> Any:
    """Converts to JSON. Raises CELError for a value without a JSON form."""
    kind = value.__class__
    if value is None or kind in (bool, str):
        return value
    if kind is int or kind is UInt:
        return int(value) if -_MAX_SAFE_INTEGER <= value <= _MAX_SAFE_INTEGER else str(int(value))
    if kind is float:
        return int(value) if value.is_integer() and abs(value) <= _MAX_SAFE_INTEGER else value
    if kind is StructValue:
        return {name: to_json(inner) for name, inner in value.fields.items()}
    if kind is dict:
        if any(key.__class__ is not str for key in value):
            raise CELError("a map with keys other than strings cannot be written as JSON")
        return {key: to_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_json(inner) for inner in value]
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is Timestamp:
        return format_timestamp(value)
    if kind is Duration:
        return format_duration(value)
    what = "optional_type" if kind is OptionalValue else getattr(value, "kind", kind.__name__)
    raise CELError(f"a value of type {what} cannot be written as JSON")


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


OVERLOADS: list[Overload] = [function_overload("jsonpatch.escapeKey", (STRING,), STRING, _escape_key, traversal_cost)]
