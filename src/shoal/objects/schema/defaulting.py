"""Applies defaults in place: for absent keys, and for nulls where null is not allowed."""

from __future__ import annotations

from shoal.objects.schema.structural import Json, Node


def default(node: Node, obj: dict[str, Json]) -> None:
    for key, value, nullable in node.fill:
        if key not in obj or (obj[key] is None and not nullable):
            obj[key] = copied(value)
    for key, child in node.below:
        inner = obj.get(key)
        if inner.__class__ is dict:
            default(child, inner)
        elif inner.__class__ is list:
            _default_list(child.items, inner)
    extra = node.extra
    if extra is not None and (extra.defaulting or extra.default is not None):
        _default_map(extra, node, obj)


def _default_map(extra: Node, node: Node, obj: dict[str, Json]) -> None:
    for key in [key for key in obj if key not in node.children]:
        value = obj[key]
        if value is None and not extra.nullable:
            value = obj[key] = copied(extra.default)
        _default_inside(extra, value)


def _default_list(item: Node | None, values: list[Json]) -> None:
    if item is None or not (item.defaulting or item.default is not None):
        return
    for index, value in enumerate(values):
        if value is None and not item.nullable:
            value = values[index] = copied(item.default)
        _default_inside(item, value)


def _default_inside(node: Node, value: Json) -> None:
    if value.__class__ is dict:
        default(node, value)
    elif value.__class__ is list:
        _default_list(node.items, value)


def copied(value: Json) -> Json:
    """A deep copy of parsed JSON."""
    if value.__class__ is dict:
        return {key: copied(inner) for key, inner in value.items()}
    if value.__class__ is list:
        return [copied(inner) for inner in value]
    return value
