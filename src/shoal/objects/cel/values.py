"""Run-time values: JSON values as they are, and the few kinds JSON does not have.

int, float, str, bool, None, bytes, list and dict represent themselves. Equality is CEL's: 1 == 1.0 == 1u, and true is
not 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shoal.objects.cel.errors import CELError

Value = Any

INT_MAX: Final = (1 << 63) - 1
INT_MIN: Final = -(1 << 63)
UINT_MAX: Final = (1 << 64) - 1


class UInt(int):
    """An unsigned 64-bit integer, `1u`."""

    __slots__ = ()


class Duration(int):
    """Nanoseconds."""

    __slots__ = ()


class Timestamp(int):
    """Nanoseconds since 1970-01-01T00:00:00Z."""

    __slots__ = ()


class TypeValue:
    """The value of `type(x)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class OptionalValue:
    """`optional.of(x)`. The one without a value is `OPTIONAL_NONE`."""

    __slots__ = ("present", "value")

    def __init__(self, value: Value, present: bool = True) -> None:
        self.value = value
        self.present = present


OPTIONAL_NONE: Final = OptionalValue(None, False)


class SetList(list[Value]):
    """A list of `x-kubernetes-list-type: set`: equality ignores order, `+` is union."""


class MapList(list[Value]):
    """A list of `x-kubernetes-list-type: map`: equality ignores order, `+` replaces items with the same key."""

    keys: tuple[str, ...] = ()


class OpaqueValue:
    """A value of a library type: an IP, a quantity. `kind` names the type. Two are equal if their `core` is."""

    __slots__ = ("core", "kind", "size")

    def __init__(self, kind: str, core: Value, size: int = 1) -> None:
        self.kind = kind
        self.core = core
        self.size = size


class StructValue:
    """A struct value constructed by an expression. `kind` is the type name."""

    __slots__ = ("fields", "kind")

    def __init__(self, kind: str, fields: dict[str, Value]) -> None:
        self.kind = kind
        self.fields = fields


class LazyVariables:
    """Named values computed on first read. A failed computation fails on every read."""

    __slots__ = ("_cache", "_compute")
    kind = "kubernetes.variables"

    def __init__(self, compute: Callable[[str], Value]) -> None:
        self._compute = compute
        self._cache: dict[str, Value | CELError] = {}

    def read(self, name: str) -> Value:
        if name not in self._cache:
            try:
                self._cache[name] = self._compute(name)
            except CELError as error:
                self._cache[name] = error
        value = self._cache[name]
        if value.__class__ is CELError:
            raise value
        return value


_NUMBERS = (int, float, UInt)
_KIND_NAMES: dict[type, str] = {
    int: "int",
    UInt: "uint",
    float: "double",
    bool: "bool",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    OptionalValue: "optional_type",
}


def kind_of(value: Value) -> str:
    """Returns the name of the run-time type."""
    kind = _KIND_NAMES.get(value.__class__)
    return kind if kind is not None else str(value.kind)


def size_of(value: Value) -> int:
    """Returns the size that costs count: characters, bytes, items or entries; 1 for a scalar."""
    kind = value.__class__
    if kind is str or kind is dict or isinstance(value, (list, bytes)):
        return len(value)
    if kind is OptionalValue and value.present:
        return size_of(value.value)
    return value.size if kind is OpaqueValue else 1


def equal(a: Value, b: Value) -> bool:
    kind, other = a.__class__, b.__class__
    if kind is other:
        if kind is dict:
            return _equal_maps(a, b)
        if kind is OptionalValue:
            return a.present == b.present and (not a.present or equal(a.value, b.value))
        if kind is OpaqueValue:
            return bool(a.kind == b.kind and a.core == b.core)
        if kind is StructValue:
            return a.kind == b.kind and _equal_maps(a.fields, b.fields)
        if not isinstance(a, list):
            return bool(a == b)
    elif kind in _NUMBERS and other in _NUMBERS:
        return bool(a == b)
    if isinstance(a, list) and isinstance(b, list):
        return _equal_lists(a, b)
    return False


def _equal_maps(a: dict[Value, Value], b: dict[Value, Value]) -> bool:
    return len(a) == len(b) and all(key in b and equal(value, b[key]) for key, value in a.items())


def _equal_lists(a: list[Value], b: list[Value]) -> bool:
    if len(a) != len(b):
        return False
    if isinstance(a, SetList):
        if (texts := _string_set(a)) is not None and (others := _string_set(b)) is not None:
            return texts == others
        return all(contains(b, item) for item in a) and all(contains(a, item) for item in b)
    if isinstance(a, MapList):
        known = {map_list_key(item, a.keys): item for item in a}
        return all(equal(known.get(map_list_key(item, a.keys), OPTIONAL_NONE), item) for item in b)
    return all(map(equal, a, b))


def _string_set(items: list[Value]) -> frozenset[str] | None:
    """Returns the items as a set if all are strings. Sets usually hold strings and may be long."""
    return frozenset(items) if all(item.__class__ is str for item in items) else None


def contains(items: list[Value], item_sought: Value) -> bool:
    if item_sought.__class__ is str:
        return item_sought in items
    return any(equal(item, item_sought) for item in items)


def map_list_key(item: Value, keys: tuple[str, ...]) -> tuple[Value, ...]:
    """Returns the key of a map list's item."""
    return tuple((kind_of(item.get(key)), repr(item.get(key))) for key in keys)


def concat_lists(a: list[Value], b: list[Value]) -> list[Value]:
    """`a + b` of lists, with the meaning of their list type."""
    if isinstance(a, SetList):
        if (known_strings := _string_set(a)) is not None and _string_set(b) is not None:
            return SetList([*a, *(text for text in dict.fromkeys(b) if text not in known_strings)])
        joined = SetList(a)
        for item in b:
            if not contains(joined, item):
                joined.append(item)
        return joined
    if isinstance(a, MapList):
        new = {map_list_key(item, a.keys): item for item in b}
        merged = MapList([new.pop(map_list_key(item, a.keys), item) for item in a] + [*new.values()])
        merged.keys = a.keys
        return merged
    return [*a, *b]
