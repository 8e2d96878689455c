"""List and set functions."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from shoal.objects.cel.errors import CelError, no_overload
from shoal.objects.cel.overloads import TRAVERSAL, Overload, function, method, through
from shoal.objects.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    optional_of,
    param,
)
from shoal.objects.cel.values import NONE, Duration, Optional, UInt, Value, contains, equal, kind_of

T = param("T")
LIST_T = list_of(T)
COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_SUMMABLE: tuple[tuple[Type, Any], ...] = ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))
_ALLOCATED = 11
_MAX_ITEMS = 1_000_000
"""Maximum items of a list built from a number alone."""


def compared(a: Value, b: Value) -> int:
    kind, other = kind_of(a), kind_of(b)
    if kind != other and {kind, other} - {"int", "uint", "double"}:
        raise no_overload()
    if a != a or b != b:
        raise CelError("NaN values cannot be ordered")
    try:
        return -1 if a < b else int(a > b)
    except TypeError:
        raise no_overload() from None


def _is_sorted(items: list[Value]) -> bool:
    return all(compared(a, b) <= 0 for a, b in pairwise(items))


def _sum(zero: Value, kind: Any) -> Any:
    low, high, told = -(1 << 63), (1 << 63) - 1, "integer overflow"
    if kind is UInt:
        low, high, told = 0, (1 << 64) - 1, "unsigned integer overflow"
    elif kind is Duration:
        told = "duration overflow"

    def run(items: list[Value]) -> Value:
        total: Any = zero if kind is float else 0
        for item in items:
            if item.__class__ is not kind:
                raise no_overload()
            total = total + item if kind is float else total + int(item)
            if kind is not float and not low <= total <= high:
                raise CelError(told)
        return total if kind in (int, float) else kind(total)

    return run


def _extreme(name: str, sign: int) -> Any:
    def run(items: list[Value]) -> Value:
        if not items:
            raise CelError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compared(best, item) == sign:
                best = item
        return best

    return run


def _index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], wanted)), -1)


def _slice(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise CelError("level must be non-negative")
    level = list(items)
    for _ in range(depth):
        if not any(isinstance(item, list) for item in level):
            break
        level = [inner for item in level for inner in (item if isinstance(item, list) else (item,))]
    return level


def _distinct(items: list[Value]) -> list[Value]:
    found: list[Value] = []
    for item in items:
        if not contains(found, item):
            found.append(item)
    return found


def sort_by(items: list[Value], keys: list[Value]) -> list[Value]:
    kinds = {kind_of(key) for key in keys}
    if len(kinds) > 1:
        raise CelError("list elements must have the same type")
    if kinds and not kinds <= {kind.kind for kind in COMPARABLE}:
        raise CelError("list elements must be comparable")

    def order(a: tuple[Value, Value], b: tuple[Value, Value]) -> int:
        return compared(a[0], b[0])

    return [item for _, item in sorted(zip(keys, items, strict=True), key=cmp_to_key(order))]


def _range(count: int) -> list[int]:
    if count > _MAX_ITEMS:
        raise CelError(f"lists.range: more than {_MAX_ITEMS} items")
    return list(range(count))


def _made(items: list[Value], *_: Value) -> int:
    return _ALLOCATED + len(items)


def self_compared(items: list[Value], *_: Value) -> int:
    factor = 2 + TRAVERSAL if items and items[0].__class__ in (str, bytes) else 2.0
    return _ALLOCATED + int(len(items) ** 2 * factor)


def _flatten_cost(items: list[Value], depth: int = 1) -> int:
    return _ALLOCATED + max(depth, 0) * len(items)


def _sets_contain(items: list[Value], wanted: list[Value]) -> bool:
    return all(contains(items, item) for item in wanted)


def _product_cost(factor: int) -> Any:
    return lambda a, b: 1 + factor * len(a) * len(b)


def _first(items: list[Value]) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: list[Value]) -> Optional:
    return Optional(items[-1]) if items else NONE


OVERLOADS: list[Overload] = [
    *(method("isSorted", (list_of(kind),), BOOL, _is_sorted, through) for kind in COMPARABLE),
    *(method("sum", (list_of(kind),), kind, _sum(zero, zero.__class__), through) for kind, zero in _SUMMABLE),
    *(method("max", (list_of(kind),), kind, _extreme("max", -1), through) for kind in COMPARABLE),
    *(method("min", (list_of(kind),), kind, _extreme("min", 1), through) for kind in COMPARABLE),
    method("indexOf", (LIST_T, T), INT, _index_of, through),
    method("lastIndexOf", (LIST_T, T), INT, _last_index_of, through),
    method("slice", (LIST_T, INT, INT), LIST_T, _slice, lambda _, start, end: _ALLOCATED + max(end - start, 0)),
    method("flatten", (list_of(LIST_T),), LIST_T, _flatten, _flatten_cost),
    method("flatten", (list_of(DYN), INT), list_of(DYN), _flatten, _flatten_cost),
    *(
        method("sort", (list_of(kind),), list_of(kind), lambda items: sort_by(items, items), self_compared)
        for kind in COMPARABLE
    ),
    function("lists.range", (INT,), list_of(INT), _range, lambda count: _ALLOCATED + max(count, 0)),
    method("reverse", (LIST_T,), LIST_T, lambda items: items[::-1], _made),
    method("distinct", (LIST_T,), LIST_T, _distinct, self_compared),
    method("first", (LIST_T,), optional_of(T), _first),
    method("last", (LIST_T,), optional_of(T), _last),
    function("sets.contains", (LIST_T, LIST_T), BOOL, _sets_contain, _product_cost(1)),
    function(
        "sets.equivalent",
        (LIST_T, LIST_T),
        BOOL,
        lambda a, b: _sets_contain(a, b) and _sets_contain(b, a),
        _product_cost(2),
    ),
    function(
        "sets.intersects", (LIST_T, LIST_T), BOOL, lambda a, b: any(contains(b, item) for item in a), _product_cost(1)
    ),
]
