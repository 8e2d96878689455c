"""Converts objects to a meta.k8s.io Table, as printed by `kubectl get`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from shoal.apiserver.registry.registry import Resource
from shoal.kinds.column import Column
from shoal.objects.duration import human_age, parse_time
from shoal.objects.errors import BadRequest, format_value
from shoal.objects.jsonpath import VISITS, PathBudget, compile_path

Object = dict[str, Any]

MIN_INT64 = -(2**63)
_NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may \
allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
creation idempotence and configuration definition. Cannot be updated."
)
_AGE_DESCRIPTION = "CreationTimestamp is a timestamp representing the server time when this object was created."
_VISITS_PER_ROW = 500
"""A row of ten columns that look for a condition among ten visits 250 values."""
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
    make_row = row_maker(resource, version, include_object, now)
    return {**table_head(resource, version, metadata, headers), "rows": [make_row(obj) for obj in objects]}


def row_maker(resource: Resource, version: str, include_object: str, now: float) -> Callable[[Object], Object]:
    """Returns the function that makes the row of an object."""
    check_include_object(include_object)
    columns = resource.columns or _DEFAULT_COLUMNS
    budget = PathBudget(VISITS)
    cells = [column.cell or _path_cell(column, budget) for column in columns]
    if not _has_name(columns):
        cells.insert(0, _name)

    def make_row(obj: Object) -> Object:
        budget.visits += _VISITS_PER_ROW
        return _row(obj, [cell(obj, now) for cell in cells], version, include_object)

    return make_row


def table_head(resource: Resource, version: str, metadata: Object, headers: bool = True) -> Object:
    """A table without its rows."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": _column_definitions(resource.columns or _DEFAULT_COLUMNS) if headers else None,
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


def _path_cell(column: Column, budget: PathBudget) -> Callable[[Object, float], object]:
    find = compile_path(column.path)

    def cell(obj: Object, now: float) -> object:
        found = find(obj, 1, budget)
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
    return _int64(value) if kind == "integer" else value


def _int64(value: float) -> int:
    """As Go converts a number that does not fit."""
    return int(value) if MIN_INT64 <= value < -MIN_INT64 else MIN_INT64


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
