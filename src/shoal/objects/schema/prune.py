"""Drops undeclared fields in place, in one walk. The hot path of every write of a custom resource.

As upstream does while decoding, a null that is not allowed is dropped too, unless a default will replace it. Dropped
unknown fields can be collected; their paths are computed later, only if there are any.
"""

from __future__ import annotations

from shoal.objects.schema.structural import Json, Node

Dropped = list[tuple[dict[str, Json], str]]
"""(object, key) of every dropped unknown field."""


def prune(node: Node, obj: dict[str, Json], nulls: bool = True, dropped: Dropped | None = None) -> None:
    """`may_have_nulls=False` skips the search for nulls, which is a third of the work."""
    names = node.names
    if names is not None and not names.issuperset(obj):
        for key in [key for key in obj if key not in names]:
            del obj[key]
            if dropped is not None:
                dropped.append((obj, key))
    if nulls and None in obj.values():
        _drop_nulls(node, obj)
    if node.flat:
        return
    children, extra = node.children, node.extra
    for key, value in obj.items():
        kind = value.__class__
        if kind is dict:
            child = children.get(key, extra)
            if child is not None and (nulls or not child.flat or not child.covers(value)):
                prune(child, value, nulls, dropped)
        elif kind is list:
            child = children.get(key, extra)
            if child is not None and child.items is not None:
                _prune_list(child.items, value, nulls, dropped)


def _prune_list(item: Node, values: list[Json], nulls: bool, dropped: Dropped | None) -> None:
    for value in values:
        kind = value.__class__
        if kind is dict:
            if nulls or not item.flat or not item.covers(value):
                prune(item, value, nulls, dropped)
        elif kind is list and item.items is not None:
            _prune_list(item.items, value, nulls, dropped)


def _drop_nulls(node: Node, obj: dict[str, Json]) -> None:
    for key in [key for key, value in obj.items() if value is None]:
        child = node.children.get(key, node.extra)
        if child is not None and not child.keeps_null:
            del obj[key]
