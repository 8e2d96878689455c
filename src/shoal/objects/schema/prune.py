"""Drops undeclared fields in place, in one walk. The hot path of every write of a custom resource.

As upstream does while decoding, a null that is not allowed is dropped too, unless a default will replace it. Dropped
unknown fields can be collected; their paths are computed later, only if there are any.
"""

from __future__ import annotations

from shoal.objects.schema.structural import Json, StructuralNode

DroppedFields = list[tuple[dict[str, Json], str]]
"""(object, key) of every dropped unknown field."""


def prune(
    node: StructuralNode, obj: dict[str, Json], may_have_nulls: bool = True, dropped: DroppedFields | None = None
) -> None:
    """`may_have_nulls=False` skips the search for nulls, which is a third of the work."""
    names = node.known_keys
    if names is not None and not names.issuperset(obj):
        for key in [key for key in obj if key not in names]:
            del obj[key]
            if dropped is not None:
                dropped.append((obj, key))
    if may_have_nulls and None in obj.values():
        _drop_nulls(node, obj)
    if node.is_flat:
        return
    children, extra = node.children, node.additional
    for key, value in obj.items():
        kind = value.__class__
        if kind is dict:
            child = children.get(key, extra)
            if child is not None and (may_have_nulls or not child.is_flat or not child.covers_keys(value)):
                prune(child, value, may_have_nulls, dropped)
        elif kind is list:
            child = children.get(key, extra)
            if child is not None and child.items is not None:
                _prune_list(child.items, value, may_have_nulls, dropped)


def unknown_field_errors(root: dict[str, Json], dropped: DroppedFields) -> list[str]:
    """Returns one message per field that was dropped from `root`, sorted by path."""
    holders = {id(holder) for holder, _ in dropped}
    paths: dict[int, str] = {}
    pending: list[tuple[str, Json]] = [("", root)]
    while pending and len(paths) < len(holders):
        path, value = pending.pop()
        if value.__class__ is dict:
            if id(value) in holders:
                paths[id(value)] = path
            pending.extend((f"{path}.{key}" if path else key, inner) for key, inner in value.items())
        elif value.__class__ is list:
            pending.extend((f"{path}[{index}]", inner) for index, inner in enumerate(value))
    fields = (f"{paths[id(holder)]}.{key}" if paths[id(holder)] else key for holder, key in dropped)
    return [f'unknown field "{path}"' for path in sorted(fields)]


def _prune_list(item: StructuralNode, values: list[Json], may_have_nulls: bool, dropped: DroppedFields | None) -> None:
    for value in values:
        kind = value.__class__
        if kind is dict:
            if may_have_nulls or not item.is_flat or not item.covers_keys(value):
                prune(item, value, may_have_nulls, dropped)
        elif kind is list and item.items is not None:
            _prune_list(item.items, value, may_have_nulls, dropped)


def _drop_nulls(node: StructuralNode, obj: dict[str, Json]) -> None:
    for key in [key for key, value in obj.items() if value is None]:
        child = node.children.get(key, node.additional)
        if child is not None and not child.keeps_null:
            del obj[key]
