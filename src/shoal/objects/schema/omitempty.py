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
from shoal.objects.gostructs import GoStruct, struct_of, struct_of_kind

Schema = dict[str, Any]
Resolve = Callable[[str], Schema]
_NEVER_OMITTED = frozenset(("managedFields",))
"""An empty managedFields has a meaning: it resets them."""
_META_V1_PREFIX = "io.k8s.apimachinery.pkg.apis.meta.v1."
_TIME_LAYOUTS = {f"{_META_V1_PREFIX}Time": gotime.SECONDS, f"{_META_V1_PREFIX}MicroTime": gotime.MICROSECONDS}


class OmitEmpty:
    """The omitempty rules of one kind."""

    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        self._plan, self._resolve = _OmitEmptyPlan(schema, struct_of_kind(schema)), resolve

    def apply(self, obj: dict[str, Any]) -> None:
        _omit_in_object(obj, self._plan, self._resolve)


class _OmitEmptyPlan:
    """The rules of one struct: fields omitted if empty or null, its maps of strings, and its nested structs."""

    __slots__ = ("is_struct", "nullable", "omittable", "references", "string_lists", "string_maps", "times")

    def __init__(self, schema: Schema, struct: GoStruct | None) -> None:
        properties = schema.get("properties") or {}
        needed = {*(schema.get("required") or ()), *(struct.always_written if struct else ())}
        holders = {name: _container_type(each) for name, each in properties.items() if name not in needed}
        holders |= struct.omitempty if struct else {}
        self.omittable = {
            name: found for name, found in holders.items() if found is not None and name not in _NEVER_OMITTED
        }
        self.nullable = struct.nullable - _NEVER_OMITTED if struct else frozenset[str]()
        self.is_struct = bool(properties)
        self.string_lists = frozenset(name for name, each in properties.items() if _is_string_list(each))
        self.string_maps = frozenset(name for name, each in properties.items() if _is_string_map(each))
        self.references = {name: found for name, each in properties.items() if (found := _reference(each))}
        self.times = {name: _TIME_LAYOUTS[found] for name, found in self.references.items() if found in _TIME_LAYOUTS}


def _omit_in_object(obj: dict[str, Any], plan: _OmitEmptyPlan, resolve: Resolve) -> None:
    empty: list[str] = []
    for key, value in obj.items():
        kind = value.__class__
        if not value:
            if plan.omittable.get(key) is kind or (value is None and key in plan.nullable):
                empty.append(key)
            continue
        if kind is not dict and kind is not list:
            if key in plan.times and kind is str:
                obj[key] = gotime.normalize_time(value, plan.times[key])
            continue
        inner = plan.references.get(key)
        if inner is not None:
            _omit_in_value(value, _plan_of(inner, resolve), resolve)
        elif key in plan.string_maps and kind is dict and None in value.values():
            obj[key] = {name: "" if text is None else text for name, text in value.items()}
        elif key in plan.string_lists and kind is list and None in value:
            obj[key] = ["" if text is None else text for text in value]
    for key in empty:
        del obj[key]


def _omit_in_value(value: Any, plan: _OmitEmptyPlan, resolve: Resolve) -> None:
    if value.__class__ is dict:
        _omit_in_object(value, plan, resolve)
        return
    for i, each in enumerate(value):
        if each.__class__ is dict:
            _omit_in_object(each, plan, resolve)
        elif each is None and plan.is_struct:
            value[i] = {}


def _is_string_list(schema: Schema) -> bool:
    return schema.get("type") == "array" and (schema.get("items") or {}).get("type") == "string"


def _is_string_map(schema: Schema) -> bool:
    inner = schema.get("additionalProperties")
    return isinstance(inner, dict) and inner.get("type") == "string"


def _container_type(schema: Schema) -> type | None:
    """Returns the Python type of a list or map field."""
    if schema.get("type") == "array":
        return list
    return dict if schema.get("type") == "object" and "additionalProperties" in schema else None


def _reference(schema: Schema) -> str:
    """Returns the definition of a field or of its items. Maps of structs are not followed."""
    if schema.get("type") == "array":
        schema = schema.get("items") or {}
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf") or () if "$ref" in part), "")
    return str(reference).rpartition("/")[2]


@lru_cache(maxsize=4096)
def _plan_of(name: str, resolve: Resolve) -> _OmitEmptyPlan:
    return _OmitEmptyPlan(resolve(name), struct_of(name))
