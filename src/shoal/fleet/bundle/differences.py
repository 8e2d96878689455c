"""Compares an object in a cluster with the bundle's desired one. Pure.

What others add (defaults, a status, their own annotations, a sidecar) is ignored; every field of the bundle must match.
A list whose items have names is compared by name, any other as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(wanted: Any, found: Any, path: str = "") -> str:
    """Returns the path of the first difference, such as `spec.replicas`; empty if there is none. It never contains a
    value.
    """
    if isinstance(wanted, Mapping):
        return _in_object(wanted, found, path)
    if isinstance(wanted, list):
        return _in_list(wanted, found, path)
    return "" if wanted == found else path


def _in_object(wanted: Mapping[str, Any], found: Any, path: str) -> str:
    if not isinstance(found, Mapping):
        return "" if not wanted and found is None else path
    for key, value in wanted.items():
        where = difference(value, found.get(key), f"{path}.{key}" if path else key)
        if where:
            return where
    return ""


def _in_list(wanted: list[Any], found: Any, path: str) -> str:
    there = found if isinstance(found, list) else []
    names = [item.get("name") if isinstance(item, Mapping) else None for item in wanted]
    if not wanted or None in names:
        if len(wanted) != len(there):
            return path
        pairs = [(str(number), *pair) for number, pair in enumerate(zip(wanted, there, strict=True))]
    else:
        by_name = {item.get("name"): item for item in there if isinstance(item, Mapping)}
        pairs = [(str(name), item, by_name.get(name)) for name, item in zip(names, wanted, strict=True)]
    for label, item, other in pairs:
        where = difference(item, other, f"{path}[{label}]")
        if where:
            return where
    return ""
