"""Operators: arithmetic with overflow checks, comparison across the numeric types, equality, `in`, indexing, size."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import islice
from typing import Any

from shoal.objects.cel.errors import CELError, no_overload
from shoal.objects.cel.overloads import (
    Overload,
    both_traversal_cost,
    comparisons_of_items,
    equality_cost,
    function_overload,
    is_container,
    method_overload,
    nested_nodes,
    shorter_traversal_cost,
)
from shoal.objects.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    CELType,
    list_of,
    map_of,
    optional_of,
    type_param,
)
from shoal.objects.cel.values import (
    INT_MAX,
    INT_MIN,
    OPTIONAL_NONE,
    UINT_MAX,
    Duration,
    OptionalValue,
    Timestamp,
    UInt,
    Value,
    concat_lists,
    contains,
    equal,
)

A, B = type_param("A"), type_param("B")
LIST_A, MAP_AB = list_of(A), map_of(A, B)
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -62135596800 * 10**9, 253402300799 * 10**9 + 999_999_999
_MAX_MIXED_KEYS = 64
_FREE_COPY_ITEMS, _COPIED_ITEMS_PER_UNIT = 1000, 8


def check_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CELError("integer overflow")


def check_uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise CELError("unsigned integer overflow")


def check_duration(value: int) -> Duration:
    if INT_MIN <= value <= INT_MAX:
        return Duration(value)
    raise CELError("duration overflow")


def check_timestamp(value: int) -> Timestamp:
    if _MIN_TIMESTAMP <= value <= _MAX_TIMESTAMP:
        return Timestamp(value)
    raise CELError("timestamp overflow")


def _checked_op(make: Callable[[int], Any], compute: Callable[[Any, Any], int]) -> Callable[[Any, Any], Any]:
    def run(a: int, b: int) -> Any:
        return make(compute(int(a), int(b)))

    return run


def _int_op(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def run(a: int, b: int) -> int:
        result = compute(a, b)
        if INT_MIN <= result <= INT_MAX:
            return result
        raise CELError("integer overflow")

    return run


def _divide(a: int, b: int) -> int:
    if not b:
        raise CELError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: int, b: int) -> int:
    if not b:
        raise CELError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise CELError("integer overflow")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _divide_doubles(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _index(items: list[Value], index: int) -> Value:
    if 0 <= index < len(items):
        return items[index]
    raise CELError(f"index out of bounds: {index}")


def _has_bool_key(entries: dict[Value, Value], key: bool) -> bool:
    """True equals 1 in Python. A map of bools has two entries, and one of mixed keys is rarely long."""
    return any(known is key for known in islice(entries, _MAX_MIXED_KEYS))


def map_index(entries: dict[Value, Value], key: Value) -> Value:
    try:
        if key in entries and (key.__class__ is not bool or _has_bool_key(entries, key)):
            return entries[key]
    except TypeError:
        raise no_overload() from None
    raise CELError(f"no such key: {key}")


def map_has_key(key: Value, entries: dict[Value, Value]) -> bool:
    try:
        return key in entries and (key.__class__ is not bool or _has_bool_key(entries, key))
    except TypeError:
        raise no_overload() from None


def _optional_item(items: Value, index: Value) -> OptionalValue:
    return OptionalValue(items[index]) if 0 <= index < len(items) else OPTIONAL_NONE


def _optional_key(entries: Value, key: Value) -> OptionalValue:
    return OptionalValue(entries[key]) if map_has_key(key, entries) else OPTIONAL_NONE


def _on_optional(run: Callable[[Any, Any], Value], wrap: bool) -> Callable[[OptionalValue, Any], OptionalValue]:
    """Applies a function to the value of an optional. None stays none."""

    def inside(held: OptionalValue, key: Value) -> OptionalValue:
        if not held.present:
            return OPTIONAL_NONE
        return OptionalValue(run(held.value, key)) if wrap else run(held.value, key)

    return inside


def _concat_cost(a: list[Value], b: list[Value]) -> int:
    """One unit as upstream, which concatenates lists without a copy. Here long lists are copied, so they cost more."""
    cost = 1 + max(len(a) + len(b) - _FREE_COPY_ITEMS, 0) // _COPIED_ITEMS_PER_UNIT
    if a.__class__ is not list:  # a set or map: items of both are compared
        cost += comparisons_of_items(a.__class__([*a, *b]))
    return cost


def _in_cost(item: Value, items: list[Value]) -> int:
    return len(items) + (nested_nodes(items) if is_container(item) else 0)


def _reject_nan(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(a: Any, b: Any) -> bool:
        if a != a or b != b:
            raise CELError("NaN values cannot be ordered")
        return compare(a, b)

    return run


def _comparisons() -> list[Overload]:
    overloads = []
    for name, compare in (("_<_", operator.lt), ("_<=_", operator.le), ("_>_", operator.gt), ("_>=_", operator.ge)):
        with_nan = _reject_nan(compare)
        for a in (BOOL, INT, UINT, STRING, BYTES, TIMESTAMP, DURATION, DOUBLE):
            run = with_nan if a is DOUBLE else compare
            overloads.append(
                function_overload(name, (a, a), BOOL, run, shorter_traversal_cost if a in (STRING, BYTES) else None)
            )
        numbers: tuple[CELType, ...] = (INT, UINT, DOUBLE)
        for a in numbers:
            for b in numbers:
                if a is not b:
                    overloads.append(function_overload(name, (a, b), BOOL, with_nan if DOUBLE in (a, b) else compare))
    return overloads


def not_equal(a: Value, b: Value) -> bool:
    return not equal(a, b)


OVERLOADS: list[Overload] = [
    *_comparisons(),
    function_overload("!_", (BOOL,), BOOL, operator.not_),
    function_overload("_==_", (A, A), BOOL, equal, equality_cost),
    function_overload("_!=_", (A, A), BOOL, not_equal, equality_cost),
    function_overload("_+_", (BYTES, BYTES), BYTES, operator.add, both_traversal_cost),
    function_overload("_+_", (DOUBLE, DOUBLE), DOUBLE, operator.add),
    function_overload("_+_", (DURATION, DURATION), DURATION, _checked_op(check_duration, operator.add)),
    function_overload("_+_", (DURATION, TIMESTAMP), TIMESTAMP, _checked_op(check_timestamp, operator.add)),
    function_overload("_+_", (TIMESTAMP, DURATION), TIMESTAMP, _checked_op(check_timestamp, operator.add)),
    function_overload("_+_", (INT, INT), INT, _int_op(operator.add)),
    function_overload("_+_", (LIST_A, LIST_A), LIST_A, concat_lists, _concat_cost),
    function_overload("_+_", (STRING, STRING), STRING, operator.add, both_traversal_cost),
    function_overload("_+_", (UINT, UINT), UINT, _checked_op(check_uint, operator.add)),
    function_overload("_-_", (DOUBLE, DOUBLE), DOUBLE, operator.sub),
    function_overload("_-_", (DURATION, DURATION), DURATION, _checked_op(check_duration, operator.sub)),
    function_overload("_-_", (INT, INT), INT, _int_op(operator.sub)),
    function_overload("_-_", (TIMESTAMP, DURATION), TIMESTAMP, _checked_op(check_timestamp, operator.sub)),
    function_overload("_-_", (TIMESTAMP, TIMESTAMP), DURATION, _checked_op(check_duration, operator.sub)),
    function_overload("_-_", (UINT, UINT), UINT, _checked_op(check_uint, operator.sub)),
    function_overload("_*_", (DOUBLE, DOUBLE), DOUBLE, operator.mul),
    function_overload("_*_", (INT, INT), INT, _int_op(operator.mul)),
    function_overload("_*_", (UINT, UINT), UINT, _checked_op(check_uint, operator.mul)),
    function_overload("_/_", (DOUBLE, DOUBLE), DOUBLE, _divide_doubles),
    function_overload("_/_", (INT, INT), INT, _int_op(_divide)),
    function_overload("_/_", (UINT, UINT), UINT, _checked_op(check_uint, _divide)),
    function_overload("_%_", (INT, INT), INT, _modulo),
    function_overload("_%_", (UINT, UINT), UINT, _checked_op(check_uint, _modulo)),
    function_overload("-_", (DOUBLE,), DOUBLE, operator.neg),
    function_overload("-_", (INT,), INT, lambda a: check_int(-a)),
    function_overload("_[_]", (LIST_A, INT), A, _index),
    function_overload("_[_]", (MAP_AB, A), B, map_index),
    function_overload("_[_]", (optional_of(LIST_A), INT), optional_of(A), _on_optional(_index, True)),
    function_overload("_[_]", (optional_of(MAP_AB), A), optional_of(B), _on_optional(map_index, True)),
    function_overload("_[?_]", (LIST_A, INT), optional_of(A), _optional_item),
    function_overload("_[?_]", (optional_of(LIST_A), INT), optional_of(A), _on_optional(_optional_item, False)),
    function_overload("_[?_]", (MAP_AB, A), optional_of(B), _optional_key),
    function_overload("_[?_]", (optional_of(MAP_AB), A), optional_of(B), _on_optional(_optional_key, False)),
    function_overload("@in", (A, LIST_A), BOOL, lambda item, items: contains(items, item), _in_cost),
    function_overload("@in", (A, MAP_AB), BOOL, map_has_key),
    *(function_overload("size", (kind,), INT, len) for kind in (BYTES, LIST_A, MAP_AB, STRING)),
    *(method_overload("size", (kind,), INT, len) for kind in (BYTES, LIST_A, MAP_AB, STRING)),
]
