"""Compares an object in a cluster with the bundle's desired one. Pure.

What others add (defaults, a status, their own annotations, a sidecar) is ignored; every field of the bundle must match.
A list whose items have names is compared by name, any other as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def first_difference(desired: Any, actual: Any, path: str = "") -> str:
    """Returns the path of the first difference, such as `spec.replicas`; empty if there is none. It never contains a
    value.
    """
    if isinstance(desired, Mapping):
        return _first_difference_in_map(desired, actual, path)
    if isinstance(desired, list):
        return _first_difference_in_list(desired, actual, path)
    return "" if desired == actual else path


def _first_difference_in_map(desired: Mapping[str, Any], actual: Any, path: str) -> str:
    if not isinstance(actual, Mapping):
        return "" if not desired and actual is None else path
    for key, value in desired.items():
        difference_path = first_difference(value, actual.get(key), f"{path}.{key}" if path else key)
        if difference_path:
            return difference_path
    return ""


def _first_difference_in_list(desired: list[Any], actual: Any, path: str) -> str:
    actual_items = actual if isinstance(actual, list) else []
    names = [item.get("name") if isinstance(item, Mapping) else None for item in desired]
    if not desired or None in names:
        if len(desired) != len(actual_items):
            return path
        pairs = [(str(number), *pair) for number, pair in enumerate(zip(desired, actual_items, strict=True))]
    else:
        by_name = {item.get("name"): item for item in actual_items if isinstance(item, Mapping)}
        pairs = [(str(name), item, by_name.get(name)) for name, item in zip(names, desired, strict=True)]
    for label, item, other in pairs:
        where = first_difference(item, other, f"{path}[{label}]")
        if where:
            return where
    return ""
