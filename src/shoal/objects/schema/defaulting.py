"""Applies defaults in place: for absent keys, and for nulls where null is not allowed."""

from __future__ import annotations

from shoal.objects.schema.structural import Json, StructuralNode


def apply_defaults(node: StructuralNode, obj: dict[str, Json]) -> None:
    for key, value, nullable in node.defaults:
        if key not in obj or (obj[key] is None and not nullable):
            obj[key] = deep_copy(value)
    for key, child in node.defaulting_children:
        inner = obj.get(key)
        if inner.__class__ is dict:
            apply_defaults(child, inner)
        elif inner.__class__ is list:
            _default_list(child.items, inner)
    extra = node.additional
    if extra is not None and (extra.has_defaults or extra.default is not None):
        _default_map(extra, node, obj)


def _default_map(extra: StructuralNode, node: StructuralNode, obj: dict[str, Json]) -> None:
    for key in [key for key in obj if key not in node.children]:
        value = obj[key]
        if value is None and not extra.nullable:
            value = obj[key] = deep_copy(extra.default)
        _default_inside(extra, value)


def _default_list(item: StructuralNode | None, values: list[Json]) -> None:
    if item is None or not (item.has_defaults or item.default is not None):
        return
    for index, value in enumerate(values):
        if value is None and not item.nullable:
            value = values[index] = deep_copy(item.default)
        _default_inside(item, value)


def _default_inside(node: StructuralNode, value: Json) -> None:
    if value.__class__ is dict:
        apply_defaults(node, value)
    elif value.__class__ is list:
        _default_list(node.items, value)


def deep_copy(value: Json) -> Json:
    """A deep copy of parsed JSON."""
    if value.__class__ is dict:
        return {key: deep_copy(inner) for key, inner in value.items()}
    if value.__class__ is list:
        return [deep_copy(inner) for inner in value]
    return value
