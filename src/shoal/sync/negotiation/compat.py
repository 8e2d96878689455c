"""Whether everything one schema accepts another accepts too. Pure.

Only what is known to be safe passes; anything else is named, with its path. Both are structural schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

_MUST_MATCH = (
    *("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength"),
    *("maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "nullable"),
    *("allOf", "anyOf", "oneOf", "not", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-map-type", "x-kubernetes-validations"),
)


def problems(existing: Object, new: Object, path: str = "") -> list[str]:
    """What stands in the way of objects of `existing` in a place of `new`; empty if nothing does."""
    return [] if existing == new else list(_compare(existing, new, path))


def _compare(existing: Object, new: Object, path: str) -> Iterator[str]:
    if existing == new:
        return
    where = path or "the object"
    before, after = existing.get("type"), new.get("type")
    if before != after and (before, after) != ("integer", "number"):
        yield f"{where}: the type is {after or 'any'}, not {before or 'any'}"
        return
    for key in _MUST_MATCH:
        if existing.get(key) != new.get(key):
            yield f"{where}: {key} differs"
    yield from _enums(existing.get("enum"), new.get("enum"), where)
    added = set(new.get("required") or ()) - set(existing.get("required") or ())
    for name in sorted(added):
        yield f"{_below(path, name)}: is required"
    yield from _properties(existing, new, path)
    if "items" in existing:
        yield from _compare(existing["items"], new.get("items") or {}, f"{path}[]")


def _enums(existing: list[Any] | None, new: list[Any] | None, where: str) -> Iterator[str]:
    if new is None:
        return
    if existing is None:
        yield f"{where}: only some values are accepted"
        return
    for value in existing:
        if value not in new:
            yield f"{where}: the value {value!r} is not accepted"


def _properties(existing: Object, new: Object, path: str) -> Iterator[str]:
    others = new.get("additionalProperties")
    offered: Object = new.get("properties") or {}
    for name, schema in (existing.get("properties") or {}).items():
        if name in offered:
            yield from _compare(schema, offered[name], _below(path, name))
        elif isinstance(others, dict):
            yield from _compare(schema, others, _below(path, name))
        elif others is not True and not new.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{_below(path, name)}: is not there"
    before = existing.get("additionalProperties")
    if isinstance(before, dict) and isinstance(others, dict):
        yield from _compare(before, others, f"{path}.*")
    elif before and not others:
        yield f"{path or 'the object'}: additionalProperties are not accepted"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
