"""Correlates the values of an update with their old values, to tell if they changed (upstream's CorrelatedObject).

Only maps and lists of type map keep their members apart. Below anything else the nearest correlatable parent decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.objects.schema.validate import same

Json = Any
JsonSchema = dict[str, Any]


class _Pair(NamedTuple):
    value: Json
    old: Json
    schema: JsonSchema


@dataclass(frozen=True, slots=True)
class Correlation:
    here: _Pair | None = None
    nearest: _Pair | None = None
    """The closest parent that could be correlated."""

    def unchanged(self) -> bool:
        pair = self.here if self.here is not None else self.nearest
        return pair is not None and _equal(pair)

    def uncorrelated(self) -> Correlation:
        return Correlation(None, self.nearest)

    def key(self, name: str) -> Correlation:
        if self.here is None:
            return self
        if self.nearest is None and name in ("apiVersion", "kind"):
            return CREATED
        return Correlation(_key(self.here, name), self.here)

    def index(self, index: int) -> Correlation:
        if self.here is None:
            return self
        return Correlation(_index(self.here, index), self.here)


CREATED = Correlation()


def of_update(obj: Json, old: Json, schema: JsonSchema) -> Correlation:
    return Correlation(_Pair(obj, old, schema))


def by_key(schema: JsonSchema, old: Json) -> Callable[[Json], Json]:
    """Returns a function that finds the old item of a list of type map. For other lists it finds none."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not keys or old.__class__ is not list:
        return lambda _: None

    def identity(item: Json) -> tuple[str, ...] | None:
        return tuple(repr(item.get(key)) for key in keys) if item.__class__ is dict else None

    known = {identity(item): item for item in reversed(old)}
    return lambda item: known.get(identity(item)) if item.__class__ is dict else None


def _key(pair: _Pair, name: str) -> _Pair | None:
    value, old, schema = pair
    if value.__class__ is not dict or old.__class__ is not dict or name not in value or name not in old:
        return None
    inner = (schema.get("properties") or {}).get(name)
    if inner is None:
        inner = schema.get("additionalProperties")
    return _Pair(value[name], old[name], inner) if isinstance(inner, dict) else None


def _index(pair: _Pair, index: int) -> _Pair | None:
    value, old, schema = pair
    if value.__class__ is not list or not isinstance(schema.get("items"), dict):
        return None
    found = by_key(schema, old)(value[index])
    return None if found is None else _Pair(value[index], found, schema["items"])


def _equal(pair: _Pair) -> bool:
    value, old, schema = pair
    if value.__class__ is list and old.__class__ is list:
        if schema.get("x-kubernetes-list-type") != "map":
            return same(value, old)
        known = by_key(schema, old)
        items = schema.get("items") or {}
        return len(value) == len(old) and all(_equal(_Pair(item, known(item), items)) for item in value)
    if value.__class__ is dict and old.__class__ is dict:
        # As upstream, an unknown field counts as changed.
        pairs = [_key(pair, name) for name in value]
        return len(value) == len(old) and all(inner is not None and _equal(inner) for inner in pairs)
    return same(value, old)
