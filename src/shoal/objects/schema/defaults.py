"""Applies the defaults of a schema to an object, up to a size: defaults of list elements multiply with the elements."""

from __future__ import annotations

from shoal.objects.errors import TooLarge
from shoal.objects.schema.structural import Json, StructuralNode

MAX_ADDED_BYTES = 3 * 1024 * 1024
"""What the defaults of one object may add: as much as the largest body has."""


class Defaulter:
    """Applies defaults to one object."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = MAX_ADDED_BYTES

    def apply(self, node: StructuralNode, obj: dict[str, Json]) -> None:
        for key, value, nullable, size in node.defaults:
            if key not in obj or (obj[key] is None and not nullable):
                obj[key] = self._copy(value, size)
        for key, child in node.defaulting_children:
            inner = obj.get(key)
            if inner.__class__ is dict:
                self.apply(child, inner)
            elif inner.__class__ is list:
                self._apply_to_list(child.items, inner)
        extra = node.additional
        if extra is not None and (extra.has_defaults or extra.default is not None):
            self._apply_to_map(extra, node, obj)

    def _apply_to_map(self, extra: StructuralNode, node: StructuralNode, obj: dict[str, Json]) -> None:
        for key in [key for key in obj if key not in node.children]:
            value = obj[key]
            if value is None and not extra.nullable:
                value = obj[key] = self._copy(extra.default, extra.default_size)
            self._apply_inside(extra, value)

    def _apply_to_list(self, item: StructuralNode | None, values: list[Json]) -> None:
        if item is None or not (item.has_defaults or item.default is not None):
            return
        for index, value in enumerate(values):
            if value is None and not item.nullable:
                value = values[index] = self._copy(item.default, item.default_size)
            self._apply_inside(item, value)

    def _apply_inside(self, node: StructuralNode, value: Json) -> None:
        if value.__class__ is dict:
            self.apply(node, value)
        elif value.__class__ is list:
            self._apply_to_list(node.items, value)

    def _copy(self, value: Json, size: int) -> Json:
        self._room -= size
        if self._room < 0:
            raise TooLarge(f"Request entity too large: the defaults of its kind add more than {MAX_ADDED_BYTES} bytes")
        return deep_copy(value)


def deep_copy(value: Json) -> Json:
    """A deep copy of parsed JSON."""
    if value.__class__ is dict:
        return {key: deep_copy(inner) for key, inner in value.items()}
    if value.__class__ is list:
        return [deep_copy(inner) for inner in value]
    return value
