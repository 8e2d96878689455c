"""Converts objects to a meta.k8s.io Table, as printed by `kubectl get`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from shoal.apiserver.registry.registry import Resource
from shoal.kinds.column import Column
from shoal.objects.duration import human_age, parse_time
from shoal.objects.errors import BadRequest, format_value
from shoal.objects.jsonpath import compile_path as compile_path

Object = dict[str, Any]

_NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may \
allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
creation idempotence and configuration definition. Cannot be updated."
)
_AGE_DESCRIPTION = "CreationTimestamp is a timestamp representing the server time when this object was created."
_DEFAULT_COLUMNS = (Column("Age", type="date", description=_AGE_DESCRIPTION, path=".metadata.creationTimestamp"),)


def make_table(
    resource: Resource,
    objects: list[Object],
    *,
    version: str,
    include_object: str,
    now: float,
    metadata: Object,
    headers: bool = True,
) -> Object:
    """`include_object` is the includeObject parameter: None, Metadata (the default) or Object."""
    check_include_object(include_object)
    columns = resource.columns or _DEFAULT_COLUMNS
    cells = [_cell_function(column) for column in columns]
    if not _has_name(columns):
        cells.insert(0, _name)
    rows = [_row(obj, [cell(obj, now) for cell in cells], version, include_object) for obj in objects]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": _column_definitions(columns) if headers else None,
        "rows": rows,
    }


def _has_name(columns: tuple[Column, ...]) -> bool:
    """Only a built-in kind may have the name elsewhere than first."""
    return any(column.name == "Name" and column.cell is not None for column in columns)


def _name(obj: Object, now: float) -> object:
    return obj["metadata"].get("name", "")


def _column_definitions(columns: tuple[Column, ...]) -> list[Object]:
    first = [] if _has_name(columns) else [_NAME_COLUMN]
    return first + [_column_definition(column) for column in columns]


def check_include_object(include: str) -> None:
    if include not in ("", "None", "Metadata", "Object"):
        raise BadRequest(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {format_value(include)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )


def _row(obj: Object, cells: list[object], version: str, include_object: str) -> Object:
    if include_object == "Object":
        return {"cells": cells, "object": obj}
    if include_object == "None":
        return {"cells": cells, "object": None}
    kind, api_version = "PartialObjectMetadata", f"meta.k8s.io/{version}"
    return {"cells": cells, "object": {"kind": kind, "apiVersion": api_version, "metadata": obj["metadata"]}}


_NAME_COLUMN: Object = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": _NAME_DESCRIPTION,
    "priority": 0,
}


def _column_definition(column: Column) -> Object:
    described = f"Custom resource definition column (in JSONPath format): {column.path}" if column.path else ""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or described,
        "priority": column.priority,
    }


@lru_cache(maxsize=1024)
def _cell_function(column: Column) -> Callable[[Object, float], object]:
    if column.cell is not None:
        return column.cell
    find = compile_path(column.path)

    def cell(obj: Object, now: float) -> object:
        found = find(obj)
        return _format_value(found[0], column.type, now) if found else None

    return cell


def _format_value(value: Any, kind: str, now: float) -> object:
    """Formats a value by its column's type. A value that does not fit the type is left empty, as upstream."""
    if kind == "string":
        return _text(value)
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _age(moment: str, now: float) -> str:
    # An empty time is not set yet; any other text that is not a time is invalid.
    return human_age(moment, now) if not moment or parse_time(moment) is not None else "<invalid>"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return str(value)
