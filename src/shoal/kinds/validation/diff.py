"""Semantic comparison and diff of two specs, for messages that refuse an update. Pure."""

from __future__ import annotations

from typing import Any

from shoal.objects.errors import format_value

_EMPTY: tuple[object, ...] = (None, "", [], {})


def semantic_equal(new: object, old: object) -> bool:
    """Compares like Go's semantic equality: empty and absent values are equal."""
    if isinstance(new, dict) and isinstance(old, dict):
        return new == old or all(semantic_equal(new.get(key), old.get(key)) for key in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return new == old or (len(new) == len(old) and all(map(semantic_equal, new, old)))
    return new == old or (new in _EMPTY and old in _EMPTY)


def diff(new: Any, old: Any, path: str = "") -> str:
    """Returns one line per changed field: `- ` the old value, `+ ` the new one."""
    if isinstance(new, dict) and isinstance(old, dict):
        keys = sorted(new.keys() | old.keys())
        return "".join(diff(new.get(key), old.get(key), f"{path}.{key}" if path else key) for key in keys)
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return "".join(diff(n, o, f"{path}[{i}]") for i, (n, o) in enumerate(zip(new, old, strict=True)))
    if semantic_equal(new, old):
        return ""
    lines = [f"{sign} {path}: {format_value(value)}\n" for sign, value in (("-", old), ("+", new)) if value is not None]
    return "".join(lines)
