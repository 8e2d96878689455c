"""List types and embedded resources: lists of type set and map have no duplicates, and embedded resources have valid
TypeMeta.

Only the branches that lead to such nodes are visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from shoal.objects.errors import Cause, duplicate, invalid_value, required
from shoal.objects.names import is_dns1035_label
from shoal.objects.schema.structural import Json, Node

_UNSET = object()


def duplicates(node: Node, value: Json, path: str = "") -> list[Cause]:
    """Returns a cause for every duplicate item of a set or map list."""
    causes: list[Cause] = []
    if value.__class__ is list:
        if node.keyed is not None:
            causes += _repeated(node.keyed, value, path)
        if node.items is not None and node.items.checked:
            for index, item in enumerate(value):
                causes += duplicates(node.items, item, f"{path}[{index}]")
    elif value.__class__ is dict:
        for inner, child, where in _inside(node, value, path):
            causes += duplicates(child, inner, where)
    return causes


def embedded_resources(node: Node, value: Json, path: str = "", root: bool = True) -> list[Cause]:
    causes: list[Cause] = []
    if value.__class__ is list:
        if node.items is not None and node.items.checked:
            for index, item in enumerate(value):
                causes += embedded_resources(node.items, item, f"{path}[{index}]", False)
    elif value.__class__ is dict:
        if node.embedded and not root:
            causes += _type_meta(value, path)
        for inner, child, where in _inside(node, value, path):
            causes += embedded_resources(child, inner, where, False)
    return causes


def _inside(node: Node, obj: dict[str, Json], path: str) -> list[tuple[Json, Node, str]]:
    found = [(obj[key], child, f"{path}.{key}" if path else key) for key, child in node.look if key in obj]
    extra = node.extra
    if extra is not None and extra.checked:
        found += [(inner, extra, f"{path}[{key}]") for key, inner in obj.items() if key not in node.children]
    return found


def _repeated(keys: tuple[str, ...], items: list[Json], path: str) -> Iterator[Cause]:
    if keys:
        for index, item in enumerate(items):
            if item is not None and item.__class__ is not dict:
                detail = "must be an object for an array of list-type map"
                yield invalid_value(f"{path}[{index}]", item, detail)
                return
    if len(keys) == 1 and len({str(item.get(keys[0])) for item in items if item}) == len(items):
        return
    shown = items
    if keys:
        shown = [{key: item[key] for key in sorted(keys) if key in item} if item else {} for item in items]
    seen: dict[Any, int] = {}
    for index, item in enumerate(shown):
        identity = _identity(item, keys)
        times = seen[identity] = seen.get(identity, 0) + 1
        if times == 2:
            yield duplicate(f"{path}[{index}]", item)


def _identity(item: Json, keys: tuple[str, ...]) -> Any:
    if len(keys) == 1:
        item = item.get(keys[0], _UNSET)
    if item.__class__ is dict or item.__class__ is list:
        return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return item.__class__, item


def _type_meta(resource: dict[str, Json], path: str) -> Iterator[Cause]:
    for key in ("apiVersion", "kind"):
        where = f"{path}.{key}" if path else key
        value = resource.get(key, _UNSET)
        if value is _UNSET:
            yield required(where)
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
