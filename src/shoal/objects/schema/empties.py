"""Go's `omitempty` for built-in kinds: drops what Go would not write again (empty lists and maps, zeros, nulls).

Go reads a null in a map or list of strings as an empty string, and one in a list of structs as an empty struct. It
writes every time in UTC. The object is changed in place, before any other processing. Custom resources keep what they
were given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.objects import gotime
from shoal.objects.gostructs import Struct, kind_of, struct_of

Schema = dict[str, Any]
Resolve = Callable[[str], Schema]
_KEPT = frozenset(("managedFields",))
"""An empty managedFields has a meaning: it resets them."""
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_TIMES = {f"{_META}Time": gotime.SECONDS, f"{_META}MicroTime": gotime.MICROSECONDS}


class Empties:
    """The omitempty rules of one kind."""

    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        self._plan, self._resolve = _Plan(schema, kind_of(schema)), resolve

    def drop(self, obj: dict[str, Any]) -> None:
        _drop(obj, self._plan, self._resolve)


class _Plan:
    """The rules of one struct: fields omitted if empty or null, its maps of strings, and its nested structs."""

    __slots__ = ("inner", "lists", "nullable", "optional", "struct", "texts", "times")

    def __init__(self, schema: Schema, struct: Struct | None) -> None:
        properties = schema.get("properties") or {}
        needed = {*(schema.get("required") or ()), *(struct.always if struct else ())}
        holders = {name: _holder(each) for name, each in properties.items() if name not in needed}
        holders |= struct.omitted if struct else {}
        self.optional = {name: found for name, found in holders.items() if found is not None and name not in _KEPT}
        self.nullable = struct.nullable - _KEPT if struct else frozenset[str]()
        self.struct = bool(properties)
        self.lists = frozenset(name for name, each in properties.items() if _items_are_texts(each))
        self.texts = frozenset(name for name, each in properties.items() if _of_texts(each))
        self.inner = {name: found for name, each in properties.items() if (found := _reference(each))}
        self.times = {name: _TIMES[found] for name, found in self.inner.items() if found in _TIMES}


def _drop(obj: dict[str, Any], plan: _Plan, resolve: Resolve) -> None:
    empty: list[str] = []
    for key, value in obj.items():
        kind = value.__class__
        if not value:
            if plan.optional.get(key) is kind or (value is None and key in plan.nullable):
                empty.append(key)
            continue
        if kind is not dict and kind is not list:
            if key in plan.times and kind is str:
                obj[key] = gotime.written(value, plan.times[key])
            continue
        inner = plan.inner.get(key)
        if inner is not None:
            _drop_inside(value, _named(inner, resolve), resolve)
        elif key in plan.texts and kind is dict and None in value.values():
            obj[key] = {name: "" if text is None else text for name, text in value.items()}
        elif key in plan.lists and kind is list and None in value:
            obj[key] = ["" if text is None else text for text in value]
    for key in empty:
        del obj[key]


def _drop_inside(value: Any, plan: _Plan, resolve: Resolve) -> None:
    if value.__class__ is dict:
        _drop(value, plan, resolve)
        return
    for i, each in enumerate(value):
        if each.__class__ is dict:
            _drop(each, plan, resolve)
        elif each is None and plan.struct:
            value[i] = {}


def _items_are_texts(schema: Schema) -> bool:
    return schema.get("type") == "array" and (schema.get("items") or {}).get("type") == "string"


def _of_texts(schema: Schema) -> bool:
    inner = schema.get("additionalProperties")
    return isinstance(inner, dict) and inner.get("type") == "string"


def _holder(schema: Schema) -> type | None:
    """Returns the Python type of a list or map field."""
    if schema.get("type") == "array":
        return list
    return dict if schema.get("type") == "object" and "additionalProperties" in schema else None


def _reference(schema: Schema) -> str:
    """Returns the definition of a field or of its items. Maps of structs are not followed."""
    if schema.get("type") == "array":
        schema = schema.get("items") or {}
    found = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf") or () if "$ref" in part), "")
    return str(found).rpartition("/")[2]


@lru_cache(maxsize=4096)
def _named(name: str, resolve: Resolve) -> _Plan:
    return _Plan(resolve(name), struct_of(name))
