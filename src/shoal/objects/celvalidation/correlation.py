"""Correlates the values of an update with their old values, to tell if they changed (upstream's CorrelatedObject).

Only maps and lists of type map keep their members apart. Below anything else the nearest correlatable parent decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.objects.schema.validate import json_equal

Json = Any
JsonSchema = dict[str, Any]


class _ValuePair(NamedTuple):
    value: Json
    old: Json
    schema: JsonSchema


@dataclass(frozen=True, slots=True)
class CorrelatedValue:
    pair: _ValuePair | None = None
    nearest_pair: _ValuePair | None = None
    """The closest parent that could be correlated."""

    def is_unchanged(self) -> bool:
        pair = self.pair if self.pair is not None else self.nearest_pair
        return pair is not None and _is_unchanged(pair)

    def without_pair(self) -> CorrelatedValue:
        return CorrelatedValue(None, self.nearest_pair)

    def key(self, name: str) -> CorrelatedValue:
        if self.pair is None:
            return self
        if self.nearest_pair is None and name in ("apiVersion", "kind"):
            return UNCORRELATED
        return CorrelatedValue(_field_pair(self.pair, name), self.pair)

    def index(self, index: int) -> CorrelatedValue:
        if self.pair is None:
            return self
        return CorrelatedValue(_item_pair(self.pair, index), self.pair)


UNCORRELATED = CorrelatedValue()


def correlate_update(obj: Json, old: Json, schema: JsonSchema) -> CorrelatedValue:
    return CorrelatedValue(_ValuePair(obj, old, schema))


def old_item_finder(schema: JsonSchema, old: Json) -> Callable[[Json], Json]:
    """Returns a function that finds the old item of a list of type map. For other lists it finds none."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not keys or old.__class__ is not list:
        return lambda _: None

    def identity(item: Json) -> tuple[str, ...] | None:
        return tuple(repr(item.get(key)) for key in keys) if item.__class__ is dict else None

    old_items = {identity(item): item for item in reversed(old)}
    return lambda item: old_items.get(identity(item)) if item.__class__ is dict else None


def _field_pair(pair: _ValuePair, name: str) -> _ValuePair | None:
    value, old, schema = pair
    if value.__class__ is not dict or old.__class__ is not dict or name not in value or name not in old:
        return None
    inner = (schema.get("properties") or {}).get(name)
    if inner is None:
        inner = schema.get("additionalProperties")
    return _ValuePair(value[name], old[name], inner) if isinstance(inner, dict) else None


def _item_pair(pair: _ValuePair, index: int) -> _ValuePair | None:
    value, old, schema = pair
    if value.__class__ is not list or not isinstance(schema.get("items"), dict):
        return None
    old_item = old_item_finder(schema, old)(value[index])
    return None if old_item is None else _ValuePair(value[index], old_item, schema["items"])


def _is_unchanged(pair: _ValuePair) -> bool:
    value, old, schema = pair
    if value.__class__ is list and old.__class__ is list:
        if schema.get("x-kubernetes-list-type") != "map":
            return json_equal(value, old)
        find_old = old_item_finder(schema, old)
        items = schema.get("items") or {}
        return len(value) == len(old) and all(_is_unchanged(_ValuePair(item, find_old(item), items)) for item in value)
    if value.__class__ is dict and old.__class__ is dict:
        # As upstream, an unknown field counts as changed.
        pairs = [_field_pair(pair, name) for name in value]
        return len(value) == len(old) and all(inner is not None and _is_unchanged(inner) for inner in pairs)
    return json_equal(value, old)
