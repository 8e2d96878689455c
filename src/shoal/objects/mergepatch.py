"""JSON merge patch (RFC 7386): applies a patch, and computes the patch between two objects.

Inputs are never changed. Everything a patch does not touch is shared with the original.
"""

from __future__ import annotations

from typing import Any

import orjson


def apply(original: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    if not isinstance(original, dict):
        return _without_nulls(patch)
    merged = dict(original)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = apply(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def create(original: dict[str, Any], modified: dict[str, Any]) -> dict[str, Any]:
    """Returns the smallest patch from `original` to `modified`. Empty if they are equal.

    A merge patch cannot set null: members of `modified` that are null become deletions.
    """
    patch: dict[str, Any] = {key: None for key in original if key not in modified}
    for key, new in modified.items():
        if key not in original:
            patch[key] = new
            continue
        old = original[key]
        if old is new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := create(old, new):
                patch[key] = inner
        elif not json_equal(old, new):
            patch[key] = new
    return patch


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values. Unlike Python's, `true`, `1` and `1.0` are three different values."""
    if left is right:
        return True
    if type(left) is not type(right) or left != right:
        return False
    return not isinstance(left, dict | list) or _canonical_json(left) == _canonical_json(right)


def _canonical_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _without_nulls(patch: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in patch.items()
        if value is not None
    }
