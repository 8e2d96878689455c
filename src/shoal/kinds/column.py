"""Printer columns, and the columns and cell functions that several API groups share. Pure.

A cell function returns the value of one cell from the object and the current time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.objects.duration import human_age
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]
Cell = Callable[[Object, float], object]

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"
MAX_SHOWN = 3
"""The number of list items a cell shows before `+ n more...`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column. `path` is the JSONPath of a CRD column; built-ins set `cell` instead."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""
    cell: Cell | None = None
    """(object, now) -> cell value."""


def field_cell(*path: str, otherwise: object = None) -> Cell:
    """The value at the path, or `otherwise` if it is absent."""

    def cell(obj: Object, now: float) -> object:
        found: Any = obj
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return otherwise if found is None else found

    return cell


def number_cell(*path: str) -> Cell:
    return field_cell(*path, otherwise=0)


def text_cell(*path: str, otherwise: str = "") -> Cell:
    """The value at the path, or `otherwise` if it is absent or empty."""
    find = field_cell(*path)
    return lambda obj, now: find(obj, now) or otherwise


def count_cell(*path: str) -> Cell:
    """The number of items of the list at the path."""
    find = field_cell(*path, otherwise=())

    def cell(obj: Object, now: float) -> object:
        found: Any = find(obj, now)
        return len(found)

    return cell


def joined_list_cell(*path: str, otherwise: str) -> Cell:
    find = field_cell(*path, otherwise=())

    def cell(obj: Object, now: float) -> object:
        found: Any = find(obj, now)
        return ",".join(found) or otherwise

    return cell


def labels_cell(*path: str) -> Cell:
    find = field_cell(*path)

    def cell(obj: Object, now: float) -> object:
        labels: Any = find(obj, now) or {}
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE

    return cell


def selector_text(selector: Object | None) -> str:
    try:
        return str(from_label_selector(selector))
    except BadRequest:
        return "<error>"


def selector_cell(*path: str) -> Cell:
    find = field_cell(*path)

    def cell(obj: Object, now: float) -> object:
        found: Any = find(obj, now)
        return selector_text(found) or NONE

    return cell


def container_columns(*path: str, priority: int = 1) -> tuple[Column, Column]:
    """Names and images of the containers of the pod template at the path."""
    return (
        Column("Containers", priority=priority, cell=_container_fields("name", *path)),
        Column("Images", priority=priority, cell=_container_fields("image", *path)),
    )


def _container_fields(field: str, *path: str) -> Cell:
    find = field_cell(*path, "spec", "containers", otherwise=())

    def cell(obj: Object, now: float) -> object:
        containers: Any = find(obj, now)
        return ",".join(container.get(field) or "" for container in containers)

    return cell


def default_class_name_column(annotation: str) -> Column:
    """The column Name of a class kind. The annotation marks the default class."""

    def cell(obj: Object, now: float) -> object:
        marked = (obj["metadata"].get("annotations") or {}).get(annotation) == "true"
        return obj["metadata"]["name"] + (" (default)" if marked else "")

    return Column("Name", format="name", cell=cell)


def _age(obj: Object, now: float) -> object:
    return human_age(obj["metadata"].get("creationTimestamp"), now)


def _created_at(obj: Object, now: float) -> object:
    return obj["metadata"].get("creationTimestamp")


AGE = Column("Age", cell=_age)
CREATED = Column("Created At", type="date", cell=_created_at)
