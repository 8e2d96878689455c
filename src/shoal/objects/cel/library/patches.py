"""Values of mutating expressions: `Object.spec{replicas: 3}` and `JSONPatch{op: "add", …}`.

Objects have no schema here: every field may be set to any value. `type_name_errors` checks at run time that each type
name is the path of its field.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.library.times import show_duration, show_timestamp
from shoal.objects.cel.overloads import Overload, function, traversal
from shoal.objects.cel.types import DYN, STRING, Type
from shoal.objects.cel.values import Duration, Made, Optional, Timestamp, UInt, Value

_SAFE = (1 << 53) - 1
"""Larger integers are not exact in every JSON parser."""


class _AnyField(Mapping[str, Type]):
    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY = _AnyField()
OBJECT = Type("object", (), "Object", _ANY)
PATCH = Type("object", (), "JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})


def struct(name: str) -> Type | None:
    if name == "JSONPatch":
        return PATCH
    if name == "Object":
        return OBJECT
    return Type("object", (), name, _ANY) if name.startswith("Object.") else None


def misnamed(value: Value, path: str) -> list[str]:
    """Returns an error for each object whose type name is not its path."""
    if value.__class__ is Made:
        found = []
        if value.kind != path:
            found.append(
                f'unexpected type name "{value.kind}", expected "{path}", which matches field name path from root '
                "Object type"
            )
        return found + [wrong for name, inner in value.fields.items() for wrong in misnamed(inner, f"{path}.{name}")]
    inside = value.values() if value.__class__ is dict else value if isinstance(value, list) else ()
    return [wrong for inner in inside for wrong in misnamed(inner, path)]


def as_json(value: Value) -> Any:
    """Converts to JSON. Raises CELError for a value without a JSON form."""
    kind = value.__class__
    if value is None or kind in (bool, str):
        return value
    if kind is int or kind is UInt:
        return int(value) if -_SAFE <= value <= _SAFE else str(int(value))
    if kind is float:
        return int(value) if value.is_integer() and abs(value) <= _SAFE else value
    if kind is Made:
        return {name: as_json(inner) for name, inner in value.fields.items()}
    if kind is dict:
        if any(key.__class__ is not str for key in value):
            raise CelError("a map with keys other than strings is no JSON object")
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is Timestamp:
        return show_timestamp(value)
    if kind is Duration:
        return show_duration(value)
    what = "optional_type" if kind is Optional else getattr(value, "kind", kind.__name__)
    raise CelError(f"a value of type {what} cannot be written as JSON")


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


OVERLOADS: list[Overload] = [function("jsonpatch.escapeKey", (STRING,), STRING, _escaped_key, traversal)]
