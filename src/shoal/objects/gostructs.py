"""How Go's JSON encodes empty fields of built-in kinds, which their published schemas do not say. Pure.

Read from the table `protobuf_table` uses too, one struct at a time: most servers never need all of it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

_SCALARS: Final[dict[str, type]] = {"string": str, "bytes": str, "bool": bool, "int": int, "double": float}
_CONTAINERS: Final[dict[str, type]] = {"[]": list, "{}": dict}


class GoStruct(NamedTuple):
    omitempty: dict[str, type]
    """Fields omitted if they have the zero value of this type."""
    nullable: frozenset[str]
    """Fields for which null means the same as absent."""
    always_written: dict[str, Any]
    """Fields that are always written, with their zero value: null for lists and maps. Structs are not included."""


_EMPTY_STRUCT: Final = GoStruct({}, frozenset(), {})


def struct_of(definition: str) -> GoStruct | None:
    """Returns the struct of `io.k8s.api.core.v1.PodSpec`, or None if it is not in the table."""
    *_, group, version, name = ("", "", *definition.split("."))
    return _build_struct(f"{group}/{version}.{name}")


def struct_of_kind(schema: Mapping[str, Any]) -> GoStruct | None:
    """Returns the struct of a kind's schema, by its group, version and kind."""
    for gvk in schema.get("x-kubernetes-group-version-kind") or ():
        api_version = f"{gvk.get('group')}/{gvk.get('version')}" if gvk.get("group") else gvk.get("version")
        message = _table_line(f"{api_version}/{gvk.get('kind')}")
        if message is not None:
            return _build_struct(str(message))
    return None


def embedded_struct_of(definition: str, field: str) -> str:
    """Returns the embedded struct that has the field, such as the ProbeHandler of a Probe."""
    *_, group, version, name = ("", "", *definition.split("."))
    for _, own, _, kind, _ in _table_line(f"{group}/{version}.{name}") or ():
        if not own and any(field == row[1] for row in _table_line(kind) or ()):
            return str(kind).rpartition(".")[2]
    return ""


@cache
def _build_struct(message: str) -> GoStruct | None:
    rows = _table_line(message)
    if rows is None:
        return None
    omitted: dict[str, type] = {}
    nullable: set[str] = set()
    always: dict[str, Any] = {}
    for _, name, shape, kind, keep in rows:
        if not name:
            inner = _build_struct(kind) or _EMPTY_STRUCT
            omitted |= inner.omitempty
            nullable |= inner.nullable
            always |= inner.always_written
            continue
        zero_type = _CONTAINERS.get(shape) or (None if shape else _SCALARS.get(kind))
        if not keep and zero_type is not None:
            omitted[name] = zero_type
        elif keep and zero_type is not None:
            always[name] = None if shape else zero_type()
        if not keep or shape not in _CONTAINERS:
            nullable.add(name)
    return GoStruct(omitted, frozenset(nullable), always)


def _table_line(key: str) -> Any:
    text, begin = _table(), b'\n"%b":' % key.encode()
    start = text.find(begin)
    if start < 0:
        return None
    start += len(begin)
    return orjson.loads(text[start : text.index(b"\n", start)].rstrip(b",}"))


@cache
def _table() -> bytes:
    return pkgutil.get_data(__package__, "protobuf_fields.json") or b""
