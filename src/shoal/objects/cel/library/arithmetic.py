"""Operators: arithmetic with overflow checks, comparison across the numeric types, equality, `in`, indexing, size."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from shoal.objects.cel.errors import CelError, no_overload
from shoal.objects.cel.overloads import Overload, both, function, method, shorter
from shoal.objects.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    param,
)
from shoal.objects.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Duration,
    Optional,
    Timestamp,
    UInt,
    Value,
    added,
    contains,
    equal,
)

A, B = param("A"), param("B")
LIST_A, MAP_AB = list_of(A), map_of(A, B)
_FIRST, _LAST = -62135596800 * 10**9, 253402300799 * 10**9 + 999_999_999
_SHORT, _PER_COPIED = 1000, 8


def whole(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def unsigned(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise CelError("unsigned integer overflow")


def span(value: int) -> Duration:
    if INT_MIN <= value <= INT_MAX:
        return Duration(value)
    raise CelError("duration overflow")


def moment(value: int) -> Timestamp:
    if _FIRST <= value <= _LAST:
        return Timestamp(value)
    raise CelError("timestamp overflow")


def _over(make: Callable[[int], Any], compute: Callable[[Any, Any], int]) -> Callable[[Any, Any], Any]:
    def run(a: int, b: int) -> Any:
        return make(compute(int(a), int(b)))

    return run


def _int(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def run(a: int, b: int) -> int:
        found = compute(a, b)
        if INT_MIN <= found <= INT_MAX:
            return found
        raise CelError("integer overflow")

    return run


def _divide(a: int, b: int) -> int:
    if not b:
        raise CelError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: int, b: int) -> int:
    if not b:
        raise CelError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise CelError("integer overflow")
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
    raise CelError(f"index out of bounds: {index}")


def at_key(entries: dict[Value, Value], key: Value) -> Value:
    try:
        if key in entries and (key.__class__ is not bool or any(known is key for known in entries)):
            return entries[key]
    except TypeError:
        raise no_overload() from None
    raise CelError(f"no such key: {key}")


def in_map(key: Value, entries: dict[Value, Value]) -> bool:
    try:
        return key in entries and (key.__class__ is not bool or any(known is key for known in entries))
    except TypeError:
        raise no_overload() from None


def _optional_item(items: Value, index: Value) -> Optional:
    return Optional(items[index]) if 0 <= index < len(items) else NONE


def _optional_key(entries: Value, key: Value) -> Optional:
    return Optional(entries[key]) if in_map(key, entries) else NONE


def _through(run: Callable[[Any, Any], Value], wrap: bool) -> Callable[[Optional, Any], Optional]:
    """Applies a function to the value of an optional. None stays none."""

    def inside(held: Optional, key: Value) -> Optional:
        if not held.present:
            return NONE
        return Optional(run(held.value, key)) if wrap else run(held.value, key)

    return inside


def _copying(a: list[Value], b: list[Value]) -> int:
    """One unit as upstream, which concatenates lists without a copy. Here long lists are copied, so they cost more."""
    return 1 + max(len(a) + len(b) - _SHORT, 0) // _PER_COPIED


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(a: Any, b: Any) -> bool:
        if a != a or b != b:
            raise CelError("NaN values cannot be ordered")
        return compare(a, b)

    return run


def _comparisons() -> list[Overload]:
    found = []
    for name, compare in (("_<_", operator.lt), ("_<=_", operator.le), ("_>_", operator.gt), ("_>=_", operator.ge)):
        with_nan = _ordered(compare)
        for a in (BOOL, INT, UINT, STRING, BYTES, TIMESTAMP, DURATION, DOUBLE):
            run = with_nan if a is DOUBLE else compare
            found.append(function(name, (a, a), BOOL, run, shorter if a in (STRING, BYTES) else None))
        numbers: tuple[Type, ...] = (INT, UINT, DOUBLE)
        for a in numbers:
            for b in numbers:
                if a is not b:
                    found.append(function(name, (a, b), BOOL, with_nan if DOUBLE in (a, b) else compare))
    return found


def not_equal(a: Value, b: Value) -> bool:
    return not equal(a, b)


OVERLOADS: list[Overload] = [
    *_comparisons(),
    function("!_", (BOOL,), BOOL, operator.not_),
    function("_==_", (A, A), BOOL, equal, shorter),
    function("_!=_", (A, A), BOOL, not_equal, shorter),
    function("_+_", (BYTES, BYTES), BYTES, operator.add, both),
    function("_+_", (DOUBLE, DOUBLE), DOUBLE, operator.add),
    function("_+_", (DURATION, DURATION), DURATION, _over(span, operator.add)),
    function("_+_", (DURATION, TIMESTAMP), TIMESTAMP, _over(moment, operator.add)),
    function("_+_", (TIMESTAMP, DURATION), TIMESTAMP, _over(moment, operator.add)),
    function("_+_", (INT, INT), INT, _int(operator.add)),
    function("_+_", (LIST_A, LIST_A), LIST_A, added, _copying),
    function("_+_", (STRING, STRING), STRING, operator.add, both),
    function("_+_", (UINT, UINT), UINT, _over(unsigned, operator.add)),
    function("_-_", (DOUBLE, DOUBLE), DOUBLE, operator.sub),
    function("_-_", (DURATION, DURATION), DURATION, _over(span, operator.sub)),
    function("_-_", (INT, INT), INT, _int(operator.sub)),
    function("_-_", (TIMESTAMP, DURATION), TIMESTAMP, _over(moment, operator.sub)),
    function("_-_", (TIMESTAMP, TIMESTAMP), DURATION, _over(span, operator.sub)),
    function("_-_", (UINT, UINT), UINT, _over(unsigned, operator.sub)),
    function("_*_", (DOUBLE, DOUBLE), DOUBLE, operator.mul),
    function("_*_", (INT, INT), INT, _int(operator.mul)),
    function("_*_", (UINT, UINT), UINT, _over(unsigned, operator.mul)),
    function("_/_", (DOUBLE, DOUBLE), DOUBLE, _divide_doubles),
    function("_/_", (INT, INT), INT, _int(_divide)),
    function("_/_", (UINT, UINT), UINT, _over(unsigned, _divide)),
    function("_%_", (INT, INT), INT, _modulo),
    function("_%_", (UINT, UINT), UINT, _over(unsigned, _modulo)),
    function("-_", (DOUBLE,), DOUBLE, operator.neg),
    function("-_", (INT,), INT, lambda a: whole(-a)),
    function("_[_]", (LIST_A, INT), A, _index),
    function("_[_]", (MAP_AB, A), B, at_key),
    function("_[_]", (optional_of(LIST_A), INT), optional_of(A), _through(_index, True)),
    function("_[_]", (optional_of(MAP_AB), A), optional_of(B), _through(at_key, True)),
    function("_[?_]", (LIST_A, INT), optional_of(A), _optional_item),
    function("_[?_]", (optional_of(LIST_A), INT), optional_of(A), _through(_optional_item, False)),
    function("_[?_]", (MAP_AB, A), optional_of(B), _optional_key),
    function("_[?_]", (optional_of(MAP_AB), A), optional_of(B), _through(_optional_key, False)),
    function("@in", (A, LIST_A), BOOL, lambda item, items: contains(items, item), lambda _, items: len(items)),
    function("@in", (A, MAP_AB), BOOL, in_map),
    *(function("size", (kind,), INT, len) for kind in (BYTES, LIST_A, MAP_AB, STRING)),
    *(method("size", (kind,), INT, len) for kind in (BYTES, LIST_A, MAP_AB, STRING)),
]
