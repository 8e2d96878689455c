"""List and set functions."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from shoal.objects.cel.errors import CELError, no_overload
from shoal.objects.cel.overloads import (
    TRAVERSAL_COST,
    Overload,
    function_overload,
    is_container,
    method_overload,
    nested_nodes,
    tree_cost,
)
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
    CELType,
    list_of,
    optional_of,
    type_param,
)
from shoal.objects.cel.values import OPTIONAL_NONE, Duration, OptionalValue, UInt, Value, contains, equal, kind_of

T = type_param("T")
LIST_T = list_of(T)
COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_SUMMABLE: tuple[tuple[CELType, Any], ...] = ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))
_LIST_RESULT_COST = 11
_MAX_RANGE_ITEMS = 1_000_000
"""Maximum items of a list built from a number alone."""


def compare_values(a: Value, b: Value) -> int:
    kind, other = kind_of(a), kind_of(b)
    if kind != other and {kind, other} - {"int", "uint", "double"}:
        raise no_overload()
    if a != a or b != b:
        raise CELError("NaN values cannot be ordered")
    try:
        return -1 if a < b else int(a > b)
    except TypeError:
        raise no_overload() from None


def _is_sorted(items: list[Value]) -> bool:
    return all(compare_values(a, b) <= 0 for a, b in pairwise(items))


def _sum(zero: Value, kind: Any) -> Any:
    low, high, message = -(1 << 63), (1 << 63) - 1, "integer overflow"
    if kind is UInt:
        low, high, message = 0, (1 << 64) - 1, "unsigned integer overflow"
    elif kind is Duration:
        message = "duration overflow"

    def run(items: list[Value]) -> Value:
        total: Any = zero if kind is float else 0
        for item in items:
            if item.__class__ is not kind:
                raise no_overload()
            total = total + item if kind is float else total + int(item)
            if kind is not float and not low <= total <= high:
                raise CELError(message)
        return total if kind in (int, float) else kind(total)

    return run


def _min_or_max(name: str, sign: int) -> Any:
    def run(items: list[Value]) -> Value:
        if not items:
            raise CELError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compare_values(best, item) == sign:
                best = item
        return best

    return run


def _index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], wanted)), -1)


def _slice(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise CELError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CELError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CELError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise CELError("level must be non-negative")
    level = list(items)
    for _ in range(depth):
        if not any(isinstance(item, list) for item in level):
            break
        level = [inner for item in level for inner in (item if isinstance(item, list) else (item,))]
    return level


def _distinct(items: list[Value]) -> list[Value]:
    distinct: list[Value] = []
    for item in items:
        if not contains(distinct, item):
            distinct.append(item)
    return distinct


def sort_by(items: list[Value], keys: list[Value]) -> list[Value]:
    kinds = {kind_of(key) for key in keys}
    if len(kinds) > 1:
        raise CELError("list elements must have the same type")
    if kinds and not kinds <= {kind.kind for kind in COMPARABLE}:
        raise CELError("list elements must be comparable")

    def order(a: tuple[Value, Value], b: tuple[Value, Value]) -> int:
        return compare_values(a[0], b[0])

    return [item for _, item in sorted(zip(keys, items, strict=True), key=cmp_to_key(order))]


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE_ITEMS:
        raise CELError(f"lists.range: more than {_MAX_RANGE_ITEMS} items")
    return list(range(count))


def _copy_cost(items: list[Value], *_: Value) -> int:
    return _LIST_RESULT_COST + len(items)


def pairwise_cost(items: list[Value], *_: Value) -> int:
    factor = 2 + TRAVERSAL_COST if items and items[0].__class__ in (str, bytes) else 2.0
    return _LIST_RESULT_COST + int(len(items) ** 2 * factor) + _nested_comparisons(items, items)


def _nested_comparisons(a: list[Value], b: list[Value]) -> int:
    """Comparisons inside of items, if each of `a` is compared with each of `b`. Upstream does not count them."""
    if not any(map(is_container, a)) or not any(map(is_container, b)):
        return 0
    return min(len(a) * nested_nodes(b), len(b) * nested_nodes(a))


def _flatten_cost(items: list[Value], depth: int = 1) -> int:
    return _LIST_RESULT_COST + max(depth, 0) * len(items) + nested_nodes(items)


def _sets_contain(items: list[Value], wanted: list[Value]) -> bool:
    return all(contains(items, item) for item in wanted)


def _product_cost(factor: int) -> Any:
    return lambda a, b: 1 + factor * (len(a) * len(b) + _nested_comparisons(a, b))


def _first(items: list[Value]) -> OptionalValue:
    return OptionalValue(items[0]) if items else OPTIONAL_NONE


def _last(items: list[Value]) -> OptionalValue:
    return OptionalValue(items[-1]) if items else OPTIONAL_NONE


OVERLOADS: list[Overload] = [
    *(method_overload("isSorted", (list_of(kind),), BOOL, _is_sorted, tree_cost) for kind in COMPARABLE),
    *(
        method_overload("sum", (list_of(kind),), kind, _sum(zero, zero.__class__), tree_cost)
        for kind, zero in _SUMMABLE
    ),
    *(method_overload("max", (list_of(kind),), kind, _min_or_max("max", -1), tree_cost) for kind in COMPARABLE),
    *(method_overload("min", (list_of(kind),), kind, _min_or_max("min", 1), tree_cost) for kind in COMPARABLE),
    method_overload("indexOf", (LIST_T, T), INT, _index_of, tree_cost),
    method_overload("lastIndexOf", (LIST_T, T), INT, _last_index_of, tree_cost),
    method_overload(
        "slice", (LIST_T, INT, INT), LIST_T, _slice, lambda _, start, end: _LIST_RESULT_COST + max(end - start, 0)
    ),
    method_overload("flatten", (list_of(LIST_T),), LIST_T, _flatten, _flatten_cost),
    method_overload("flatten", (list_of(DYN), INT), list_of(DYN), _flatten, _flatten_cost),
    *(
        method_overload("sort", (list_of(kind),), list_of(kind), lambda items: sort_by(items, items), pairwise_cost)
        for kind in COMPARABLE
    ),
    function_overload("lists.range", (INT,), list_of(INT), _range, lambda count: _LIST_RESULT_COST + max(count, 0)),
    method_overload("reverse", (LIST_T,), LIST_T, lambda items: items[::-1], _copy_cost),
    method_overload("distinct", (LIST_T,), LIST_T, _distinct, pairwise_cost),
    method_overload("first", (LIST_T,), optional_of(T), _first),
    method_overload("last", (LIST_T,), optional_of(T), _last),
    function_overload("sets.contains", (LIST_T, LIST_T), BOOL, _sets_contain, _product_cost(1)),
    function_overload(
        "sets.equivalent",
        (LIST_T, LIST_T),
        BOOL,
        lambda a, b: _sets_contain(a, b) and _sets_contain(b, a),
        _product_cost(2),
    ),
    function_overload(
        "sets.intersects", (LIST_T, LIST_T), BOOL, lambda a, b: any(contains(b, item) for item in a), _product_cost(1)
    ),
]
