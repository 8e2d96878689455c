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
_HOLDERS: Final[dict[str, type]] = {"[]": list, "{}": dict}


class Struct(NamedTuple):
    omitted: dict[str, type]
    """Fields omitted if they have the zero value of this type."""
    nullable: frozenset[str]
    """Fields for which null means the same as absent."""
    always: dict[str, Any]
    """Fields that are always written, with their zero value: null for lists and maps. Structs are not included."""


_NOTHING: Final = Struct({}, frozenset(), {})


def struct_of(definition: str) -> Struct | None:
    """Returns the struct of `io.k8s.api.core.v1.PodSpec`, or None if it is not in the table."""
    *_, group, version, name = ("", "", *definition.split("."))
    return _struct(f"{group}/{version}.{name}")


def kind_of(schema: Mapping[str, Any]) -> Struct | None:
    """Returns the struct of a kind's schema, by its group, version and kind."""
    for said in schema.get("x-kubernetes-group-version-kind") or ():
        api_version = f"{said.get('group')}/{said.get('version')}" if said.get("group") else said.get("version")
        message = _line(f"{api_version}/{said.get('kind')}")
        if message is not None:
            return _struct(str(message))
    return None


def embedded(definition: str, field: str) -> str:
    """Returns the embedded struct that has the field, such as the ProbeHandler of a Probe."""
    *_, group, version, name = ("", "", *definition.split("."))
    for _, own, _, kind, _ in _line(f"{group}/{version}.{name}") or ():
        if not own and any(field == row[1] for row in _line(kind) or ()):
            return str(kind).rpartition(".")[2]
    return ""


@cache
def _struct(message: str) -> Struct | None:
    rows = _line(message)
    if rows is None:
        return None
    omitted: dict[str, type] = {}
    nullable: set[str] = set()
    always: dict[str, Any] = {}
    for _, name, shape, kind, keep in rows:
        if not name:
            inner = _struct(kind) or _NOTHING
            omitted |= inner.omitted
            nullable |= inner.nullable
            always |= inner.always
            continue
        held = _HOLDERS.get(shape) or (None if shape else _SCALARS.get(kind))
        if not keep and held is not None:
            omitted[name] = held
        elif keep and held is not None:
            always[name] = None if shape else held()
        if not keep or shape not in _HOLDERS:
            nullable.add(name)
    return Struct(omitted, frozenset(nullable), always)


def _line(key: str) -> Any:
    text, begin = _table(), b'\n"%b":' % key.encode()
    start = text.find(begin)
    if start < 0:
        return None
    start += len(begin)
    return orjson.loads(text[start : text.index(b"\n", start)].rstrip(b",}"))


@cache
def _table() -> bytes:
    return pkgutil.get_data(__package__, "protobuf_fields.json") or b""
