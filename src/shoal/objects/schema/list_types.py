"""List types and embedded resources: lists of type set and map have no duplicates, and embedded resources have valid
TypeMeta.

Only the branches that lead to such nodes are visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from shoal.objects.errors import Cause, duplicate, invalid_value, required_value
from shoal.objects.names import is_dns1035_label
from shoal.objects.schema.structural import Json, StructuralNode

_UNSET = object()


def duplicate_causes(node: StructuralNode, value: Json, path: str = "") -> list[Cause]:
    """Returns a cause for every duplicate item of a set or map list."""
    causes: list[Cause] = []
    if value.__class__ is list:
        if node.list_keys is not None:
            causes += _duplicate_items(node.list_keys, value, path)
        if node.items is not None and node.items.needs_check:
            for index, item in enumerate(value):
                causes += duplicate_causes(node.items, item, f"{path}[{index}]")
    elif value.__class__ is dict:
        for inner, child, where in _checked_children(node, value, path):
            causes += duplicate_causes(child, inner, where)
    return causes


def embedded_resource_causes(node: StructuralNode, value: Json, path: str = "", root: bool = True) -> list[Cause]:
    causes: list[Cause] = []
    if value.__class__ is list:
        if node.items is not None and node.items.needs_check:
            for index, item in enumerate(value):
                causes += embedded_resource_causes(node.items, item, f"{path}[{index}]", False)
    elif value.__class__ is dict:
        if node.is_embedded and not root:
            causes += _validate_type_meta(value, path)
        for inner, child, where in _checked_children(node, value, path):
            causes += embedded_resource_causes(child, inner, where, False)
    return causes


def _checked_children(node: StructuralNode, obj: dict[str, Json], path: str) -> list[tuple[Json, StructuralNode, str]]:
    children = [
        (obj[key], child, f"{path}.{key}" if path else key) for key, child in node.checked_children if key in obj
    ]
    extra = node.additional
    if extra is not None and extra.needs_check:
        children += [(inner, extra, f"{path}[{key}]") for key, inner in obj.items() if key not in node.children]
    return children


def _duplicate_items(keys: tuple[str, ...], items: list[Json], path: str) -> Iterator[Cause]:
    if keys:
        for index, item in enumerate(items):
            if item is not None and item.__class__ is not dict:
                detail = "must be an object for an array of list-type map"
                yield invalid_value(f"{path}[{index}]", item, detail)
                return
    if len(keys) == 1 and len({str(item.get(keys[0])) for item in items if item}) == len(items):
        return
    key_items = items
    if keys:
        key_items = [{key: item[key] for key in sorted(keys) if key in item} if item else {} for item in items]
    seen: dict[Any, int] = {}
    for index, item in enumerate(key_items):
        identity = _item_identity(item, keys)
        times = seen[identity] = seen.get(identity, 0) + 1
        if times == 2:
            yield duplicate(f"{path}[{index}]", item)


def _item_identity(item: Json, keys: tuple[str, ...]) -> Any:
    if len(keys) == 1:
        item = item.get(keys[0], _UNSET)
    if item.__class__ is dict or item.__class__ is list:
        return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return item.__class__, item


def _validate_type_meta(resource: dict[str, Json], path: str) -> Iterator[Cause]:
    for key in ("apiVersion", "kind"):
        where = f"{path}.{key}" if path else key
        value = resource.get(key, _UNSET)
        if value is _UNSET:
            yield required_value(where)
        elif not isinstance(value, str):
            yield invalid_value(where, value, "must be a string")
        elif not value:
            yield invalid_value(where, value, "must not be empty")
        elif key == "apiVersion" and value.count("/") > 1:
            yield invalid_value(where, value, f"unexpected GroupVersion string: {value}")
        elif key == "kind" and (problems := is_dns1035_label(value.lower())):
            yield invalid_value(where, value, f"may have mixed case, but should otherwise match: {','.join(problems)}")
    metadata = resource.get("metadata", _UNSET)
    if metadata is not _UNSET and metadata.__class__ is not dict:
        yield invalid_value(f"{path}.metadata" if path else "metadata", metadata, "must be an object")
